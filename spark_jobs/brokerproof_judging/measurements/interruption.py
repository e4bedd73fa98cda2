"""Measures how long a fault interrupted clients: late messages, the first ack, the longest gaps.

Each is measured for every place: one producer or subscription in one partition of a cluster. The evidence names the
worst place. All times come from the clients' own records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from brokerproof.run.directory import Run
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.destinations import list_replication_ways
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from brokerproof_judging.measurements.lateness import (
    Interruptions,
    join_spans,
    measure_interruptions,
    name_partition,
    name_place,
    place_attempts,
)
from brokerproof_judging.measurements.measured_values import Estimate
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes, Span
from brokerproof_judging.measurements.standstills import OF_STANDSTILLS, Times, add_proven, read_standstills
from brokerproof_judging.table_io import make_constant

_RESOLUTION = "resolution: 1 ms"


@dataclass(frozen=True, kw_only=True)
class FirstAck:
    """The first ack that a producer got in one partition for a message sent after a fault's effect.

    `place` names the partition and the producer. `at_us` is None if the producer got no such ack.
    """

    place: str
    at_us: int | None
    # Until this time in µs, there would have been no ack even without the standstills of the producer.
    proven_us: int = 0


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The longest time in which a producer got no ack, or a subscription no delivery, in one partition.

    `place` names the partition and the producer or subscription. `places` is the number of places compared. `proven_us`
    is the longest such time without the parts that clients' own standstills may have caused.
    """

    start_us: int
    end_us: int
    place: str
    places: int
    proven_us: int

    @property
    def seconds(self) -> float:
        return (self.end_us - self.start_us) / 1e6


@dataclass(frozen=True, kw_only=True)
class _PlaceAcks:
    """The acks of one producer in one partition, as a row, and the number of its acks in all partitions."""

    row: Row
    acks_of_producer: int


@dataclass(frozen=True, kw_only=True)
class ClientEvents:
    """The interruptions, gaps and first acks of clients, by the name of each fault that took effect."""

    interruptions: Mapping[str, Interruptions] = field(default_factory=dict)
    ack_gaps: Mapping[str, Gap] = field(default_factory=dict)
    delivery_gaps: Mapping[str, Gap] = field(default_factory=dict)
    # One entry for each place that sent a message after the effect, or held a message back until the end.
    first_acks: Mapping[str, Sequence[FirstAck]] = field(default_factory=dict)


def read_client_events(
    spark: SparkSession, run: Run, times: RunTimes, publishes: DataFrame, deliveries: DataFrame
) -> ClientEvents:
    if not times.effective:
        return ClientEvents()
    attempts = place_attempts(publishes, partitioned=run.scenario.workload.partitions > 0)
    faults, standstills = times.effective, read_standstills(run)
    places = _read_place_acks(attempts, faults)
    return ClientEvents(
        interruptions=measure_interruptions(
            attempts,
            faults,
            late_after_us=round(run.scenario.late_after_s * 1e6),
            load=times.load,
            standstills=standstills.of_acks,
        ),
        ack_gaps=_find_ack_gaps(spark, times, attempts, places, standstills.of_acks),
        delivery_gaps=_find_delivery_gaps(run, times, attempts, deliveries, standstills.of_deliveries),
        first_acks=_find_first_acks(places, faults, standstills.of_acks, times.load.end_us),
    )


