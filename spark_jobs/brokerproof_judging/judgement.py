"""Judges a run: facts, anomalies and measurements as tables, the suites, and one verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from brokerproof.guarantees import Anomaly
from brokerproof.run import Run
from brokerproof.verdict import Verdict, merge
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerproof_judging import attempts, frames, measured, messages, placement, recovery, replication, results
from brokerproof_judging.anomalies import SEARCHES, Evidenced, Facts, Seen, search, together, with_findings
from brokerproof_judging.evidence import Evidence
from brokerproof_judging.samples import Samples
from brokerproof_judging.timeline import Timeline

_Takes = ParamSpec("_Takes")
_Gives = TypeVar("_Gives")
Evaluate = Callable[[SparkSession, Run, str], Mapping[str, Mapping[str, Any]]]

# Past this many rows what the searches found is no longer sent whole to every task.
_FEW = 100_000
# Sorted, this many rows take some 200 MB.
_ROWS_A_TASK = 1_000_000


class SideBySide:
    """Spark jobs that run beside each other: one alone leaves cores idle while it is planned and when it ends."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(thread_name_prefix="judging")

    def begin(self, work: Callable[_Takes, _Gives], *args: _Takes.args, **kwargs: _Takes.kwargs) -> Future[_Gives]:
        """Begin some work; what it raises comes out of the future's `result`."""
        return self._pool.submit(work, *args, **kwargs)

    def end(self) -> None:
        """Wait for what has begun, so that nothing writes any more."""
        self._pool.shutdown(cancel_futures=True)


@dataclass
class Stopwatch:
    """Seconds of wall time by step, or waiting for it."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - started, 3)


def judge(spark: SparkSession, run: Run, evaluate: Evaluate, expectations: str) -> dict[str, Any]:
    """Verify the run: write `messages`, `anomalies` and `measurements`, and return what judgement.json holds.

    `evaluate` runs the suites of `expectations` over the tables just written.
    """
    watch = Stopwatch()
    tables = {name: frames.read(spark, run, name) for name in ("publishes", "stored", "deliveries")}
    # Parquet's footers know; no row is read for this.
    sizes = {name: table.count() for name, table in tables.items()}
    _spread(spark, sum(sizes.values()))
    evidence = Evidence.of(run)
    proofs = evidence.frames(spark)
    held: list[DataFrame] = []

    def hold(frame: DataFrame) -> DataFrame:
        # On disk: what is kept between passes must not compete with sorting for memory.
        held.append(frame.persist(StorageLevel.DISK_ONLY))
        return held[-1]

    replacement = frames.Replacement(run)
    side = SideBySide()
    try:
        logs = hold(messages.logs(run, tables["publishes"], tables["stored"], proofs))
        deliveries = hold(messages.deliveries(spark, run, logs, tables["deliveries"], proofs))
        seen = Evidenced(
            publishes=tables["publishes"],
            stored=tables["stored"],
            logs=logs,
            deliveries=deliveries,
            clock_error_us=int(run.facts.get("clock_error_us", 0)),
        )

        def found(anomaly: Anomaly) -> tuple[DataFrame, int]:
            frame = hold(search(anomaly, seen))
            return frame, frame.count()

        def begin(facts: Facts) -> list[Future[tuple[DataFrame, int]]]:
            return [side.begin(found, anomaly) for anomaly, each in SEARCHES.items() if each.needs is facts]

        searches = begin(Facts.NONE)
        recorded = side.begin(_recorded, spark, run, tables)
        with watch.step("facts"):
            logs.count()
            searches += begin(Facts.LOGS)
            told = side.begin(_problems, run, evidence, tables["publishes"], logs)
            deliveries.count()
        with watch.step("searches"):
            searches += begin(Facts.DELIVERIES)
            ended = [each.result() for each in searches]
            searched = together(frame for frame, _ in ended)
            if sum(rows for _, rows in ended) <= _FEW:
                searched = F.broadcast(searched)
        with watch.step("tables"):
            in_log = with_findings(logs, Seen.LOG, searched, evidence.undone.given)
            at_subscription = with_findings(deliveries, Seen.SUBSCRIPTION, searched, evidence.undone.given)
            second = side.begin(replacement.write, "anomalies", results.anomalies(run, in_log, at_subscription))
            replacement.write("messages", results.messages(run, in_log, at_subscription))
            second.result()
        with watch.step("measurements"):
            judged = replacement.read(spark, "messages")
            counted = side.begin(results.counts, sizes["publishes"], judged, replacement.read(spark, "anomalies"))
            rows = _measurements(spark, run, recorded.result(), judged)
            replacement.write("measurements", spark.createDataFrame(rows, frames.schema("measurements")).coalesce(1))
            counts, problems = counted.result(), told.result()
        replacement.take_place()
    finally:
        side.end()
        replacement.discard()
        for frame in held:
            frame.unpersist()
    with watch.step("suites"):
        suites = evaluate(spark, run, expectations)
    verdict, why = conclude(counts, problems, suites)
    return {
        "verdict": str(verdict),
        "why": why,
        "problems": problems,
        "suites": suites,
        "counts": counts,
        "recovery": recovery.by_fault(rows),
        "measurements": rows,
        "seconds": watch.seconds,
    }


@dataclass(frozen=True, kw_only=True)
class _Recorded:
    """What is measured from the jobs' own records, before anything is judged."""

    timeline: Timeline
    samples: Samples
    pacing: recovery.Pacing


