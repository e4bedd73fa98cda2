"""Judges the messages of a run in two steps: the facts about each message, then comparisons between messages."""

from __future__ import annotations

import json

from brokerproof.run.directory import Run
from brokerproof.run.judgement import Counts
from brokerproof.run.table_rows import count_rows
from pyspark.sql import DataFrame, SparkSession

from brokerproof_judging import table_io
from brokerproof_judging.applicability import list_applicable_anomalies
from brokerproof_judging.evidence import Evidence, list_subscriptions
from brokerproof_judging.messages.comparisons import COMPARISONS, ComparisonInput, find_by_comparison
from brokerproof_judging.messages.legality import list_destroyed, list_forbidden, list_loosened
from brokerproof_judging.messages.message_facts import PLACES, FactsOfPart, unite_records
from brokerproof_judging.messages.publish_record import PartSummary
from brokerproof_judging.messages.result_tables import ResultTablesOfPart, add_up_counts
from brokerproof_judging.partitioned_sql import choose_parts, collect_answers, start_workers, work_on_parts

RECORDED_TABLES = ("publishes", "stored", "deliveries")

_WORKER_MODULES = ("brokerproof_judging.messages.comparisons", "brokerproof_judging.messages.result_tables")


def start_judging_workers(spark: SparkSession) -> None:
    """Start Spark's workers and let them import the modules of judging while Spark plans the first query."""
    start_workers(spark, *_WORKER_MODULES)


class MessageJudging:
    """Judges the messages of a run. Call `work_out_facts` first, then `write_tables`.

    The first writes intermediate tables, and the second the tables `messages` and `anomalies`. The run's old tables
    stay until `replacement.take_place` is called.
    """

    def __init__(
        self,
        spark: SparkSession,
        run: Run,
        recorded: dict[str, DataFrame],
        evidence: Evidence,
        replacement: table_io.Replacement,
    ) -> None:
        self._spark, self._run, self._recorded, self._replacement = spark, run, recorded, replacement
        self._parts = choose_parts(spark, sum(count_rows(run, name) for name in recorded))
        self._evidence = evidence
        self._anomalies = list_applicable_anomalies(run)
        self._places, self._findings = (replacement.locate_beside(name) for name in ("places", "findings"))

    def work_out_facts(self) -> list[PartSummary]:
        """Write the facts about every message and the anomalies that they show. Return the summary of each part."""
        facts = FactsOfPart(
            places=self._places,
            findings=self._findings,
            topology=self._run.topology,
            subscriptions=[
                (each.cluster, each.name, each.moved_from)
                for each in list_subscriptions(self._run.scenario, self._run.topology)
            ],
            evidence=self._evidence.make_tables(),
            faults_undone=self._evidence.undone.given,
            clock_error_us=self._run.facts.clock_error_us,
            anomalies=[str(anomaly) for anomaly in self._anomalies if anomaly not in COMPARISONS],
        )
        records = self._parts.split_by_message(unite_records(**self._recorded))
        answers = collect_answers(self._parts, work_on_parts(records, facts, facts.SCHEMA))
        return [PartSummary(**json.loads(answer)) for answer in answers]

    def write_tables(self) -> Counts:
        """Compare messages with each other, write `messages` and `anomalies`, and return the counts."""
        schema = table_io.to_spark_schema(PLACES)
        compared = ComparisonInput(
            publishes=self._recorded["publishes"],
            stored=self._recorded["stored"],
            places=self._spark.read.schema(schema).parquet(table_io.to_uri(self._places)),
            clock_error_us=self._run.facts.clock_error_us,
        )
        results = ResultTablesOfPart(
            run_id=self._run.run_id,
            places=self._places,
            findings=self._findings,
            messages=self._replacement.locate_beside("messages"),
            anomalies=self._replacement.locate_beside("anomalies"),
            forbidden=list_forbidden(self._run.scenario, self._run.topology),
            loosened=list_loosened(self._run.scenario),
            destroyed=list_destroyed(self._run),
        )
        found = find_by_comparison(self._spark, compared, self._parts, self._anomalies)
        answers = work_on_parts(self._parts.split_by_message(found), results, results.SCHEMA)
        return add_up_counts(collect_answers(self._parts, answers))
