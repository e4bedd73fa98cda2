"""How fast messages were acked and delivered while a fault was in effect, second by second.

Spark counts and compares neighbours inside each second of a fault; what comes to the driver is one row a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from brokerproof.experiment.metrics import HELD_SECONDS, HELD_SHARE
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from brokerproof_judging.measurements.run_times import EffectiveFault, Span

SECOND_US = 1_000_000


@dataclass(frozen=True, kw_only=True)
class EventsInSecond:
    """Events in one second after a fault's effect: how many, the first, the last, the longest pause between two."""

    count: int
    first_us: int
    last_us: int
    gap_us: int


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Events of a fault's span, by second from the effect."""

    span: Span
    seconds: Mapping[int, EventsInSecond]

    def find_longest_gap(self) -> tuple[float, bool]:
        """Longest time without an event in seconds, edges of the span included; and whether the span cut it off."""
        last, longest, open_end = self.span.start_us, 0, False
        for number in sorted(self.seconds):
            second = self.seconds[number]
            longest = max(longest, second.first_us - last, second.gap_us)
            last = second.last_us
        if self.span.end_us - last > longest:
            longest, open_end = self.span.end_us - last, True
        return longest / 1e6, open_end

    def find_second_held(self, rate_per_s: float) -> int | None:
        """The first second from which on the rate was held for `HELD_SECONDS` whole seconds in a row."""
        streak = 0
        for number in range(int(self.span.seconds)):
            second = self.seconds.get(number)
            streak = streak + 1 if second is not None and second.count >= HELD_SHARE * rate_per_s else 0
            if streak == HELD_SECONDS:
                return number - HELD_SECONDS + 1
        return None


def count_throughput(spark: SparkSession, events: DataFrame, faults: Iterable[EffectiveFault]) -> dict[str, Throughput]:
    """By fault, the throughput of `events`, a frame with the column `at` in microseconds."""
    spans = {fault.name: fault.span for fault in faults}
    during = spark.createDataFrame(
        [(name, span.start_us, span.end_us) for name, span in spans.items()], "fault string, start long, end long"
    )
    neighbour = Window.partitionBy("fault", "second").orderBy("at")
    counted = (
        events.join(F.broadcast(during), F.expr("at >= start AND at < end"))
        .withColumn("second", F.floor((F.col("at") - F.col("start")) / SECOND_US))
        .withColumn("gap", F.col("at") - F.lag("at").over(neighbour))
        .groupBy("fault", "second")
        .agg(F.count("*").alias("n"), F.min("at").alias("first"), F.max("at").alias("last"), F.max("gap").alias("gap"))
    )
    seconds: dict[str, dict[int, EventsInSecond]] = defaultdict(dict)
    for row in counted.collect():
        seconds[row.fault][row.second] = EventsInSecond(
            count=row.n, first_us=row["first"], last_us=row["last"], gap_us=row.gap or 0
        )
    return {name: Throughput(span=span, seconds=seconds[name]) for name, span in spans.items()}