def _recorded(spark: SparkSession, run: Run, tables: Mapping[str, DataFrame]) -> _Recorded:
    timeline = Timeline.of(run, frames.read(spark, run, "faults"))
    return _Recorded(
        timeline=timeline,
        samples=Samples.of(frames.read(spark, run, "observations")),
        pacing=recovery.Pacing.of(spark, timeline, tables["publishes"], tables["deliveries"]),
    )


def _problems(run: Run, evidence: Evidence, publishes: DataFrame, logs: DataFrame) -> list[str]:
    return [*evidence.problems(run, _logs(logs)), *attempts.problems(publishes, logs)]


def _measurements(spark: SparkSession, run: Run, recorded: _Recorded, judged: DataFrame) -> list[dict[str, Any]]:
    """Rows of the table `measurements`; `judged` is the table `messages`."""
    timeline, samples = recorded.timeline, recorded.samples
    return measured.rows(
        run,
        [
            *placement.of_ledgers(frames.read(spark, run, "ledgers")),
            placement.of_replication(samples),
            *placement.of_reads(run, timeline, samples),
            *placement.of_owners(run, timeline, samples),
            *recovery.of_faults(run, timeline, samples, recorded.pacing, judged),
            *recovery.of_phases(run, timeline, judged),
            *replication.of_lag(run, timeline, judged),
            recovery.of_sampling(run, timeline, samples),
        ],
    )


def conclude(
    counts: Mapping[str, Any], problems: list[str], suites: Mapping[str, Mapping[str, Any]]
) -> tuple[Verdict, str]:
    """The verdict on the whole run, and why, in one sentence."""
    if not counts["publishes"]:
        return Verdict.NO_DATA, "Nobody published anything."
    verdicts = {name: Verdict(suite["verdict"]) for name, suite in suites.items()}
    verdict = merge([*verdicts.values(), *([Verdict.UNKNOWN] if problems else [])])
    if verdict is Verdict.PASSED:
        total = f"{counts['messages']} messages, {counts['acked']} of them acknowledged"
        return verdict, f"All that was promised held for {total}."
    reasons = [f"{name}: {suites[name]['why']}" for name in verdicts if verdicts[name] is verdict]
    if verdict is Verdict.UNKNOWN:
        reasons += problems
    if not reasons:
        return verdict, "No suite said anything."
    return verdict, "; ".join(reason.rstrip(".") for reason in reasons) + "."


def _spread(spark: SparkSession, rows: int) -> None:
    """Enough tasks that each one's share is sorted in little memory; few where there are few rows.

    Where there are few, plans are not adapted while they run: that costs more than it saves, and what is kept between
    passes would forget how it is sorted.
    """
    least = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    wanted = rows // _ROWS_A_TASK
    spark.conf.set("spark.sql.shuffle.partitions", str(max(least, wanted)))
    spark.conf.set("spark.sql.adaptive.enabled", str(wanted > least).lower())


def _logs(logs: DataFrame) -> list[tuple[str, tuple[str, str, int]]]:
    """(home, log) of every log that messages had to reach: few, whatever the number of messages."""
    rows = logs.filter("required").select("home", "cluster", "topic", "partition").distinct().collect()
    return sorted((row.home, (row.cluster, row.topic, row.partition)) for row in rows if row.partition is not None)
