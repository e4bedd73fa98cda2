"""Judges a run: facts, anomalies and measurements as tables, the suites, and one verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.directory import Run
from pyspark.sql import DataFrame, SparkSession

from brokerproof_judging import table_io
from brokerproof_judging.background_jobs import BackgroundJobs
from brokerproof_judging.conclusion import conclude
from brokerproof_judging.evidence import Evidence, subscriptions
from brokerproof_judging.measurements import failover, link, measurement, placement, publishing, recovery, replication
from brokerproof_judging.measurements.run_times import Timeline
from brokerproof_judging.measurements.samples import Samples
from brokerproof_judging.messages import publish_record
from brokerproof_judging.messages.comparisons import COMPARISONS, Compared, find_by_comparison
from brokerproof_judging.messages.facts import PLACES, FactsOfPart
from brokerproof_judging.messages.legality import list_forbidden
from brokerproof_judging.messages.records import unite_records
from brokerproof_judging.messages.result_tables import ResultTablesOfPart, add_up_counts
from brokerproof_judging.partitioned_sql import choose_parts, collect_answers, start_workers, work_on_parts
from brokerproof_judging.stopwatch import Stopwatch

Evaluate = Callable[[SparkSession, Run, str], Mapping[str, Mapping[str, Any]]]

_WORKERS_IMPORT = ("brokerproof_judging.messages.comparisons", "brokerproof_judging.messages.result_tables")


def judge(spark: SparkSession, run: Run, evaluate: Evaluate, expectations: str) -> dict[str, Any]:
    """Verify the run: write `messages`, `anomalies` and `measurements`, and return what judgement.json holds.

    `evaluate` runs the suites of `expectations` over the tables just written.
    """
    watch = Stopwatch()
    replacement = table_io.Replacement(run)
    jobs = BackgroundJobs()
    try:
        workers = jobs.begin(start_workers, spark, *_WORKERS_IMPORT)
        tables = {name: table_io.read(spark, run, name) for name in ("publishes", "stored", "deliveries")}
        sizes = {name: table_io.size(run, name) for name in tables}
        parts = choose_parts(spark, sum(sizes.values()))
        evidence = Evidence.of(run)
        clock_error_us = run.facts.clock_error_us
        recorded = jobs.begin(_recorded, spark, run, tables)
        facts = FactsOfPart(
            places=replacement.beside("places"),
            findings=replacement.beside("findings"),
            topology=run.topology,
            subscriptions=[
                (each.cluster, each.name, each.moved_from) for each in subscriptions(run.scenario, run.topology)
            ],
            evidence=evidence.tables(),
            faults_undone=evidence.undone.given,
            clock_error_us=clock_error_us,
            anomalies=[str(anomaly) for anomaly in Anomaly if anomaly not in COMPARISONS],
        )
        with watch.time_step("facts"):
            records = parts.split_by_message(unite_records(**tables))
            answers = collect_answers(parts, work_on_parts(records, facts, facts.SCHEMA))
            workers.result()
        with watch.time_step("tables"):
            compared = Compared(
                publishes=tables["publishes"],
                stored=tables["stored"],
                places=spark.read.schema(table_io.in_spark(PLACES)).parquet(table_io.location(facts.places)),
                clock_error_us=clock_error_us,
            )
            results = ResultTablesOfPart(
                run_id=run.run_id,
                places=facts.places,
                findings=facts.findings,
                messages=replacement.beside("messages"),
                anomalies=replacement.beside("anomalies"),
                forbidden=list_forbidden(run.scenario, run.topology),
                destroyed=run.scenario.destroyed,
            )
            found = parts.split_by_message(find_by_comparison(compared, parts, list(Anomaly)))
            counts = add_up_counts(
                sizes["publishes"], collect_answers(parts, work_on_parts(found, results, results.SCHEMA))
            )
        with watch.time_step("measurements"):
            summaries = [publish_record.PartSummary(**json.loads(answer)) for answer in answers]
            logs = publish_record.list_logs(summaries)
            problems = [*evidence.problems(run, logs), *publish_record.find_problems(summaries)]
            rows = _measurements(spark, run, recorded.result(), replacement.read(spark, "messages"))
            replacement.write("measurements", spark.createDataFrame(rows, table_io.schema("measurements")).coalesce(1))
        replacement.take_place()
    finally:
        jobs.end()
        replacement.discard()
    with watch.time_step("suites"):
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
