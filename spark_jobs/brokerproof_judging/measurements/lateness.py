"""Measures interruptions: times in which a message had no ack, although it was due more than `late_after_s` before.

Spark merges the late times of each cluster, partition and producer. The driver gets at most two rows for each
fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from brokerproof.run.tables import AttemptOutcome
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from brokerproof_judging.measurements.run_times import EffectiveFault, Span
from brokerproof_judging.measurements.standstills import Times, add_proven
from brokerproof_judging.table_io import make_constant

_KEY = ["cluster", "topic", "producer", "key"]


@dataclass(frozen=True, kw_only=True)
class Interruptions:
    """The interruptions that touch the time from a fault's injection to the next injection, as a summary.

    A place is a producer in one partition of a cluster, such as `eu/partition 3/shop-p0`.
    """

    # The end of the last interruption, and its place.
    last_us: int
    last_place: str
    # Time in which at least one place was interrupted.
    total_us: int
    # The longest total time that one place was interrupted, and this place.
    longest_us: int
    longest_place: str
    # The number of places that were interrupted.
    places: int
    # A place whose last due message had no ack when the load ended; None if every place got acks again.
    away_place: str | None
    # `last_us` and `total_us` without the times that a producer's own standstill may have caused. The first is None if
    # no time is left.
    proven_last_us: int | None
    proven_total_us: int


def name_place(*parts: Column) -> Column:
    """Return the name of a place: `parts`, such as cluster, partition and producer, joined by `/` without nulls."""
    return F.concat_ws("/", *parts)


def name_partition(partition: Column) -> Column:
    """Return `partition 3` for 3, `unknown partition` for null, and null for -1, a topic without partitions."""
    return F.when(partition.isNull(), F.lit("unknown partition")).when(
        partition >= 0, F.concat(F.lit("partition "), partition.cast("string"))
    )


def place_attempts(publishes: DataFrame, *, partitioned: bool) -> DataFrame:
    """Return `publishes` with the columns `place` (a name made of cluster, partition and producer) and `in_unknown`.

    `in_unknown` is true if the partition is not known. Only an ack names it, so an attempt without an ack gets the
    partition of acks of the same key. A topic that is not `partitioned` has one place for each producer. All keys must
    fit into a task's memory.
    """
    if not partitioned:
        place = name_place(F.col("cluster"), F.col("producer"))
        return publishes.withColumns({"place": place, "in_unknown": F.lit(False)})
    of_keys = publishes.filter("partition IS NOT NULL").groupBy(*_KEY).agg(F.max("partition").alias("of_key"))
    number = F.coalesce("partition", "of_key")
    place = name_place(F.col("cluster"), name_partition(number), F.col("producer"))
    return publishes.join(F.broadcast(of_keys), _KEY, "left").withColumns(
        {"place": place, "in_unknown": number.isNull()}
    )


def measure_interruptions(
    attempts: DataFrame,
    faults: Sequence[EffectiveFault],
    *,
    late_after_us: int,
    load: Span,
    standstills: Times,
) -> dict[str, Interruptions]:
    """Return {fault: interruptions that touch the time from its injection to the next}, for faults that have any.

    In an interruption, a producer had a message in one partition that was due more than `late_after_us` before and had
    no ack. Messages that were due before the steady phase do not count. A message that was never acked is late until
    the load's end. `attempts` come from `place_attempts`. `standstills` has, by producer, the times in which its own
    process stood still.
    """
    load_end_us = load.end_us
    messages = _find_late_times(attempts, late_after_us, load)
    # One row for each place.
    away = messages.groupBy("topic", "place").agg((~F.max_by("answered", "start")).alias("away"))
    late = messages.filter("end > start")
    interruptions = _merge_times(late).join(F.broadcast(away), ["topic", "place"], "left")
    producer = F.substring_index("place", "/", -1)
    found = _summarize(add_proven(interruptions, standstills, producer, lead_us=late_after_us), faults, load_end_us)
    if not any(standstills.values()):
        return {fault: each for (fault, _), each in found.items()}
    return {
        fault: replace(
            each,
            proven_last_us=found[fault, True].last_us if (fault, True) in found else None,
            proven_total_us=found[fault, True].total_us if (fault, True) in found else 0,
        )
        for (fault, proven), each in found.items()
        if not proven
    }


def _summarize(
    interruptions: DataFrame, faults: Sequence[EffectiveFault], load_end_us: int
) -> dict[tuple[str, bool], Interruptions]:
    """Return {(fault, value of `proven`): summary of the interruptions that touch the fault's `client_span`}.

    `interruptions` has the columns `topic`, `place`, `start`, `end`, `away`, and `proven` from `add_proven`. `away` is
    true if the last message that was due at the place had no ack when the load ended.
    """
    spans = join_spans(interruptions, faults)
    # The part of an interruption that no earlier one covers, in any place. The sum of these parts counts no time twice.
    before = Window.partitionBy("fault", "proven").orderBy("start", "end").rowsBetween(Window.unboundedPreceding, -1)
    added = F.greatest(F.lit(0), F.col("end") - F.greatest("start", F.coalesce(F.max("end").over(before), "start")))
    rows = (
        spans.withColumn("added", added)
        .groupBy("fault", "proven", "topic", "place")
        .agg(
            F.sum("added").alias("added"),
            F.sum(F.col("end") - F.col("start")).alias("length"),
            F.max("end").alias("last"),
            F.max("away").alias("away"),
        )
        .groupBy("fault", "proven")
        .agg(
            F.sum("added").alias("total"),
            F.count("*").alias("places"),
            F.max(F.struct("last", "place")).alias("last"),
            F.max(F.struct("length", "place")).alias("longest"),
            F.max(F.when(F.col("away") & (F.col("last") >= load_end_us), F.col("place"))).alias("away_place"),
        )
        .collect()
    )
    return {
        (row.fault, row.proven): Interruptions(
            last_us=row.last.last,
            last_place=row.last.place,
            total_us=row.total,
            proven_last_us=row.last.last,
            proven_total_us=row.total,
            longest_us=row.longest.length,
            longest_place=row.longest.place,
            places=row.places,
            away_place=row.away_place,
        )
        for row in rows
    }


def join_spans(times: DataFrame, faults: Sequence[EffectiveFault]) -> DataFrame:
    """Return each row of `times` (`start`, `end` in µs) once for each fault whose `client_span` the row touches.

    A `client_span` goes from a fault's injection to the next injection. The new column `fault` has the fault's name.
    """
    spans = make_constant(
        [
            {"fault": fault.name, "begin": fault.client_span.start_us, "until": fault.client_span.end_us}
            for fault in faults
        ],
        "array<struct<fault: string, begin: long, until: long>>",
    )
    touched = F.filter(spans, lambda span: (F.col("start") < span["until"]) & (F.col("end") > span["begin"]))
    return times.withColumn("fault", F.explode(touched["fault"]))


def _find_late_times(attempts: DataFrame, late_after_us: int, load: Span) -> DataFrame:
    """Return `topic`, `place`, `start`, `end` and `answered` of each message that could be late before the load's end.

    A message is late from `start` to `end` (µs), its first ack or the load's end. It is not late if `end` is not after
    `start`. `answered` is true if it was acked before the load ended. Messages due before the steady phase are left
    out.
    """
    acked = F.when(F.col("outcome") == AttemptOutcome.ACKED, F.unix_micros("settled_at"))
    load_end_us = load.end_us
    return (
        attempts.groupBy("cluster", "topic", "producer", "seq")
        .agg(
            F.max("place").alias("place"),
            (F.min(F.unix_micros("scheduled_at")) + F.lit(late_after_us)).alias("start"),
            F.least(F.coalesce(F.min(acked), F.lit(load_end_us)), F.lit(load_end_us)).alias("end"),
            F.coalesce(F.min(acked) < F.lit(load_end_us), F.lit(False)).alias("answered"),
        )
        .filter((F.col("start") < load_end_us) & (F.col("start") >= load.start_us + late_after_us))
        .select("topic", "place", "start", "end", "answered")
    )


def _merge_times(times: DataFrame) -> DataFrame:
    """Merge rows of `times` into one row if they have the same place and their times overlap or touch each other."""
    ordered = Window.partitionBy("topic", "place").orderBy("start", "end")
    reached = F.max("end").over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    begins = (reached.isNull() | (F.col("start") > reached)).cast("int")
    return (
        times.withColumn("begins", begins)
        .withColumn("number", F.sum("begins").over(ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)))
        .groupBy("topic", "place", "number")
        .agg(F.min("start").alias("start"), F.max("end").alias("end"))
        .drop("number")
    )
