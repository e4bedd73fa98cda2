"""Judges the messages of a run in two steps: the facts about each message, then comparisons between messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.directory import Run
from brokerproof.run.judgement import TOTALS, Counts
from brokerproof.run.tables import SCHEMAS, Batches
from pyspark.sql import DataFrame, SparkSession

from brokerproof_judging import table_io
from brokerproof_judging.applicability import list_applicable_anomalies
from brokerproof_judging.database import (
    DuckDB,
    define_values,
    make_small_table,
    read_part,
    register_tables,
    select_batches,
    select_rows,
    write_part,
)
from brokerproof_judging.evidence import Evidence, list_subscriptions
from brokerproof_judging.messages.comparisons import COMPARISONS, ComparisonInput, find_by_comparison
from brokerproof_judging.messages.legality import list_destroyed, list_forbidden, list_loosened
from brokerproof_judging.messages.message_columns import define_macros, read_query
from brokerproof_judging.messages.message_facts import PLACES, FactsOfPart
from brokerproof_judging.messages.publish_record import PartSummary
from brokerproof_judging.partitioned_sql import (
    collect_answers,
    set_adaptive_plans,
    start_workers,
    work_in_parts,
    work_on_parts,
)
from brokerproof_judging.recorded_parts import divide_records

_FOUND_WITHOUT_FACTS = """
    SELECT anomaly, who, number, topic, cluster, subscription FROM findings WHERE without_facts LIMIT 1
"""

_FINDINGS_BY_ANOMALY = "SELECT legal, anomaly, count(*) AS count FROM findings GROUP BY legal, anomaly"


@dataclass(frozen=True, kw_only=True)
class ResultTablesOfPart:
    """Writes one part of the tables `messages` and `anomalies` to the directories of these names.

    It reads the files that `FactsOfPart` wrote to the directories `places` and `findings`, and the database's table
    `rows`, which has the findings of comparisons.
    """

    run_id: str
    places: str
    findings: str
    messages: str
    anomalies: str
    forbidden: pa.Table
    loosened: pa.Table
    # (cluster, time of effect, time of healing), as `list_destroyed` returns them.
    destroyed: Sequence[tuple[str, int, int | None]]

    SCHEMA = "part int, counts string"

    def __call__(self, part: int, connection: DuckDB) -> Batches:
        """Write the tables of a part. Yield one row: the part's number, and its counts as JSON.

        Raises RunError if a comparison found an anomaly of a message at a place (a log or a subscription), although
        `FactsOfPart` wrote no facts about this message at this place.
        """
        self._prepare(part, connection)
        connection.execute(read_query("findings"))
        if found := select_rows(connection, _FOUND_WITHOUT_FACTS):
            raise RunError(f"a comparison found an anomaly at a place that no fact is about: {found[0]}")
        for table, directory in (("messages", self.messages), ("anomalies", self.anomalies)):
            write_part(directory, part, SCHEMAS[table], select_batches(connection, read_query(table)))
        (counts,) = select_rows(connection, read_query("counts"))
        answer = json.dumps({"messages": counts, "anomalies": select_rows(connection, _FINDINGS_BY_ANOMALY)})
        yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32()), "counts": [answer]})

    def _prepare(self, part: int, connection: DuckDB) -> None:
        define_macros(connection)
        define_values(connection, {"run_id": self.run_id})
        read_part(connection, "places", self.places, part)
        read_part(connection, "fact_findings", self.findings, part)
        register_tables(
            connection,
            {
                "forbidden": self.forbidden,
                "loosened": self.loosened,
                "destroyed_clusters": make_small_table(
                    "name string, effective_at int64, healed_at int64", self.destroyed
                ),
            },
        )


def add_up_counts(answers: Iterable[str]) -> Counts:
    """Return the sum of all parts' counts, with numbers of allowed (legal) and forbidden (illegal) anomalies."""
    totals = dict.fromkeys((*TOTALS, "not_sent"), 0)
    legal, illegal = (dict.fromkeys(Anomaly, 0) for _ in range(2))
    for answer in map(json.loads, answers):
        for name, count in answer["messages"].items():
            totals[name] += count
        for row in answer["anomalies"]:
            (legal if row["legal"] else illegal)[Anomaly(row["anomaly"])] += row["count"]
    return Counts(**totals, legal=legal, illegal=illegal)


RECORDED_TABLES = ("publishes", "stored", "deliveries")

_WORKER_MODULES = ("brokerproof_judging.messages.comparisons", "brokerproof_judging.messages.message_judging")


def start_judging_workers(spark: SparkSession) -> None:
    """Start Spark's workers and let them import the modules of judging while Spark plans the first query."""
    start_workers(spark, *_WORKER_MODULES)


class MessageJudging:
    """Judges the messages of a run. Call `work_out_facts` first, then `write_tables`.

    `write_tables` writes new tables `messages` and `anomalies`. They replace the run's old tables when
    `replacement.take_place` is called.
    """

    def __init__(
        self,
        spark: SparkSession,
        run: Run,
        frames: dict[str, DataFrame],
        evidence: Evidence,
        replacement: table_io.Replacement,
    ) -> None:
        self._spark, self._run, self._frames, self._replacement = spark, run, frames, replacement
        self._recorded = divide_records(spark, run, replacement)
        self._parts = self._recorded.division.parts
        set_adaptive_plans(spark, self._parts)
        self._evidence = evidence
        self._anomalies = list_applicable_anomalies(run)
        self._places, self._findings = (replacement.locate_beside(name) for name in ("places", "findings"))

    def work_out_facts(self) -> list[PartSummary]:
        """Write the facts about every message and the anomalies that they show. Return the summary of each part."""
        facts = FactsOfPart(
            recorded=self._recorded,
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
        answers = collect_answers(self._parts, work_in_parts(self._spark, self._parts, facts, facts.SCHEMA))
        return [PartSummary(**json.loads(answer)) for answer in answers]

    def write_tables(self) -> Counts:
        """Compare messages with each other, write `messages` and `anomalies`, and return the counts of both tables."""
        schema = table_io.to_spark_schema(PLACES)
        compared = ComparisonInput(
            publishes=self._frames["publishes"],
            stored=self._frames["stored"],
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
        found = find_by_comparison(self._spark, compared, self._recorded.division, self._anomalies)
        answers = work_on_parts(found.repartitionById(self._parts, "part"), results, results.SCHEMA)
        return add_up_counts(collect_answers(self._parts, answers))
