"""Which anomalies there are, which suite judges each, and which are illegal under which guarantee.

This is the one table that `verify`, the Great Expectations suites, the history and the docs read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from brokerproof.experiment.abilities import Ability


class Guarantee(StrEnum):
    """What a scenario's configuration promises."""

    AT_MOST_ONCE = "at_most_once"
    AT_LEAST_ONCE = "at_least_once"
    EFFECTIVELY_ONCE = "effectively_once"


class SubscriptionType(StrEnum):
    """How a subscription shares messages among its consumers."""

    EXCLUSIVE = "exclusive"
    FAILOVER = "failover"
    SHARED = "shared"
    KEY_SHARED = "key_shared"

    @property
    def keeps_order_per_key(self) -> bool:
        """Whether messages of one key reach the subscription in order."""
        return self is not SubscriptionType.SHARED


class Suite(StrEnum):
    """The five suites of expectations/."""

    COMPLETENESS = "completeness"
    UNIQUENESS = "uniqueness"
    ORDERING = "ordering"
    PLACEMENT = "placement"
    RECOVERY = "recovery"


class Anomaly(StrEnum):
    """One message, or position, that breaks a rule."""

    LOST = "lost"
    NOT_REPLICATED = "not_replicated"
    UNDELIVERED = "undelivered"
    UNPROVEN = "unproven"
    PHANTOM = "phantom"
    FAILED_BUT_STORED = "failed_but_stored"
    CORRUPTED = "corrupted"
    STORED_TWICE = "stored_twice"
    DELIVERED_TWICE = "delivered_twice"
    REDELIVERED_AFTER_ACK = "redelivered_after_ack"
    POSITION_CONFLICT = "position_conflict"
    POSITION_MISMATCH = "position_mismatch"
    STORED_OUT_OF_ORDER = "stored_out_of_order"
    DELIVERED_OUT_OF_ORDER = "delivered_out_of_order"
    POSITION_REGRESSED = "position_regressed"


@dataclass(frozen=True, kw_only=True)
class Definition:
    """Where an anomaly is judged and under which guarantees it is illegal."""

    suite: Suite
    meaning: str
    illegal_under: frozenset[Guarantee]
    needs_order: bool = False
    # What a messaging system must be able to do: without it the anomaly is not applicable.
    needs: Ability | None = None


_ALWAYS = frozenset(Guarantee)
_NEVER: frozenset[Guarantee] = frozenset()
_UNLESS_AT_MOST_ONCE = frozenset({Guarantee.AT_LEAST_ONCE, Guarantee.EFFECTIVELY_ONCE})
_EFFECTIVELY_ONCE = frozenset({Guarantee.EFFECTIVELY_ONCE})


def _define(
    suite: Suite,
    illegal_under: frozenset[Guarantee],
    meaning: str,
    *,
    needs_order: bool = False,
    needs: Ability | None = None,
) -> Definition:
    return Definition(suite=suite, meaning=meaning, illegal_under=illegal_under, needs_order=needs_order, needs=needs)


DEFINITIONS: Mapping[Anomaly, Definition] = {
    Anomaly.LOST: _define(
        Suite.COMPLETENESS,
        _UNLESS_AT_MOST_ONCE,
        "was acked and is not stored in its home, whose log was read to the end",
    ),
    Anomaly.NOT_REPLICATED: _define(
        Suite.COMPLETENESS,
        _ALWAYS,
        "was acked and is not stored in another cluster that had to hold it, after its drain",
        needs=Ability.REPLICATION,
    ),
    Anomaly.UNDELIVERED: _define(
        Suite.COMPLETENESS, _ALWAYS, "is stored and was never delivered to a subscription there that drained"
    ),
    # Legal or not does not apply: what is unproven makes the verdict unknown, under every guarantee.
    Anomaly.UNPROVEN: _define(
        Suite.COMPLETENESS, _NEVER, "would be missing, but the log was not read to its end or nothing proves the drain"
    ),
    Anomaly.PHANTOM: _define(Suite.COMPLETENESS, _ALWAYS, "is stored or was delivered, and was never published"),
    Anomaly.FAILED_BUT_STORED: _define(Suite.COMPLETENESS, _ALWAYS, "failed for certain, and is stored"),
    Anomaly.CORRUPTED: _define(Suite.COMPLETENESS, _ALWAYS, "is stored or was delivered with another payload hash"),
    Anomaly.STORED_TWICE: _define(
        Suite.UNIQUENESS,
        _EFFECTIVELY_ONCE,
        "is stored at two positions or more of one cluster's topic",
        needs=Ability.POSITIONS,
    ),
    Anomaly.DELIVERED_TWICE: _define(
        Suite.UNIQUENESS,
        _NEVER,
        "was delivered again from the same position before an earlier delivery's ack was confirmed",
        needs=Ability.POSITIONS,
    ),
    Anomaly.REDELIVERED_AFTER_ACK: _define(
        Suite.UNIQUENESS,
        _EFFECTIVELY_ONCE,
        "was delivered again although an earlier delivery's ack had been confirmed",
        needs=Ability.CONFIRMED_ACKS,
    ),
    Anomaly.POSITION_CONFLICT: _define(
        Suite.UNIQUENESS, _ALWAYS, "shares a position with another message", needs=Ability.POSITIONS
    ),
    Anomaly.POSITION_MISMATCH: _define(
        Suite.UNIQUENESS,
        _ALWAYS,
        "is stored in its home, but at none of the positions that its acks named",
        needs=Ability.POSITIONS,
    ),
    Anomaly.STORED_OUT_OF_ORDER: _define(
        Suite.ORDERING,
        _ALWAYS,
        "is first stored behind a later message of its producer and key",
        needs_order=True,
        needs=Ability.POSITIONS,
    ),
    Anomaly.DELIVERED_OUT_OF_ORDER: _define(
        Suite.ORDERING,
        _ALWAYS,
        "is first delivered after a later message of its producer and key",
        needs_order=True,
        needs=Ability.POSITIONS,
    ),
    Anomaly.POSITION_REGRESSED: _define(
        Suite.ORDERING,
        _ALWAYS,
        "was acked at or below a position whose ack was settled before it was sent",
        needs=Ability.POSITIONS,
    ),
}


def is_illegal(
    anomaly: Anomaly,
    guarantee: Guarantee,
    subscription: SubscriptionType | None = None,
    *,
    tightened: Iterable[Anomaly] = (),
    loosened: Iterable[Anomaly] = (),
) -> bool:
    """Whether the anomaly breaks the guarantee.

    `subscription` is the type of the subscription it was seen at, None for a place in the log. Order is not
    promised by Shared, whatever the guarantee. `tightened` and `loosened` are the scenario's own words and win.
    """
    if anomaly in tightened:
        return True
    if anomaly in loosened:
        return False
    definition = DEFINITIONS[anomaly]
    if definition.needs_order and subscription is not None and not subscription.keeps_order_per_key:
        return False
    return guarantee in definition.illegal_under
