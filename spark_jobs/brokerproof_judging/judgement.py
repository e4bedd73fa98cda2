"""Judges a run: facts, anomalies and measurements as tables, the suites, and one verdict."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from brokerproof.errors import RunError
from brokerproof.experiment.verdict import Verdict, merge_verdicts
from brokerproof.run.directory import Run
from pyspark.sql import DataFrame, SparkSession

from brokerproof_judging import partitioned_sql, table_io
from brokerproof_judging.evidence import Evidence
from brokerproof_judging.measurements import failover, link, measurement, placement, publishing, recovery, replication
from brokerproof_judging.measurements.run_times import Timeline
from brokerproof_judging.measurements.samples import Samples
from brokerproof_judging.messages import attempts
from brokerproof_judging.messages.anomalies import Evidenced, Seen, findings, forbidden, searched
from brokerproof_judging.messages.facts import PLACES, Facts, gathered
from brokerproof_judging.messages.result_tables import Results, counted

_Takes = ParamSpec("_Takes")
_Gives = TypeVar("_Gives")
Evaluate = Callable[[SparkSession, Run, str], Mapping[str, Mapping[str, Any]]]

_WORKERS_IMPORT = ("brokerproof_judging.messages.facts", "brokerproof_judging.messages.result_tables")

# What Arrow and DuckDB hold of so many rows is some 500 MB, in each of the tasks that run at a time.
_ROWS_A_PART = 2_000_000


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
    replacement = table_io.Replacement(run)
    side = SideBySide()
    try:
        warm = side.begin(partitioned_sql.warm_up, spark, *_WORKERS_IMPORT)
        tables = {name: table_io.read(spark, run, name) for name in ("publishes", "stored", "deliveries")}
        sizes = {name: table_io.size(run, name) for name in tables}
        among = _parts(spark, sum(sizes.values()))
        evidence = Evidence.of(run)
        clock_error_us = int(run.facts.get("clock_error_us", 0))
        recorded = side.begin(_recorded, spark, run, tables)
        facts = Facts.of(
            replacement.beside("places"),
            run.scenario,
            run.topology,
            evidence.tables(),
            clock_error_us=clock_error_us,
            in_log=findings(Seen.LOG, evidence.undone.given),
            at_subscription=findings(Seen.SUBSCRIPTION, evidence.undone.given),
        )
        with watch.step("facts"):
            told = every(among, partitioned_sql.look(among.by_message(gathered(**tables)), facts, facts.SCHEMA))
            warm.result()
        with watch.step("tables"):
            places = spark.read.schema(table_io.in_spark(PLACES)).parquet(table_io.location(facts.directory))
            seen = Evidenced(
                publishes=tables["publishes"],
                stored=tables["stored"],
                places=places,
                clock_error_us=clock_error_us,
            )
            results = Results(
                run_id=run.run_id,
                places=facts.directory,
                messages=replacement.beside("messages"),
                anomalies=replacement.beside("anomalies"),
                forbidden=forbidden(run.scenario, run.topology),
                destroyed=run.scenario.destroyed,
            )
            found = among.by_message(searched(seen, among))
            counts = counted(sizes["publishes"], every(among, partitioned_sql.look(found, results, results.SCHEMA)))
        with watch.step("measurements"):
            heard = [json.loads(each) for each in told]
            problems = [*evidence.problems(run, attempts.logs(heard)), *attempts.problems(heard)]
            rows = _measurements(spark, run, recorded.result(), replacement.read(spark, "messages"))
            replacement.write("measurements", spark.createDataFrame(rows, table_io.schema("measurements")).coalesce(1))
        replacement.take_place()
    finally:
        side.end()
        replacement.discard()
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
    timeline = Timeline.of(run, table_io.read(spark, run, "faults"))
    return _Recorded(
        timeline=timeline,
        samples=Samples.of(table_io.read(spark, run, "observations")),
        pacing=recovery.Pacing.of(spark, timeline, tables["publishes"], tables["deliveries"]),
    )


def _measurements(spark: SparkSession, run: Run, recorded: _Recorded, judged: DataFrame) -> list[dict[str, Any]]:
    """Rows of the table `measurements`; `judged` is the table `messages`."""
    timeline, samples = recorded.timeline, recorded.samples
    return measurement.rows(
        run,
        [
            *placement.of_ledgers(table_io.read(spark, run, "ledgers")),
            placement.of_replication(samples),
            *placement.of_reads(run, timeline, samples),
            *placement.of_owners(run, timeline, samples),
            *recovery.of_faults(run, timeline, samples, recorded.pacing, judged),
            *publishing.of_publishing(run, timeline, judged),
            *link.of_link(run, timeline, samples),
            *replication.of_lag(run, timeline, judged),
            *failover.of_moves(run, judged),
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
    verdict = merge_verdicts([*verdicts.values(), *([Verdict.UNKNOWN] if problems else [])])
    if verdict is Verdict.PASSED:
        total = f"{counts['messages']} messages, {counts['acked']} of them acknowledged"
        return verdict, f"All that was promised held for {total}."
    reasons = [f"{name}: {suites[name]['why']}" for name in verdicts if verdicts[name] is verdict]
    if verdict is Verdict.UNKNOWN:
        reasons += problems
    if not reasons:
        return verdict, "No suite said anything."
    return verdict, "; ".join(reason.rstrip(".") for reason in reasons) + "."


def _parts(spark: SparkSession, rows: int) -> partitioned_sql.Parts:
    """As many parts as rows need, and at least as many as there are tasks to shuffle for.

    Where there are few, plans are not adapted while they run: that costs more than it saves.
    """
    least = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    wanted = rows // _ROWS_A_PART
    spark.conf.set("spark.sql.adaptive.enabled", str(wanted > least).lower())
    return partitioned_sql.Parts(max(least, wanted))


def every(among: partitioned_sql.Parts, answers: DataFrame) -> list[str]:
    """What each part answered. Raises RunError where one did not, or twice."""
    rows = answers.collect()
    if sorted(row.part for row in rows) != list(range(among.count)):
        raise RunError(f"of {among.count} parts of the messages, these were looked at: {[row.part for row in rows]}")
    return [row[1] for row in rows]
