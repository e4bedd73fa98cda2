"""The guarantees, and one table of all anomalies: the suite of each anomaly, and when the anomaly is illegal.

`verify`, the Great Expectations suites, the history and the docs all read this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from brokerproof.experiment.abilities import Ability


class Guarantee(StrEnum):
    """The guarantees that a scenario's configuration can promise."""

    AT_MOST_ONCE = "at_most_once"
    AT_LEAST_ONCE = "at_least_once"
    EFFECTIVELY_ONCE = "effectively_once"


class SubscriptionType(StrEnum):
    """The ways in which a subscription shares messages among its consumers."""

    EXCLUSIVE = "exclusive"
    FAILOVER = "failover"
    SHARED = "shared"
    KEY_SHARED = "key_shared"

    @property
    def keeps_order_per_key(self) -> bool:
        """Whether a subscription of this type receives the messages of one key in order."""
        return self is not SubscriptionType.SHARED

    @property
    def shares_messages(self) -> bool:
        """Whether several consumers of a subscription of this type receive messages of one partition at a time."""
        return self in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED)


class Suite(StrEnum):
    """The five suites that come with Brokerproof, each a file in expectations/."""

    COMPLETENESS = "completeness"
    UNIQUENESS = "uniqueness"
    ORDERING = "ordering"
    PLACEMENT = "placement"
    RECOVERY = "recovery"


class Anomaly(StrEnum):
    """The kinds of anomaly: ways in which a message, or its position in a log, can break a rule."""

    LOST = "lost"
    NOT_REPLICATED = "not_replicated"
    UNDELIVERED = "undelivered"
    UNPROVEN = "unproven"
    UNREADABLE = "unreadable"
    PHANTOM = "phantom"
    FAILED_BUT_STORED = "failed_but_stored"
    FAILED_BUT_DELIVERED = "failed_but_delivered"
    DELIVERED_FROM_ELSEWHERE = "delivered_from_elsewhere"
    CORRUPTED = "corrupted"
    STORED_TWICE = "stored_twice"
    DELIVERED_TWICE = "delivered_twice"
    REDELIVERED_AFTER_ACK = "redelivered_after_ack"
    DELIVERED_FROM_TWO_POSITIONS = "delivered_from_two_positions"
    POSITION_CONFLICT = "position_conflict"
    POSITION_MISMATCH = "position_mismatch"
    STORED_OUT_OF_ORDER = "stored_out_of_order"
    DELIVERED_OUT_OF_ORDER = "delivered_out_of_order"
    POSITION_REGRESSED = "position_regressed"
    TWO_ACTIVE_CONSUMERS = "two_active_consumers"
    KEY_ON_TWO_CONSUMERS = "key_on_two_consumers"
    OUTPUT_MISSING = "output_missing"
    OUTPUT_REPEATED = "output_repeated"

    @property
    def facts(self) -> AnomalyFacts:
        return _FACTS[self]


@dataclass(frozen=True, kw_only=True)
class AnomalyFacts:
    """All facts about one anomaly, except the query that finds it.

    The query is `messages/sql/anomalies/NAME.sql` in the package `brokerproof_judging`.
    """

    suite: Suite
    # The words that complete the sentence "such a message …".
    meaning: str
    # A sentence that is true of a run without the anomaly. It is the description of the suite's expectation.
    demand: str
    # The guarantees under which it is illegal. For outputs, it is the guarantee of their subscription's `commit`.
    illegal_under: frozenset[Guarantee] = frozenset(Guarantee)
    # Whether it is illegal only for subscriptions that keep the order of each key.
    needs_order: bool = False
    # The anomaly is not applicable to a messaging system without this ability.
    needs: Ability | None = None
    # The outcomes that such a message can have. A message that was never published has no outcome and no home.
    outcomes: tuple[str, ...] = ("acked", "failed", "unknown")
    # Whether it can be found at a subscription. All other anomalies are found only in logs.
    at_subscriptions: bool = False
    # The types of the subscriptions at which it can be found, None for all. It is not applicable if the scenario has no
    # subscription of these types.
    only_at: frozenset[SubscriptionType] | None = None
    # Whether it is about outputs. It is not applicable if no consumer of the scenario writes outputs.
    of_outputs: bool = False


_NEVER: frozenset[Guarantee] = frozenset()
_UNLESS_AT_MOST_ONCE = frozenset({Guarantee.AT_LEAST_ONCE, Guarantee.EFFECTIVELY_ONCE})
_UNLESS_AT_LEAST_ONCE = frozenset({Guarantee.AT_MOST_ONCE, Guarantee.EFFECTIVELY_ONCE})
_EFFECTIVELY_ONCE = frozenset({Guarantee.EFFECTIVELY_ONCE})