def _read_place_acks(attempts: DataFrame, faults: Sequence[EffectiveFault]) -> list[_PlaceAcks]:
    """Return the acks of each place (a producer in one partition of a cluster) that has to get acks.

    A row has a column for each fault: `fault0`, …. Each of these columns has two fields: `waited` is the number of
    `attempts` that were sent after the fault's effect or never sent, and `first` is the time in µs of the first ack of
    a message sent after the effect. Messages of unknown partition have a place of their own, which has to get acks only
    if the producer got none at all.
    """
    acked = F.col("outcome") == AttemptOutcome.ACKED
    columns = []
    for number, fault in enumerate(faults):
        # A message that was sent between injection and effect may be acked as if there were no fault.
        after = F.unix_micros("sent_at") >= fault.span.start_us
        first = F.min(F.when(after & acked, F.unix_micros("settled_at")))
        # A place with messages held back until the end also waits for its first ack.
        waited = after | (F.col("outcome") == AttemptOutcome.NOT_SENT)
        columns.append(F.struct(F.count_if(waited).alias("waited"), first.alias("first")).alias(f"fault{number}"))
    # One row for each client and partition.
    rows = (
        attempts.groupBy("topic", "cluster", "producer", "place")
        .agg(*columns, F.max("in_unknown").alias("in_unknown"), F.count_if(acked).alias("acks"))
        .collect()
    )
    acks: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        acks[row.topic, row.cluster, row.producer] += row.acks
    places = [_PlaceAcks(row=row, acks_of_producer=acks[row.topic, row.cluster, row.producer]) for row in rows]
    return [each for each in places if not each.row.in_unknown or not each.acks_of_producer]


def _find_ack_gaps(
    spark: SparkSession,
    times: RunTimes,
    attempts: DataFrame,
    places: Sequence[_PlaceAcks],
    standstills: Times,
) -> dict[str, Gap]:
    acked = F.col("outcome") == AttemptOutcome.ACKED
    acks = attempts.filter(acked).select("topic", "place", F.unix_micros("settled_at").alias("at"))
    silent = [{"topic": each.row.topic, "place": each.row.place} for each in places if not each.acks_of_producer]
    if silent:
        rows = make_constant(silent, "array<struct<topic: string, place: string>>")
        expected = spark.range(1).select(F.inline(rows)).withColumn("at", F.lit(None).cast("long"))
        acks = acks.unionByName(expected)
    return _find_longest_gaps(
        acks, times.effective, times.load, standstills=standstills, client=F.substring_index("place", "/", -1)
    )


def _find_delivery_gaps(
    run: Run, times: RunTimes, attempts: DataFrame, deliveries: DataFrame, standstills: Times
) -> dict[str, Gap]:
    """Return {fault: longest gap between deliveries to one subscription in one partition}; empty without subscriptions.

    If a subscription moves, its deliveries in both clusters count together, so the move itself begins no gap.
    """
    topology, workload = run.topology, run.scenario.workload
    if not workload.subscriptions:
        return {}
    where = F.col("cluster")
    # By home, the subscriptions that have to get its messages.
    sources: dict[str, list[dict[str, str]]] = {}
    ways = list_replication_ways(topology, workload)
    for each in workload.subscriptions:
        clusters = each.list_clusters(topology)
        label = ">".join(clusters)
        if each.moves:
            where = F.when(F.col("subscription") == each.name, F.lit(label)).otherwise(where)
        homes = {*clusters, *(home for home, other in ways if other in clusters)}
        for home in sorted(homes):
            sources.setdefault(home, []).append({"label": label, "subscription": each.name})
    partition = name_partition(F.col("partition"))
    received = _find_first_deliveries(
        deliveries.withColumn("place", name_place(where, F.col("subscription"), partition))
    )
    by_home = make_constant(sources, "map<string, array<struct<label: string, subscription: string>>>")
    expected = (
        attempts.filter(F.col("outcome") == AttemptOutcome.ACKED)
        .select("cluster", "topic", "partition")
        .distinct()
        .select("topic", "partition", F.explode(F.try_element_at(by_home, F.col("cluster"))).alias("to"))
        .select("topic", name_place(F.col("to.label"), F.col("to.subscription"), partition).alias("place"))
        .distinct()
        .withColumn("at", F.lit(None).cast("long"))
    )
    return _find_longest_gaps(
        received.unionByName(expected),
        times.effective,
        times.load,
        standstills=standstills,
        client=F.split("place", "/")[1],
    )


