"""The longest times without an ack or a delivery, in each place that gets some.

Spark compares neighbours in each place; one row for each fault comes to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from brokerproof_judging.measurements.lateness import join_spans
from brokerproof_judging.measurements.run_times import EffectiveFault, Span


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A time without an event in a place, and the number of places that were compared."""

    start_us: int
    end_us: int
    place: str
    places: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_us - self.start_us) / 1e6


def find_longest_gaps(
    spark: SparkSession, events: DataFrame, expected: DataFrame, faults: Sequence[EffectiveFault], load: Span
) -> dict[str, Gap]:
    """By fault, the longest gap that touches its span.

    `events` has the columns `topic`, `place` and `at` in µs. `expected` has the columns `topic` and `place` of places
    that have to get events, even if they get none. A gap lies between two events of a place. The first gap begins with
    the load's steady phase. One that begins before the load ends lasts until the next event, or until the load's end if
    there is none. It is not cut at the span's edges.
    """
    place = Window.partitionBy("topic", "place").orderBy("at")
    nothing = F.lit(None).cast("long")
    events = events.select("topic", "place", "at")
    silent = expected.join(events, ["topic", "place"], "left_anti").select("topic", "place", nothing.alias("at"))
    end = F.greatest(F.lit(load.end_us), F.max("at"))
    ends = events.unionByName(silent).groupBy("topic", "place").agg(end.alias("at"))
    gaps = (
        events.unionByName(ends)
        .withColumn("start", F.coalesce(F.lag("at").over(place), F.lit(load.start_us)))
        .withColumnRenamed("at", "end")
        .filter(F.expr("end > start") & (F.col("start") < load.end_us))
    )
    length = F.struct((F.col("end") - F.col("start")).alias("length"), "start", "end", "place")
    rows = (
        join_spans(spark, gaps, faults)
        .groupBy("fault", "topic", "place")
        .agg(F.max(length).alias("gap"))
        .groupBy("fault")
        .agg(F.max("gap").alias("gap"), F.count("*").alias("places"))
        .collect()
    )
    return {
        row.fault: Gap(start_us=row.gap.start, end_us=row.gap.end, place=row.gap.place, places=row.places)
        for row in rows
    }
