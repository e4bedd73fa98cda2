"""How long clients were interrupted by a fault: late messages, the first ack, the longest gaps.

Everything is taken in each place: a cluster's partition and producer, or its partition and subscription. The worst
place is named. All times come from the clients' own records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from brokerproof.run.directory import Run
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.destinations import list_replication_ways
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerproof_judging.measurements.gaps import Gap, find_longest_gaps
from brokerproof_judging.measurements.lateness import (
    Interruptions,
    measure_interruptions,
    name_partition,
    name_place,
    place_attempts,
)
from brokerproof_judging.measurements.measured_values import Reading
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes

_RESOLUTION = "resolution: 1 ms"


@dataclass(frozen=True, kw_only=True)
class FirstAck:
    """When a place's first message that was sent after the effect was acked, None if none was."""

    place: str
    at_us: int | None


@dataclass(frozen=True, kw_only=True)
class ClientEvents:
    """How clients fared after each fault that took effect, by the fault's name."""

    interruptions: Mapping[str, Interruptions] = field(default_factory=dict)
    ack_gaps: Mapping[str, Gap] = field(default_factory=dict)
    delivery_gaps: Mapping[str, Gap] = field(default_factory=dict)
    # Of each place that sent a message after the effect, or had one to send.
    first_acks: Mapping[str, Sequence[FirstAck]] = field(default_factory=dict)


def read_client_events(
    spark: SparkSession, run: Run, times: RunTimes, publishes: DataFrame, deliveries: DataFrame
) -> ClientEvents:
    """From the tables `publishes` and `deliveries`."""
    if not times.effective:
        return ClientEvents()
    attempts, faults = place_attempts(publishes), times.effective
    return ClientEvents(
        interruptions=measure_interruptions(
            spark,
            attempts,
            faults,
            late_after_us=round(run.scenario.late_after_s * 1e6),
            load_end_us=times.load.end_us,
        ),
        ack_gaps=_find_ack_gaps(spark, times, attempts),
        delivery_gaps=_find_delivery_gaps(spark, run, times, attempts, deliveries),
        first_acks=_find_first_acks(attempts, faults),
    )


def _find_ack_gaps(spark: SparkSession, times: RunTimes, attempts: DataFrame) -> dict[str, Gap]:
    acked = F.col("outcome") == AttemptOutcome.ACKED
    acks = attempts.filter(acked).select("topic", "place", F.unix_micros("settled_at").alias("at"))
    # Messages that no ack has placed belong to a place of their own. It has to get acks only if their producer has no
    # other place.
    silent = (
        attempts.groupBy("cluster", "topic", "producer")
        .agg(F.count_if(acked).alias("acks"), F.max("place").alias("place"))
        .filter("acks = 0")
    )
    return find_longest_gaps(spark, acks, silent.select("topic", "place"), times.effective, times.load)


def _find_delivery_gaps(
    spark: SparkSession, run: Run, times: RunTimes, attempts: DataFrame, deliveries: DataFrame
) -> dict[str, Gap]:
    """A subscription that moves to another cluster is one place, because it gets nothing where it was before."""
    topology, workload = run.topology, run.scenario.workload
    if not workload.subscriptions:
        return {}
    where = F.col("cluster")
    sources: list[tuple[str, str, str]] = []
    ways = list_replication_ways(topology, workload)
    for each in workload.subscriptions:
        clusters = each.list_clusters(topology)
        label = ">".join(clusters)
        if each.moves:
            where = F.when(F.col("subscription") == each.name, F.lit(label)).otherwise(where)
        homes = {*clusters, *(home for home, other in ways if other in clusters)}
        sources += [(home, label, each.name) for home in sorted(homes)]
    partition = name_partition(F.col("partition"))
    received = _drop_repetitions_after(deliveries, times.load.end_us).select(
        "topic",
        name_place(where, F.col("subscription"), partition).alias("place"),
        F.unix_micros("received_at").alias("at"),
    )
    expected = (
        attempts.filter(F.col("outcome") == AttemptOutcome.ACKED)
        .select("cluster", "topic", "partition")
        .distinct()
        .join(
            F.broadcast(spark.createDataFrame(sources, "cluster string, label string, subscription string")), "cluster"
        )
        .select("topic", name_place(F.col("label"), F.col("subscription"), partition).alias("place"))
        .distinct()
    )
    return find_longest_gaps(spark, received, expected, times.effective, times.load)


def _drop_repetitions_after(deliveries: DataFrame, end_us: int) -> DataFrame:
    """Deliveries without those after the load's end that repeat an earlier one, because they end no gap."""
    message = ["topic", "cluster", "subscription", "producer", "seq"]
    is_later = F.unix_micros("received_at") >= end_us
    later = deliveries.filter(is_later)
    before = deliveries.filter(~is_later).join(later.select(*message).distinct(), message, "left_semi")
    return deliveries.filter(~is_later).unionByName(later.join(before.select(*message), message, "left_anti"))