def _find_first_deliveries(deliveries: DataFrame) -> DataFrame:
    """Return `topic`, `place` and `at` (µs) of each message's first delivery in a place.

    A place is a subscription in one partition. Repeated deliveries, also in the cluster that a subscription moved to,
    end no gap: new messages may still be delayed. A message without a readable producer or seq is identified by its
    position.
    """
    named = F.col("producer").isNotNull() & F.col("seq").isNotNull()
    position = F.when(~named, F.struct("cluster", "segment", "offset", "batch_index")).alias("position")
    return (
        deliveries.groupBy("topic", "place", "producer", "seq", position)
        .agg(F.min(F.unix_micros("received_at")).alias("at"))
        .select("topic", "place", "at")
    )


def _find_first_acks(
    places: Sequence[_PlaceAcks], faults: Sequence[EffectiveFault], standstills: Times, load_end_us: int
) -> dict[str, list[FirstAck]]:
    def find_proven(fault: EffectiveFault, place: str, at_us: int) -> int:
        # Without a standstill of the producer, the ack may have come when the standstill began, but not before.
        times = standstills.get(place.rpartition("/")[2], ())
        return min([at_us, *(start for start, end in times if start < at_us and end > fault.client_span.start_us)])

    return {
        fault.name: [
            FirstAck(
                place=each.row.place,
                at_us=at_us,
                proven_us=find_proven(fault, each.row.place, load_end_us if at_us is None else at_us),
            )
            for each in places
            for waited, at_us in [each.row[f"fault{number}"]]
            if waited
        ]
        for number, fault in enumerate(faults)
    }


def _find_longest_gaps(
    events: DataFrame,
    faults: Sequence[EffectiveFault],
    load: Span,
    *,
    standstills: Times,
    client: Column,
) -> dict[str, Gap]:
    """Return {fault: longest gap} over the gaps that touch the time from the fault's injection to the next injection.

    `events` has the columns `topic`, `place` (a client in one partition) and `at` (µs). A row with null for `at` names
    a place that has to get events, even if it gets none. A gap is the time between two successive events of a place. A
    place's first gap begins when the load becomes steady. If no event follows, a gap ends with the load. A fault
    without a gap is left out. `standstills` has, by client, the times in which its own process stood still. `client` is
    the column with the client's name, taken from `place`.
    """
    # A null comes first in the order.
    place = Window.partitionBy("topic", "place").orderBy("at")
    begin, end = F.lit(load.start_us), F.lit(load.end_us)
    before = F.struct(F.coalesce("previous", begin).alias("start"), F.col("at").alias("end"))
    after = F.struct(F.coalesce("at", begin).alias("start"), end.alias("end"))
    gaps = (
        events.select(
            *("topic", "place", "at"),
            F.lag("at").over(place).alias("previous"),
            F.lead(F.lit(True)).over(place).isNull().alias("is_last"),
        )
        .select("topic", "place", F.explode(F.array(before, F.when(F.col("is_last"), after))).alias("gap"))
        .select("topic", "place", "gap.start", "gap.end")
        .filter(F.expr("end > start") & (F.col("start") < load.end_us))
    )
    length = F.struct((F.col("end") - F.col("start")).alias("length"), "start", "end", "place")
    rows = (
        add_proven(join_spans(gaps, faults), standstills, client)
        .groupBy("fault", "proven", "topic", "place")
        .agg(F.max(length).alias("gap"))
        .groupBy("fault", "proven")
        .agg(F.max("gap").alias("gap"), F.count("*").alias("places"))
        .collect()
    )
    stood_still = any(standstills.values())
    proven = {row.fault: row.gap.length for row in rows if row.proven is stood_still}
    return {
        row.fault: Gap(
            start_us=row.gap.start,
            end_us=row.gap.end,
            place=row.gap.place,
            places=row.places,
            proven_us=proven.get(row.fault, 0),
        )
        for row in rows
        if not row.proven
    }


