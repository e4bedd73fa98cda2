"""Finds, for each fault, the longest time without an ack or a delivery at any place that has to get them.

A place is a producer or a subscription in one partition of a cluster. Spark compares successive events of each place.
The driver gets one row for each fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from brokerproof_judging.measurements.lateness import join_spans
from brokerproof_judging.measurements.run_times import EffectiveFault, Span
from brokerproof_judging.measurements.standstills import Times, cut_out_own


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The longest time without an event (an ack or a delivery) at any one place, and the number of places compared.

    `proven_us` is the length of the longest such time after clients' own standstills are cut out; 0 if none is left.
    """

    start_us: int
    end_us: int
    place: str
    places: int
    proven_us: int

    @property
    def seconds(self) -> float:
        return (self.end_us - self.start_us) / 1e6


def find_longest_gaps(
    spark: SparkSession,
    events: DataFrame,
    expected: DataFrame,
    faults: Sequence[EffectiveFault],
    load: Span,
    *,
    standstills: Times,
    client: Column,
) -> dict[str, Gap]:
    """Return {fault: longest gap that touches the fault's `client_span`}. A fault without a gap is left out.

    A `client_span` goes from a fault's injection to the next fault's injection. `events` has the columns `topic`,
    `place` and `at` in µs. `expected` has the columns `topic` and `place` of places that have to get events, even if
    they get none. A gap is the time between two successive events of a place. A place's first gap begins when the load
    becomes steady. A gap that begins before the load ends lasts until the next event, or until the load's end if no
    event follows. No gap is cut at the edges of a `client_span`. `client` is the part of a place's name that names the
    client in `standstills`.
    """
    place = Window.partitionBy("topic", "place").orderBy("at")
    nothing = F.lit(None).cast("long")
    events = events.select("topic", "place", "at")
    # The gap of a place without an event ends with the load, because `greatest` skips a null.
    end = F.greatest(F.lit(load.end_us), F.max("at"))
    awaited = expected.select("topic", "place", nothing.alias("at"))
    ends = events.unionByName(awaited).groupBy("topic", "place").agg(end.alias("at"))
    gaps = (
        events.unionByName(ends)
        .withColumn("start", F.coalesce(F.lag("at").over(place), F.lit(load.start_us)))
        .withColumnRenamed("at", "end")
        .filter(F.expr("end > start") & (F.col("start") < load.end_us))
    )
    touching = join_spans(spark, gaps, faults)
    length = F.struct((F.col("end") - F.col("start")).alias("length"), "start", "end", "place")
    rows = (
        touching.groupBy("fault", "topic", "place")
        .agg(F.max(length).alias("gap"))
        .groupBy("fault")
        .agg(F.max("gap").alias("gap"), F.count("*").alias("places"))
        .collect()
    )
    proven = {row.fault: row.gap.length for row in rows}
    if any(standstills.values()):
        others = cut_out_own(spark, touching, standstills, client).groupBy("fault").agg(F.max(length).alias("gap"))
        proven = {row.fault: row.gap.length for row in others.collect()}
    return {
        row.fault: Gap(
            start_us=row.gap.start,
            end_us=row.gap.end,
            place=row.gap.place,
            places=row.places,
            proven_us=proven.get(row.fault, 0),
        )
        for row in rows
    }
