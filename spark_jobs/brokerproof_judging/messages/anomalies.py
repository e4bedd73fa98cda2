"""The anomalies: what each looks like in the facts about a message at a place.

Most are a condition on one row of facts (`FINDINGS`); those that compare messages with each other are searches of
their own (`SEARCHES`). A new anomaly is an entry in `guarantees.DEFINITIONS` and one here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial, reduce

import pyarrow as pa
from brokerproof.experiment.guarantees import Anomaly, SubscriptionType, is_illegal
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from pyspark.sql import DataFrame

from brokerproof_judging import partitioned_sql
from brokerproof_judging.messages import ordering, positions
from brokerproof_judging.messages.message_columns import IN_LOG, NAMELESS, PLACE, columns


class Seen(StrEnum):
    """Where an anomaly shows: in a cluster's log or at a subscription."""

    LOG = "log"
    SUBSCRIPTION = "subscription"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An anomaly that one row of facts shows, as SQL over the columns of the facts in messages.py."""

    anomaly: Anomaly
    seen: Seen
    when: str
    cause: str
    detail: str


_ACKED_NOT_HERE = "outcome = 'acked' AND required AND copies = 0"
_ACKED_AT = "IF(acked_at IS NULL, '', concat(' (acked at ', make_timestamp(acked_at), ' UTC)'))"
_FIRST = "concat(first.ledger_id, ':', first.entry_id, ':', first.batch_index)"
_UNPUBLISHED = f"IF({NAMELESS}, 'no_identity', 'never_published')"
_OTHER_HASH = (
    "outcome IS NOT NULL AND "
    "(found_hash_low NOT IN (hash_low, hash_high) OR found_hash_high NOT IN (hash_low, hash_high))"
)
_READ = "coalesce(read_to_end, false)"
_REPLICATED = "coalesce(replicated, false)"
_DRAINED = "coalesce(drained, false)"
_MISSED = "had_to_get AND outcome IS NOT NULL AND stored_copies > 0 AND deliveries = 0"

FINDINGS: tuple[Finding, ...] = (
    Finding(
        anomaly=Anomaly.LOST,
        seen=Seen.LOG,
        when=f"{_ACKED_NOT_HERE} AND cluster = home AND undone AND {_READ}",
        cause="IF(named > 0, 'acked_at_position', 'acked_without_position')",
        detail=f"concat('acked', {_ACKED_AT}, ' and not in the log of ', cluster, ', which was read to its end')",
    ),
    Finding(
        anomaly=Anomaly.NOT_REPLICATED,
        seen=Seen.LOG,
        when=f"{_ACKED_NOT_HERE} AND cluster != home AND undone AND {_READ} AND {_REPLICATED}",
        cause="'missing_in_replica'",
        detail=f"concat('acked in ', home, {_ACKED_AT}, ' and not in the log of ', cluster, ', which drained')",
    ),
    Finding(
        anomaly=Anomaly.UNPROVEN,
        seen=Seen.LOG,
        when=f"{_ACKED_NOT_HERE} AND NOT (undone AND {_READ} AND (cluster = home OR {_REPLICATED}))",
        cause=f"CASE WHEN NOT undone THEN 'fault_not_undone' WHEN NOT {_READ} THEN 'log_not_read_to_end' "
        "ELSE 'replication_not_drained' END",
        detail=f"concat('acked', {_ACKED_AT}, ' and not found in ', cluster, ', but ', CASE WHEN NOT undone "
        f"THEN 'nothing proves that every fault was undone' WHEN NOT {_READ} "
        "THEN concat('its log was not read to its end: ', coalesce(read_why, 'no step left a record of it')) "
        "ELSE concat('replication did not drain: ', coalesce(replicated_why, 'no step left a record of it')) END)",
    ),
    Finding(
        anomaly=Anomaly.UNDELIVERED,
        seen=Seen.SUBSCRIPTION,
        when=f"{_MISSED} AND undone AND {_DRAINED}",
        cause="'never_delivered'",
        detail=f"concat('stored at ', {_FIRST}, ' and never delivered to ', subscription, ', which drained')",
    ),
    Finding(
        anomaly=Anomaly.UNPROVEN,
        seen=Seen.SUBSCRIPTION,
        when=f"{_MISSED} AND NOT (undone AND {_DRAINED})",
        cause="IF(undone, 'subscription_not_drained', 'fault_not_undone')",
        detail=f"concat('stored at ', {_FIRST}, ' and not delivered to ', subscription, ', but ', IF(undone, "
        "concat('it did not drain: ', coalesce(drained_why, 'no step left a record of it')), "
        "'nothing proves that every fault was undone'))",
    ),
    Finding(
        anomaly=Anomaly.PHANTOM,
        seen=Seen.LOG,
        when="outcome IS NULL",
        cause=_UNPUBLISHED,
        detail=f"concat('stored at ', {_FIRST}, ' though nobody published it to this topic')",
    ),
    Finding(
        anomaly=Anomaly.PHANTOM,
        seen=Seen.SUBSCRIPTION,
        when="outcome IS NULL",
        cause=_UNPUBLISHED,
        detail="concat('delivered to ', delivery.consumer, ' though nobody published it to this topic')",
    ),
    Finding(
        anomaly=Anomaly.FAILED_BUT_STORED,
        seen=Seen.LOG,
        when="outcome = 'failed' AND copies > 0",
        cause="'failed_for_certain'",
        detail=f"concat('its ', attempts, ' attempt(s) failed for certain, and it is stored at ', {_FIRST})",
    ),
    Finding(
        anomaly=Anomaly.CORRUPTED,
        seen=Seen.LOG,
        when=_OTHER_HASH,
        cause="'stored_payload'",
        detail=f"concat('stored at ', {_FIRST}, ' with another payload than was published')",
    ),
    Finding(
        anomaly=Anomaly.CORRUPTED,
        seen=Seen.SUBSCRIPTION,
        when=_OTHER_HASH,
        cause="'delivered_payload'",
        detail="concat('delivered to ', delivery.consumer, ' with another payload than was published')",
    ),
    Finding(
        anomaly=Anomaly.STORED_TWICE,
        seen=Seen.LOG,
        when="copies > 1",
        cause="IF(attempts > 1, 'attempted_again', 'attempted_once')",
        detail=f"concat('stored at ', copies, ' positions, first at ', {_FIRST}, ', from ', attempts, ' attempt(s)')",
    ),
    Finding(
        anomaly=Anomaly.DELIVERED_TWICE,
        seen=Seen.SUBSCRIPTION,
        when="again_unconfirmed > 0",
        cause="'ack_not_confirmed'",
        detail="concat('delivered again ', again_unconfirmed, ' time(s) before an ack of it was confirmed')",
    ),
    Finding(
        anomaly=Anomaly.REDELIVERED_AFTER_ACK,
        seen=Seen.SUBSCRIPTION,
        when="again_confirmed > 0",
        cause="'ack_confirmed'",
        detail="concat('delivered again ', again_confirmed, ' time(s) after an ack of it was confirmed')",
    ),
    Finding(
        anomaly=Anomaly.POSITION_MISMATCH,
        seen=Seen.LOG,
        when="cluster = home AND copies > 0 AND named > 0 AND matched = 0",
        cause="'stored_elsewhere'",
        detail=f"concat('stored at ', {_FIRST}, ', which is none of the ', named, ' position(s) that its acks named')",
    ),
)


def findings(seen: Seen, undone: bool) -> str:
    """SQL for the list of what one row of facts shows: (anomaly, cause, detail)."""
    each = ", ".join(
        f"CASE WHEN {finding.when} THEN "
        f"{{anomaly: '{finding.anomaly}', cause: {finding.cause}, detail: {finding.detail}}} END"
        for finding in FINDINGS
        if finding.seen is seen
    )
    # The conditions speak of `undone` as of a column.
    return f"list_filter([{each}], lambda each: each IS NOT NULL)".replace("undone", str(undone))


@dataclass(frozen=True, kw_only=True)
class Evidenced:
    """What a search may look at: what the jobs recorded, and the places that messages.py wrote."""

    publishes: DataFrame
    stored: DataFrame
    places: DataFrame
    clock_error_us: int


@dataclass(frozen=True, kw_only=True)
class Search:
    """An anomaly that only comparing messages shows.

    `gather` makes the rows to compare; those that agree in `by` are looked at together. `look` is SQL over these
    `rows`, which may name `{clock_error_us}`, for places with a `cause` and a `detail`. A place may be found twice.
    """

    gather: Callable[[Evidenced, partitioned_sql.Parts], DataFrame]
    by: tuple[str, ...]
    look: str


SEARCHES: Mapping[Anomaly, Search] = {
    Anomaly.POSITION_CONFLICT: Search(
        gather=lambda seen, _: positions.stored_or_named(seen.publishes, seen.stored),
        by=positions.PLACE_IN_LOG,
        look=positions.CONFLICT,
    ),
    Anomaly.POSITION_REGRESSED: Search(
        gather=lambda seen, among: positions.sent_and_settled(seen.publishes, among, seen.clock_error_us),
        by=positions.SECOND,
        look=positions.REGRESSED,
    ),
    Anomaly.STORED_OUT_OF_ORDER: Search(
        gather=lambda seen, _: ordering.in_logs(seen.places), by=ordering.GROUP, look=ordering.STORED
    ),
    Anomaly.DELIVERED_OUT_OF_ORDER: Search(
        gather=lambda seen, _: ordering.at_subscriptions(seen.places), by=ordering.GROUP, look=ordering.DELIVERED
    ),
}

_FOUND = "who string, number bigint, topic string, cluster string, subscription string"


def searched(seen: Evidenced, among: partitioned_sql.Parts) -> DataFrame:
    """What all searches found: places with `anomaly`, `cause` and `detail`."""
    found = [
        partitioned_sql.look(
            among.together(search.gather(seen, among), search.by),
            partial(_look, str(anomaly), search.look.format(clock_error_us=seen.clock_error_us)),
            f"{_FOUND}, anomaly string, cause string, detail string",
        )
        for anomaly, search in SEARCHES.items()
    ]
    return reduce(DataFrame.unionAll, found)


def _look(anomaly: str, query: str, part: int, connection: partitioned_sql.Connection) -> partitioned_sql.Batches:
    del part
    return partitioned_sql.answer(
        connection, f"SELECT {columns(*PLACE)}, '{anomaly}' AS anomaly, cause, detail FROM ({query})"
    )


def forbidden(scenario: Scenario, topology: Topology) -> pa.Table:
    """Which anomalies are illegal where: (cluster, subscription, forbidden).

    The row without a cluster holds for every other place.
    """
    rows = [
        (cluster, each.name, _illegal(scenario, each.type))
        for each in scenario.workload.subscriptions
        for cluster in each.places(topology)
    ]
    return pa.Table.from_pylist(
        [
            {"cluster": cluster, "subscription": subscription, "forbidden": names}
            for cluster, subscription, names in [(None, IN_LOG, _illegal(scenario, None)), *rows]
        ],
        schema=pa.schema(
            [("cluster", pa.string()), ("subscription", pa.string()), ("forbidden", pa.list_(pa.string()))]
        ),
    )


def _illegal(scenario: Scenario, subscription: SubscriptionType | None) -> list[str]:
    return [
        str(anomaly)
        for anomaly in Anomaly
        if is_illegal(anomaly, scenario.guarantee, subscription, tightened=scenario.tighten, loosened=scenario.loosen)
    ]