def _find_first_acks(attempts: DataFrame, faults: Sequence[EffectiveFault]) -> dict[str, list[FirstAck]]:
    acked = F.col("outcome") == AttemptOutcome.ACKED
    columns = []
    for number, fault in enumerate(faults):
        # What was sent between the injection and the effect may still be acked as if nothing had happened.
        after = F.unix_micros("sent_at") >= fault.span.start_us
        first = F.min(F.when(after & acked, F.unix_micros("settled_at")))
        # A place in which messages were held back until the end waits for its first ack, too.
        waited = after | (F.col("outcome") == AttemptOutcome.NOT_SENT)
        columns.append(F.struct(F.count_if(waited).alias("waited"), first.alias("first")).alias(f"fault{number}"))
    # There are as many rows as clients and partitions.
    rows = attempts.groupBy("topic", "place").agg(*columns).collect()
    return {
        fault.name: [
            FirstAck(place=row.place, at_us=row[f"fault{number}"].first) for row in rows if row[f"fault{number}"].waited
        ]
        for number, fault in enumerate(faults)
    }


def measure_interruption(run: Run, times: RunTimes, events: ClientEvents, fault: EffectiveFault) -> dict[str, Reading]:
    """`first_ack_s`, `rto_s`, `unavailable_s` and the longest gaps of a fault."""
    if not fault.client_span.seconds:
        never = Reading(value=None, evidence="the load had ended when the fault was injected")
        metrics = ("first_ack_s", "rto_s", "unavailable_s", "longest_ack_gap_s", "longest_delivery_gap_s")
        return dict.fromkeys(metrics, never)
    interruptions = events.interruptions.get(fault.name)
    late_after_s = run.scenario.late_after_s
    return {
        "first_ack_s": _read_first_ack(times, events.first_acks[fault.name], fault),
        "rto_s": _read_rto(times, interruptions, fault, late_after_s),
        "unavailable_s": _read_unavailable(interruptions, fault, late_after_s),
        "longest_ack_gap_s": _read_longest_gap(times, events.ack_gaps.get(fault.name), "ack"),
        "longest_delivery_gap_s": _read_longest_gap(times, events.delivery_gaps.get(fault.name), "delivery")
        if run.scenario.workload.subscriptions
        else Reading(value=None, evidence="nobody consumed"),
    }


def _read_first_ack(times: RunTimes, first_acks: Sequence[FirstAck], fault: EffectiveFault) -> Reading:
    waiting = sorted(each.place for each in first_acks if each.at_us is None)
    if waiting or not first_acks:
        places = f" of {waiting[0]}, one of {len(waiting)} such places of {len(first_acks)}," if waiting else ""
        why = f"no message{places} that was due after the effect was acked"
        load_end = times.load.end_us
        return Reading(value=fault.seconds_since_injection(load_end), evidence=why, at_least=True)
    acked = [(each.at_us, each.place) for each in first_acks if each.at_us is not None]
    last_us, place = max(acked)
    first_s = fault.seconds_since_injection(min(acked)[0])
    why = (
        f"first ack of a message that {place} sent after the effect, the last of {len(acked)} places; the first "
        f"place had it after {first_s:.3f} s"
    )
    return Reading(value=fault.seconds_since_injection(last_us), evidence=why)


def _read_rto(
    times: RunTimes, interruptions: Interruptions | None, fault: EffectiveFault, late_after_s: float
) -> Reading:
    if interruptions is None:
        return _read_no_interruption(fault, late_after_s)
    lasts = interruptions.away_place is not None
    if lasts:
        end = f"{interruptions.away_place} was still interrupted when the load ended"
    elif interruptions.last_us >= times.load.end_us:
        end = f"{interruptions.last_place} has messages that were never acked, which are late until the load ended"
    else:
        end = f"{interruptions.last_place} was interrupted last"
    why = (
        f"{end}; {interruptions.total_us / 1e6:.3f} s of interruptions in {interruptions.places} places ({_RESOLUTION})"
    )
    return Reading(value=fault.seconds_since_injection(interruptions.last_us), evidence=why, at_least=lasts)


def _read_unavailable(interruptions: Interruptions | None, fault: EffectiveFault, late_after_s: float) -> Reading:
    if interruptions is None:
        return _read_no_interruption(fault, late_after_s)
    why = (
        f"{interruptions.longest_place} was interrupted longest, for {interruptions.longest_us / 1e6:.3f} s; "
        f"{interruptions.places} places were interrupted ({_RESOLUTION})"
    )
    return Reading(value=interruptions.total_us / 1e6, evidence=why)


def _read_no_interruption(fault: EffectiveFault, late_after_s: float) -> Reading:
    if fault.client_span.seconds < late_after_s:
        # A message that this fault delays is late only after the next fault was injected.
        why = f"the time after the injection, {fault.client_span.seconds:.3f} s, is shorter than {late_after_s:g} s"
        return Reading(value=None, evidence=f"no message can be late: {why}", cut_off_by=fault.cut_off_by)
    return Reading(value=0.0, evidence=f"no message was more than {late_after_s:g} s late ({_RESOLUTION})")


def _read_longest_gap(times: RunTimes, gap: Gap | None, event: str) -> Reading:
    if gap is None:
        return Reading(value=None, evidence=f"no {event} was recorded, and none was expected")
    until = "the end of the load" if gap.end_us >= times.load.end_us else f"the next {event}"
    why = f"{gap.place} had no {event} until {until}; the longest gap of {gap.places} places"
    return Reading(value=gap.seconds, evidence=why)
