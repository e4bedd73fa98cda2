"""Reads the standstills of clients: times in which a client did nothing and may have caused measured delays itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from brokerproof.clients.consuming import plan_consumers
from brokerproof.clients.producing import plan_producers
from brokerproof.run.directory import Run
from brokerproof.run.records import ConsumerEnd, ProducerEnd, read_record
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

OF_STANDSTILLS = "; it is less without the times in which a client itself stood still"
# Later than every time in a run.
_NEVER_US = 2**62
# By a client's name, its standstills (from, to) in µs.
Times = Mapping[str, Sequence[tuple[int, int]]]


@dataclass(frozen=True, kw_only=True)
class Standstills:
    """The times (from, to) in µs in which clients stood still.

    `of_acks` has, by producer, the standstills that may delay acks. `of_deliveries` has, by subscription, those that
    may delay deliveries: the standstills of all producers and of the subscription's consumers. `of_consumers` has, by
    subscription, only those of its consumers.
    """

    of_acks: Times = field(default_factory=dict)
    of_deliveries: Times = field(default_factory=dict)
    of_consumers: Times = field(default_factory=dict)


def read_standstills(run: Run) -> Standstills:
    """Read the standstills from the records that clients wrote at their ends. Without a record, a client has none."""
    acks: dict[str, list[tuple[int, int]]] = {}
    for producer in plan_producers(run):
        if produced := read_record(run, ProducerEnd, producer.number):
            acks.setdefault(produced.producer, []).extend(produced.standstills)
    of_producers = [times for each in acks.values() for times in each]
    consumers: dict[str, list[tuple[int, int]]] = {each.name: [] for each in run.scenario.workload.subscriptions}
    for consumer in plan_consumers(run):
        if consumed := read_record(run, ConsumerEnd, consumer.number):
            consumers[consumer.subscription].extend(consumed.standstills)
    deliveries = {name: [*of_producers, *times] for name, times in consumers.items()}
    return Standstills(of_acks=acks, of_deliveries=deliveries, of_consumers=consumers)


def find_proven_end(causes: Iterable[tuple[int, int]], end_us: int) -> int:
    """Return the last time up to `end_us` that is in none of the times `causes`, which may overlap. Times are in µs."""
    for begin, until in sorted(causes, key=lambda cause: cause[1], reverse=True):
        if begin < end_us <= until:
            end_us = begin
    return end_us


def mark_own(spark: SparkSession, times: DataFrame, standstills: Times, client: Column) -> DataFrame:
    """Return `times` (`start`, `end` in µs) with the column `own`.

    `own` is true if a standstill of the row's `client` may have caused or lengthened the time from `start` to `end`.
    """
    rows = [(name, list_causes(each)) for name, each in standstills.items() if each]
    if not rows:
        return times.withColumn("own", F.lit(False))
    causes = spark.createDataFrame(rows, "own_client string, causes array<struct<begin: long, until: long>>")
    touches = F.exists("causes", lambda each: (F.col("start") <= each["until"]) & (F.col("end") > each["begin"]))
    return (
        times.join(F.broadcast(causes), client == F.col("own_client"), "left")
        .withColumn("own", F.coalesce(touches, F.lit(False)))
        .drop("own_client", "causes")
    )


def cut_out_own(
    spark: SparkSession, times: DataFrame, standstills: Times, client: Column, *, lead_us: int = 0
) -> DataFrame:
    """Return `times` (`start`, `end` in µs) without the parts that standstills of the row's `client` may have caused.

    A row may be shortened, split or removed. A standstill has effects for at least `lead_us` after its end.
    """
    rows = []
    for name, each in standstills.items():
        causes = list_causes(each, lead_us)
        begins, ends = [-_NEVER_US, *(until for _, until in causes)], [*(begin for begin, _ in causes), _NEVER_US]
        rows.append((name, list(zip(begins, ends, strict=True))))
    if not rows:
        return times
    free = spark.createDataFrame(rows, "free_client string, free array<struct<begin: long, until: long>>")
    whole = F.array(F.struct(F.col("start").alias("begin"), F.col("end").alias("until")))
    parts = F.transform(
        F.coalesce("free", whole),
        lambda each: F.struct(
            F.greatest("start", each["begin"]).alias("start"), F.least("end", each["until"]).alias("end")
        ),
    )
    return (
        times.join(F.broadcast(free), client == F.col("free_client"), "left")
        .withColumn("part", F.explode(F.filter(parts, lambda part: part["end"] > part["start"])))
        .withColumns({"start": F.col("part.start"), "end": F.col("part.end")})
        .drop("free_client", "free", "part")
    )


def list_causes(standstills: Iterable[tuple[int, int]], lead_us: int = 0) -> list[tuple[int, int]]:
    """Return the times in µs in which standstills may make messages late, in order and without overlaps.

    Such a time begins with the standstill. After the standstill, the client works off the messages that came due
    meanwhile. This is assumed to take as long as the standstill, and at least `lead_us`.
    """
    found: list[tuple[int, int]] = []
    for begin, end in sorted(standstills):
        until = end + max(end - begin, lead_us)
        if found and begin <= found[-1][1]:
            begin, until = found[-1][0], max(found.pop()[1], until)
        found.append((begin, until))
    return found
