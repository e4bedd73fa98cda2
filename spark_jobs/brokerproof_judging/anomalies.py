"""The anomalies: what each looks like in the facts about a message at a place.

Most are a condition on one row of facts (`FINDINGS`); those that compare messages with each other are searches of
their own (`SEARCHES`). A new anomaly is an entry in `guarantees.DEFINITIONS` and one here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import reduce

from brokerproof.guarantees import Anomaly, SubscriptionType, is_illegal
from brokerproof.scenario import Scenario
from brokerproof.topology import Topology
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerproof_judging.messages import IN_LOG, PLACE
from brokerproof_judging.ordering import delivered_out_of_order, stored_out_of_order
from brokerproof_judging.positions import position_conflict, position_regressed


class Seen(StrEnum):
    """Where an anomaly shows: in a cluster's log or at a subscription."""

    LOG = "log"
    SUBSCRIPTION = "subscription"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An anomaly that one row of facts shows, as SQL over the columns of messages.py."""

    anomaly: Anomaly
    seen: Seen
    when: str
    cause: str
    detail: str


_ACKED_NOT_HERE = "outcome = 'acked' AND required AND copies = 0"
_ACKED_AT = "IF(acked_at IS NULL, '', concat(' (acked at ', acked_at, ' UTC)'))"
_FIRST = "concat(first.ledger_id, ':', first.entry_id, ':', first.batch_index)"
_UNPUBLISHED = "IF(who LIKE '\\u0001%', 'no_identity', 'never_published')"
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


class Facts(IntEnum):
    """The frames of messages.py, in the order in which they are made."""

    NONE = 0
    LOGS = 1
    DELIVERIES = 2


@dataclass(frozen=True, kw_only=True)
class Evidenced:
    """What a search may look at."""

    publishes: DataFrame
    stored: DataFrame
    logs: DataFrame
    deliveries: DataFrame
    clock_error_us: int


@dataclass(frozen=True, kw_only=True)
class Search:
    """An anomaly that only comparing messages shows: `look` returns places with a `cause` and a `detail`.

    `needs` are the facts that it looks at; one that needs none looks only at what the jobs recorded.
    """

    needs: Facts
    look: Callable[[Evidenced], DataFrame]


SEARCHES: Mapping[Anomaly, Search] = {
    Anomaly.POSITION_CONFLICT: Search(
        needs=Facts.NONE, look=lambda seen: position_conflict(seen.publishes, seen.stored)
    ),
    Anomaly.POSITION_REGRESSED: Search(
        needs=Facts.NONE, look=lambda seen: position_regressed(seen.publishes, seen.clock_error_us)
    ),
    Anomaly.STORED_OUT_OF_ORDER: Search(needs=Facts.LOGS, look=lambda seen: stored_out_of_order(seen.logs)),
    Anomaly.DELIVERED_OUT_OF_ORDER: Search(
        needs=Facts.DELIVERIES, look=lambda seen: delivered_out_of_order(seen.deliveries, seen.clock_error_us)
    ),
}


def search(anomaly: Anomaly, seen: Evidenced) -> DataFrame:
    """What one search found: places with `anomaly`, `cause` and `detail`."""
    return SEARCHES[anomaly].look(seen).select(*PLACE, F.lit(str(anomaly)).alias("anomaly"), "cause", "detail")


def together(found: Iterable[DataFrame]) -> DataFrame:
    """What all searches found, one row a place: `searched`, an array of (anomaly, cause, detail)."""
    # At most one entry per search and place.
    entries = F.collect_list(F.struct("anomaly", "cause", "detail")).alias("searched")
    return reduce(DataFrame.union, found).groupBy(*PLACE).agg(entries)


def with_findings(facts: DataFrame, seen: Seen, searched: DataFrame, undone: bool) -> DataFrame:
    """Facts with `found`: everything that is wrong with the message at this place."""
    local = [
        F.when(
            F.expr(finding.when),
            F.struct(
                F.lit(str(finding.anomaly)).alias("anomaly"),
                F.expr(finding.cause).alias("cause"),
                F.expr(finding.detail).alias("detail"),
            ),
        )
        for finding in FINDINGS
        if finding.seen is seen
    ]
    joined = facts.withColumn("undone", F.lit(undone)).join(searched, PLACE, "left")
    here = F.array_compact(F.array(*local))
    return joined.withColumn(
        "found", F.when(F.col("searched").isNull(), here).otherwise(F.concat(here, F.col("searched")))
    )


def illegal(scenario: Scenario, topology: Topology, anomaly: Column) -> Column:
    """Whether `anomaly` is illegal at `subscription` of `cluster`, which is empty for a place in a log.

    What a destroyed cluster lost, or had not yet sent on, is legal; `rpo_messages` bounds what nobody holds any more.
    """
    types = {
        (each.cluster or next(iter(topology.clusters)), each.name): each.type
        for each in scenario.workload.subscriptions
    }
    column = F.when(F.col("subscription") == IN_LOG, anomaly.isin(_forbidden(scenario, None)))
    for (cluster, name), type_ in types.items():
        here = (F.col("subscription") == name) & (F.col("cluster") == cluster)
        column = column.when(here, anomaly.isin(_forbidden(scenario, type_)))
    column = column.otherwise(anomaly.isin(_forbidden(scenario, None)))
    if not scenario.destroyed:
        return column
    missing = (F.col("subscription") == IN_LOG) & anomaly.isin(str(Anomaly.LOST), str(Anomaly.NOT_REPLICATED))
    gone = F.col("cluster").isin(scenario.destroyed) | F.col("home").isin(scenario.destroyed)
    return F.when(missing & gone, False).otherwise(column)


def _forbidden(scenario: Scenario, subscription: SubscriptionType | None) -> list[str]:
    return [
        str(anomaly)
        for anomaly in Anomaly
        if is_illegal(anomaly, scenario.guarantee, subscription, tightened=scenario.tighten, loosened=scenario.loosen)
    ]
