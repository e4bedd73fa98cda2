"""The interruptions of clients: times in which some message that was due is late.

Spark merges the late times of each cluster, partition and producer; one row for each fault comes to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brokerproof.run.tables import AttemptOutcome
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from brokerproof_judging.measurements.run_times import EffectiveFault

_KEY = ["cluster", "topic", "producer", "key"]


@dataclass(frozen=True, kw_only=True)
class Interruptions:
    """The interruptions that touch a fault's span. Places are `cluster/partition/producer`."""

    # The end of the last one and its place.
    last_us: int
    last_place: str
    # Time in which at least one place was interrupted.
    total_us: int
    # The place that was interrupted longest, and for how long.
    longest_us: int
    longest_place: str
    # The places that were interrupted.
    places: int
    # A place whose last message that was due had no ack when the load ended, None if every place got acks again.
    away_place: str | None


def name_place(*parts: Column) -> Column:
    """The name of a cluster's partition and client, without the partition if the topic has none."""
    return F.concat_ws("/", *parts)


def name_partition(partition: Column) -> Column:
    """`partition 3`, `unknown partition`, or null if the topic has no partitions."""
    return F.when(partition.isNull(), F.lit("unknown partition")).when(
        partition >= 0, F.concat(F.lit("partition "), partition.cast("string"))
    )


def place_attempts(publishes: DataFrame) -> DataFrame:
    """`publishes` with the column `place`; an attempt without an ack is in the partition of its key.

    Every producer holds its keys in memory, so all of them together fit into a task's.
    """
    of_keys = publishes.filter("partition IS NOT NULL").groupBy(*_KEY).agg(F.max("partition").alias("of_key"))
    partition = name_partition(F.coalesce("partition", "of_key"))
    return publishes.join(F.broadcast(of_keys), _KEY, "left").withColumn(
        "place", name_place(F.col("cluster"), partition, F.col("producer"))
    )


def measure_interruptions(
    spark: SparkSession, attempts: DataFrame, faults: Sequence[EffectiveFault], *, late_after_us: int, load_end_us: int
) -> dict[str, Interruptions]:
    """By fault, the interruptions that touch its span; faults without any are left out.

    `attempts` are those of `place_attempts`. An interruption is not cut at the span's edges. One that lasts longer than
    the load ends with it. A message that was never acked is late until then, even if later ones of its place were
    acked.
    """
    messages = _find_late_times(attempts, late_after_us, load_end_us)
    # One row for each place.
    away = messages.groupBy("topic", "place").agg((~F.max_by("answered", "start")).alias("away"))
    late = messages.filter("end > start")
    interruptions = _merge_times(late).join(F.broadcast(away), ["topic", "place"], "left")
    spans = join_spans(spark, interruptions, faults)
    # The part of an interruption in which no earlier one of any place lasts, so that the parts add up to the union.
    before = Window.partitionBy("fault").orderBy("start", "end").rowsBetween(Window.unboundedPreceding, -1)
    added = F.greatest(F.lit(0), F.col("end") - F.greatest("start", F.coalesce(F.max("end").over(before), "start")))
    rows = (
        spans.withColumn("added", added)
        .groupBy("fault", "topic", "place")
        .agg(
            F.sum("added").alias("added"),
            F.sum(F.col("end") - F.col("start")).alias("length"),
            F.max("end").alias("last"),
            F.max("away").alias("away"),
        )
        .groupBy("fault")
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
        row.fault: Interruptions(
            last_us=row.last.last,
            last_place=row.last.place,
            total_us=row.total,
            longest_us=row.longest.length,
            longest_place=row.longest.place,
            places=row.places,
            away_place=row.away_place,
        )
        for row in rows
    }


def join_spans(spark: SparkSession, times: DataFrame, faults: Sequence[EffectiveFault]) -> DataFrame:
    """`times`, with the columns `start` and `end` in µs, once for each fault whose span they touch, as `fault`."""
    spans = spark.createDataFrame(
        [(fault.name, fault.client_span.start_us, fault.client_span.end_us) for fault in faults],
        "fault string, span_start long, span_end long",
    )
    touches = F.expr("start < span_end AND end > span_start")
    return times.join(F.broadcast(spans), touches).drop("span_start", "span_end")


def _find_late_times(attempts: DataFrame, late_after_us: int, load_end_us: int) -> DataFrame:
    """Messages that are due before the load's end: `topic`, `place`, `start`, `end`, `answered`.

    A message is late from `start` to `end` if `end` is behind `start`. `answered` says whether it was acked by the
    load's end.
    """
    acked = F.when(F.col("outcome") == AttemptOutcome.ACKED, F.unix_micros("settled_at"))
    return (
        attempts.groupBy("cluster", "topic", "producer", "seq")
        .agg(
            F.max("place").alias("place"),
            (F.min(F.unix_micros("scheduled_at")) + F.lit(late_after_us)).alias("start"),
            F.least(F.coalesce(F.min(acked), F.lit(load_end_us)), F.lit(load_end_us)).alias("end"),
            F.coalesce(F.min(acked) < F.lit(load_end_us), F.lit(False)).alias("answered"),
        )
        .filter(F.col("start") < load_end_us)
        .select("topic", "place", "start", "end", "answered")
    )


def _merge_times(times: DataFrame) -> DataFrame:
    """Times of a place that overlap or meet, as one row."""
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
