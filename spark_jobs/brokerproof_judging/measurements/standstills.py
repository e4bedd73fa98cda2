"""Reads the standstills of clients: times in which a client did nothing and may have caused measured delays itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from brokerproof.clients.consuming import plan_consumers
from brokerproof.clients.producing import plan_producers
from brokerproof.run.directory import Run
from brokerproof.run.records import ConsumerEnd, ProducerEnd, read_record
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerproof_judging.table_io import make_constant

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
    """Read the standstills from the records that clients wrote when they ended. A client without a record has none."""
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
    """Return the latest time, `end_us` or earlier, that lies outside all times of `causes`.

    `causes` are times (from, to) in µs in which standstills may have had effects. They may overlap.
    """
    for begin, until in sorted(causes, key=lambda cause: cause[1], reverse=True):
        if begin < end_us <= until:
            end_us = begin
    return end_us


def mark_own(times: DataFrame, standstills: Times, client: Column) -> DataFrame:
    """Return `times` (`start`, `end` in µs) with the column `own`.

    `own` is true if a standstill of the row's `client` may have caused or lengthened the time from `start` to `end`.
    """
    causes = {name: list_causes(each) for name, each in standstills.items() if each}
    if not causes:
        return times.withColumn("own", F.lit(False))
    touches = F.exists(
        _look_up(causes, client), lambda each: (F.col("start") <= each["until"]) & (F.col("end") > each["begin"])
    )
    return times.withColumn("own", F.coalesce(touches, F.lit(False)))


def add_proven(times: DataFrame, standstills: Times, client: Column, *, lead_us: int = 0) -> DataFrame:
    """Return the rows of `times` (`start`, `end` in µs) with `proven` false, and further rows with `proven` true.

    If no client stood still, there are no further rows. Otherwise, they repeat the rows of `times` without the parts
    that standstills of the row's `client` may have caused. So a repeated row may be shortened, split or left out. A
    standstill has effects for at least `lead_us` after its end.
    """
    if not any(standstills.values()):
        return times.withColumn("proven", F.lit(False))
    free = {}
    for name, each in standstills.items():
        causes = list_causes(each, lead_us)
        begins, ends = [-_NEVER_US, *(until for _, until in causes)], [*(begin for begin, _ in causes), _NEVER_US]
        free[name] = list(zip(begins, ends, strict=True))
    whole = F.struct("start", "end", F.lit(False).alias("proven"))
    always = F.array(F.struct(F.col("start").alias("begin"), F.col("end").alias("until")))
    parts = F.transform(
        F.coalesce(_look_up(free, client), always),
        lambda each: F.struct(
            F.greatest("start", each["begin"]).alias("start"),
            F.least("end", each["until"]).alias("end"),
            F.lit(True).alias("proven"),
        ),
    )
    left = F.filter(parts, lambda part: part["end"] > part["start"])
    return (
        times.withColumn("part", F.explode(F.concat(F.array(whole), left)))
        .withColumns({name: F.col(f"part.{name}") for name in ("start", "end", "proven")})
        .drop("part")
    )


def _look_up(times: Times, client: Column) -> Column:
    """Return the entry of `times` for a row's client, as a list of (`begin`, `until`); null if there is no entry."""
    values = {name: [{"begin": begin, "until": until} for begin, until in each] for name, each in times.items()}
    return F.try_element_at(make_constant(values, "map<string, array<struct<begin: long, until: long>>>"), client)


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