def measure_interruption(run: Run, times: RunTimes, events: ClientEvents, fault: EffectiveFault) -> dict[str, Estimate]:
    """Return {metric: estimate} of a fault.

    The metrics are `first_ack_s`, `rto_s`, `unavailable_s`, `longest_ack_gap_s` and `longest_delivery_gap_s`. If the
    load had ended when the fault was injected, no metric has a value.
    """
    if not fault.client_span.seconds:
        never = Estimate(value=None, evidence="the load had ended when the fault was injected")
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
        else Estimate(value=None, evidence="nobody consumed"),
    }


def _read_first_ack(times: RunTimes, first_acks: Sequence[FirstAck], fault: EffectiveFault) -> Estimate:
    proven_us = max((each.proven_us for each in first_acks), default=times.load.end_us)
    proven = max(0.0, fault.seconds_since_injection(proven_us))
    waiting = sorted(each.place for each in first_acks if each.at_us is None)
    if waiting or not first_acks:
        places = f" of {waiting[0]}, one of {len(waiting)} such places of {len(first_acks)}," if waiting else ""
        why = f"no message{places} that was due after the effect was acked"
        return _read_caused(fault.seconds_since_injection(times.load.end_us), why, proven=proven, at_least=True)
    acked = [(each.at_us, each.place) for each in first_acks if each.at_us is not None]
    last_us, place = max(acked)
    first_s = fault.seconds_since_injection(min(acked)[0])
    why = (
        f"first ack of a message that {place} sent after the effect, the last of {len(acked)} places; the first "
        f"place had it after {first_s:.3f} s"
    )
    return _read_caused(fault.seconds_since_injection(last_us), why, proven=proven)


def _read_rto(
    times: RunTimes, interruptions: Interruptions | None, fault: EffectiveFault, late_after_s: float
) -> Estimate:
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
    last_us, proven_us = interruptions.last_us, interruptions.proven_last_us
    return _read_caused(
        fault.seconds_since_injection(last_us),
        why,
        proven=0.0 if proven_us is None else fault.seconds_since_injection(proven_us),
        at_least=lasts,
    )


def _read_unavailable(interruptions: Interruptions | None, fault: EffectiveFault, late_after_s: float) -> Estimate:
    if interruptions is None:
        return _read_no_interruption(fault, late_after_s)
    why = (
        f"{interruptions.longest_place} was interrupted longest, for {interruptions.longest_us / 1e6:.3f} s; "
        f"{interruptions.places} places were interrupted ({_RESOLUTION})"
    )
    return _read_caused(interruptions.total_us / 1e6, why, proven=interruptions.proven_total_us / 1e6)


def _read_no_interruption(fault: EffectiveFault, late_after_s: float) -> Estimate:
    if fault.client_span.seconds < late_after_s:
        # A message that this fault delays can be late only after the next fault was injected.
        why = f"the time after the injection, {fault.client_span.seconds:.3f} s, is shorter than {late_after_s:g} s"
        return Estimate(value=None, evidence=f"no message can be late: {why}", cut_off_by=fault.next_injected)
    return Estimate(value=0.0, evidence=f"no message was more than {late_after_s:g} s late ({_RESOLUTION})")


def _read_longest_gap(times: RunTimes, gap: Gap | None, event: str) -> Estimate:
    if gap is None:
        return Estimate(value=None, evidence=f"no {event} was recorded, and none was expected")
    until = "the end of the load" if gap.end_us >= times.load.end_us else f"the next {event}"
    why = f"{gap.place} had no {event} until {until}; the longest gap of {gap.places} places"
    return _read_caused(gap.seconds, why, proven=gap.proven_us / 1e6)


def _read_caused(value: float, why: str, *, proven: float, at_least: bool = False) -> Estimate:
    """Return `value` as an estimate: "at most" if `proven`, the value without clients' standstills, is smaller."""
    own = proven < value
    return Estimate(
        value=value,
        evidence=why + (OF_STANDSTILLS if own else ""),
        at_least=at_least,
        at_most=own,
        proven=proven if own else 0.0,
    )