_FACTS: Mapping[Anomaly, AnomalyFacts] = {
    Anomaly.LOST: AnomalyFacts(
        suite=Suite.COMPLETENESS,
        needs=Ability.STORAGE,
        meaning="was acked or seen, and is not stored in its home, whose log was read to its end or past its acks",
        demand="No message that was acked or seen is lost: its home, whose log was read to its end, stores it.",
        illegal_under=_UNLESS_AT_MOST_ONCE,
        outcomes=("acked", "unknown"),
    ),
    Anomaly.NOT_REPLICATED: AnomalyFacts(
        suite=Suite.COMPLETENESS,
        meaning=(
            "was acked or seen, and is not stored in another cluster that had to hold it, "
            "after its drain or a delivery there"
        ),
        demand=(
            "No message that was acked or seen is missing in another cluster: "
            "it is stored in each cluster that replication had to bring it to."
        ),
        illegal_under=_UNLESS_AT_MOST_ONCE,
        needs=Ability.REPLICATION,
        outcomes=("acked", "unknown"),
    ),
    Anomaly.UNDELIVERED: AnomalyFacts(
        suite=Suite.COMPLETENESS,
        needs=Ability.STORAGE,
        meaning="is stored and was never delivered to a subscription there that drained",
        demand="No stored message is undelivered: each one reached every subscription that had to get it.",
        illegal_under=_UNLESS_AT_MOST_ONCE,
        at_subscriptions=True,
    ),
    # Neither legal nor illegal: an unproven message makes the verdict unknown under every guarantee.
    Anomaly.UNPROVEN: AnomalyFacts(
        suite=Suite.COMPLETENESS,
        meaning="would be missing, but the log was not read to its end or nothing proves the drain",
        demand="No message is unproven: every log was read to its end, and every drain is proven.",
        illegal_under=_NEVER,
        at_subscriptions=True,
    ),
    Anomaly.UNREADABLE: AnomalyFacts(
        suite=Suite.COMPLETENESS,
        meaning="was acked in a part of a log that cannot be read although every node that should run is healthy",
        demand="No message is unreadable: healthy nodes can read every part of a log.",
        illegal_under=_UNLESS_AT_MOST_ONCE,
        needs=Ability.POSITIONS,
        outcomes=("acked",),
    ),
    Anomaly.PHANTOM: AnomalyFacts(
        suite=Suite.COMPLETENESS,
        meaning="is stored or was delivered, and was never published",
        demand="No phantom: every message that is stored or was delivered was published.",
        outcomes=(),
        at_subscriptions=True,
    ),
    Anomaly.FAILED_BUT_STORED: AnomalyFacts(
        suite=Suite.COMPLETENESS,
        needs=Ability.STORAGE,
        meaning="failed for certain or was not sent, and is stored",
        demand="No message that failed for certain is stored after all.",
        outcomes=("failed",),
    ),
    Anomaly.FAILED_BUT_DELIVERED: AnomalyFacts(
        suite=Suite.COMPLETENESS,
        meaning="failed for certain or was not sent, and was delivered",
        demand="No message that failed for certain was delivered after all.",
        outcomes=("failed",),
        at_subscriptions=True,
    ),
    Anomaly.DELIVERED_FROM_ELSEWHERE: AnomalyFacts(
        suite=Suite.COMPLETENESS,
        meaning="was delivered from a position, and the log, which was read to its end, holds it only at others",
        demand="No message was delivered from a position where its log does not hold it.",
        needs=Ability.POSITIONS,
        at_subscriptions=True,
    ),
    Anomaly.CORRUPTED: AnomalyFacts(
        suite=Suite.COMPLETENESS,
        meaning="is stored or was delivered with another payload hash or another key than was published",
        demand="No message is corrupted: each one is stored and was delivered with the payload and key of its publish.",
        at_subscriptions=True,
    ),
    Anomaly.STORED_TWICE: AnomalyFacts(
        suite=Suite.UNIQUENESS,
        meaning="is stored at two positions or more of one cluster's topic",
        demand=(
            "No message is stored twice where the guarantee forbids it: each one has one position in a cluster's topic."
        ),
        illegal_under=_UNLESS_AT_LEAST_ONCE,
        needs=Ability.POSITIONS,
    ),
    Anomaly.DELIVERED_TWICE: AnomalyFacts(
        suite=Suite.UNIQUENESS,
        meaning="was delivered again from the same position before an earlier delivery's ack was confirmed",
        demand="No message is delivered again before an earlier ack is confirmed, if the scenario forbids it.",
        illegal_under=_NEVER,
        needs=Ability.POSITIONS,
        at_subscriptions=True,
    ),
    Anomaly.REDELIVERED_AFTER_ACK: AnomalyFacts(
        suite=Suite.UNIQUENESS,
        meaning="was delivered again although an earlier delivery's ack had been confirmed",
        demand="No message is delivered again after its ack was confirmed, if the scenario forbids it.",
        # Deduplication promises that a message is stored once, not that it is delivered once.
        illegal_under=_NEVER,
        needs=Ability.CONFIRMED_ACKS,
        at_subscriptions=True,
    ),
    Anomaly.DELIVERED_FROM_TWO_POSITIONS: AnomalyFacts(
        suite=Suite.UNIQUENESS,
        meaning="was delivered to one subscription from two or more positions of a cluster",
        demand="No message is delivered to a subscription from two positions where the guarantee forbids it.",
        illegal_under=_EFFECTIVELY_ONCE,
        needs=Ability.POSITIONS,
        at_subscriptions=True,
    ),
    Anomaly.POSITION_CONFLICT: AnomalyFacts(
        suite=Suite.UNIQUENESS,
        meaning="shares a position with another message",
        demand="No two messages share a position where they are stored, delivered from, or acked.",
        needs=Ability.POSITIONS,
        at_subscriptions=True,
    ),
    Anomaly.POSITION_MISMATCH: AnomalyFacts(
        suite=Suite.UNIQUENESS,
        meaning="is stored in its home, which was read to its end or past its acks, at none of their positions",
        demand=(
            "No message is stored elsewhere than its acks said: its home holds it at a position that one of them named."
        ),
        needs=Ability.POSITIONS,
        outcomes=("acked",),
    ),
    Anomaly.STORED_OUT_OF_ORDER: AnomalyFacts(
        suite=Suite.ORDERING,
        meaning="is first stored behind a later message of its producer and key",
        demand="No message is stored behind a later one of its producer and key.",
        # `needs_order` is false: the order in the log is the same for every type of subscription.
        needs=Ability.POSITIONS,
    ),
    Anomaly.DELIVERED_OUT_OF_ORDER: AnomalyFacts(
        suite=Suite.ORDERING,
        meaning="is first delivered after a later message of its producer and key",
        demand="No message is delivered after a later one of its producer and key, where the subscription keeps order.",
        needs_order=True,
        needs=Ability.POSITIONS,
        at_subscriptions=True,
    ),
    Anomaly.POSITION_REGRESSED: AnomalyFacts(
        suite=Suite.ORDERING,
        meaning="was acked at or below a position whose ack was settled before it was sent",
        demand="No message is acknowledged at or below a position whose ack was settled before the message was sent.",
        needs=Ability.POSITIONS,
        outcomes=("acked",),
    ),
    # Both are illegal only if samples prove that the consumers stayed the same (`sql/findings.sql`).
    Anomaly.TWO_ACTIVE_CONSUMERS: AnomalyFacts(
        suite=Suite.ORDERING,
        meaning=(
            "was received by a consumer of an exclusive or failover subscription between two messages of its partition "
            "that another consumer received"
        ),
        demand=(
            "No two consumers of an exclusive or failover subscription receive from one partition in turns while "
            "samples prove that the consumers stayed the same."
        ),
        needs=Ability.MEMBERSHIP,
        at_subscriptions=True,
        only_at=frozenset({SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER}),
    ),
    Anomaly.KEY_ON_TWO_CONSUMERS: AnomalyFacts(
        suite=Suite.ORDERING,
        meaning=(
            "was received by a consumer of a key_shared subscription between two messages of its key that another "
            "consumer received"
        ),
        demand=(
            "No two consumers of a key_shared subscription receive one key in turns while samples prove that the "
            "consumers stayed the same."
        ),
        needs=Ability.MEMBERSHIP,
        at_subscriptions=True,
        only_at=frozenset({SubscriptionType.KEY_SHARED}),
    ),
    Anomaly.OUTPUT_MISSING: AnomalyFacts(
        suite=Suite.COMPLETENESS,
        meaning="was delivered to a subscription that drained, and no consumer of it wrote an output of the message",
        demand="No message that was delivered lacks an output where its subscription's commit promises one.",
        illegal_under=_UNLESS_AT_MOST_ONCE,
        at_subscriptions=True,
        of_outputs=True,
    ),
    Anomaly.OUTPUT_REPEATED: AnomalyFacts(
        suite=Suite.UNIQUENESS,
        meaning="has two outputs or more of one subscription, from one position",
        demand="No stored message has two outputs of a subscription where the subscription's commit forbids it.",
        illegal_under=_UNLESS_AT_LEAST_ONCE,
        at_subscriptions=True,
        of_outputs=True,
    ),
}


# The anomalies of messages that are missing. If `at_most_once` or `loosen` makes one legal for all messages, the
# scenario has to set an upper bound on its number.
MISSING = (Anomaly.LOST, Anomaly.NOT_REPLICATED, Anomaly.UNDELIVERED, Anomaly.UNREADABLE)


def is_illegal(
    anomaly: Anomaly,
    guarantee: Guarantee,
    subscription: SubscriptionType | None = None,
    *,
    tightened: Iterable[Anomaly] = (),
) -> bool:
    """Whether the anomaly is illegal: forbidden by the guarantee, or by the scenario, which lists it in `tightened`.

    `subscription` is the type of the subscription at which the anomaly was found, or None if it was found in a log. A
    shared subscription promises no order of delivery under any guarantee.
    """
    if anomaly in tightened:
        return True
    if anomaly.facts.needs_order and subscription is not None and not subscription.keeps_order_per_key:
        return False
    if anomaly.facts.only_at is not None and subscription is not None and subscription not in anomaly.facts.only_at:
        return False
    return guarantee in anomaly.facts.illegal_under
