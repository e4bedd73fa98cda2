"""Judges the messages of a run in two steps: the facts about each message, then comparisons between messages."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.directory import Run
from brokerproof.run.division import DIVIDED_TABLES, commit_files
from brokerproof.run.judgement import TOTALS, Counts
from brokerproof.run.tables import SCHEMAS, Batches
from pyspark.sql import SparkSession

from brokerproof_judging import table_io
from brokerproof_judging.applicability import list_applicable_anomalies
from brokerproof_judging.database import (
    DuckDB,
    define_values,
    load_table,
    make_small_table,
    read_bucket,
    read_part,
    read_parts,
    register_tables,
    select_batches,
    select_rows,
    write_part,
)
from brokerproof_judging.evidence import Evidence, list_subscriptions
from brokerproof_judging.messages.clean_results import ArraysOfPart, CleanResultsOfPart, load_description
from brokerproof_judging.messages.compared_parts import compare_parts
from brokerproof_judging.messages.comparisons import COMPARISONS, ComparisonsOfBucket, compare_in_database, write_rows
from brokerproof_judging.messages.legality import list_destroyed, list_forbidden, list_loosened
from brokerproof_judging.messages.message_columns import NAMES, define_macros, read_query
from brokerproof_judging.messages.message_facts import FINDINGS, FactsOfPart
from brokerproof_judging.messages.publish_record import PartSummary
from brokerproof_judging.messages.turns import find_turns
from brokerproof_judging.partitioned_sql import start_workers, with_database, work_in_parts
from brokerproof_judging.recorded_parts import RecordedParts, divide_records

_FOUND_WITHOUT_FACTS = """
    SELECT anomaly, who, number, topic, cluster, subscription FROM findings WHERE without_facts LIMIT 1
"""

_FINDINGS_BY_ANOMALY = "SELECT legal, anomaly, count(*) AS count FROM findings GROUP BY legal, anomaly"


@dataclass(frozen=True, kw_only=True)
class ResultTablesOfPart:
    """Writes one part of the tables `messages` and `anomalies` to the directories of these names.

    It reads the files that `FactsOfPart` wrote to the directories `places` and `findings`, and the part's bucket of the
    files that `ComparisonsOfBucket` wrote to `compared`. If there is one part, `findings` has all findings.
    """

    run_id: str
    places: str
    findings: str
    compared: str
    recorded: RecordedParts
    messages: str
    anomalies: str
    forbidden: pa.Table
    loosened: pa.Table
    # (cluster, time of effect, time of healing), as `list_destroyed` returns them.
    destroyed: Sequence[tuple[str, int, int | None]]
    # The names of messages that are here only because others are compared with them: their directory, and its parts.
    witnesses: tuple[str, int] | None

    def __call__(self, part: int, connection: DuckDB) -> str:
        """Write the tables of a part, and return its counts as JSON.

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
        return json.dumps({"messages": counts, "anomalies": select_rows(connection, _FINDINGS_BY_ANOMALY)})

    def _prepare(self, part: int, connection: DuckDB) -> None:
        define_macros(connection)
        define_values(connection, {"run_id": self.run_id})
        read_part(connection, "places", self.places, part)
        read_part(connection, "fact_findings", self.findings, part)
        if self.recorded.parts > 1:
            read_bucket(connection, "rows", self.compared, FINDINGS, self.recorded.parts, part)
        else:
            load_table(connection, "rows", iter(()), FINDINGS)
        if self.witnesses:
            directory, parts = self.witnesses
            read_parts(connection, "witnesses", directory, self.recorded.list_parts_of(part, parts), NAMES)
            for table in ("places", "fact_findings", "rows"):
                connection.execute(
                    f"DELETE FROM {table} WHERE (who, number, topic) IN (SELECT (who, number, topic) FROM witnesses)"
                )
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


def compare_part(parts: int, rows: str, anomalies: Sequence[str], part: int, connection: DuckDB) -> Batches:
    """Yield the findings of comparisons if there is one part. Otherwise write the part's rows to `rows`."""
    if parts == 1:
        yield from compare_in_database(connection, anomalies)
    else:
        write_rows(connection, rows, part, parts, anomalies)


# SQL takes about 40 µs of a core for each of its messages, and the arrays' second step takes 0.5 µs for each of all. So
# this step pays if SQL leaves out a few percent of the messages.
MOST_SUSPICIOUS = 0.9
# A database with 1 GB of memory judges more rows only with files on disk.
MOST_ROWS_TOGETHER = 500_000

# Arrow imports pandas with its first array.
_WORKER_MODULES = ("brokerproof_judging.messages.message_judging", "pandas")


def start_judging_workers(spark: SparkSession) -> None:
    """Start Spark's workers and let them import the modules of judging while Spark plans the first query."""
    start_workers(spark, *_WORKER_MODULES)


class MessageJudging:
    """Judges the messages of a run. Call `work_out_facts` first, then `write_tables`.

    Arrays find the clean messages, and SQL judges all others. If more than `most_suspicious` of a part are not clean,
    SQL judges the whole part. If arrays cannot describe the run, or if the share is None, SQL judges all messages.
    `write_tables` writes new tables `messages` and `anomalies`. They replace the run's old tables when
    `replacement.take_place` is called.
    """

    def __init__(
        self,
        spark: SparkSession,
        run: Run,
        evidence: Evidence,
        replacement: table_io.Replacement,
        *,
        most_suspicious: float | None = MOST_SUSPICIOUS,
    ) -> None:
        self._spark, self._run, self._replacement = spark, run, replacement
        self._recorded = divide_records(spark, run, replacement)
        self._join_parts(sum(map(self._recorded.count_rows, range(self._parts))))
        self._evidence = evidence
        self._anomalies = list_applicable_anomalies(run)
        self._turns = find_turns(run, self._anomalies)
        self._places, self._findings, self._messages, self._found = (
            replacement.locate_beside(name) for name in ("places", "findings", "messages", "anomalies")
        )
        self._rows = replacement.locate_beside("rows")
        self._compared = [anomaly for anomaly in COMPARISONS if anomaly in self._anomalies]
        self._subscriptions = list_subscriptions(run.scenario, run.topology)
        # A subscription that moves need not get all messages, and an unreadable part of a log hides copies. Arrays do
        # not compare outputs.
        is_special = any(each.moved_from is not None or each.writes_outputs for each in self._subscriptions)
        is_described = not is_special and not any(log.unreadable for log in evidence.logs.values())
        self._most_suspicious = most_suspicious if is_described else None
        self._clean_counts: list[str] = []
        self._witnesses: tuple[str, int] | None = None
        self._uncompared: tuple[str, int] | None = None

    def work_out_facts(self) -> list[PartSummary]:
        """Write the facts about every suspicious message and the anomalies that they show. Return summaries of all."""
        summaries = self._set_clean_aside() if self._most_suspicious is not None else []
        if summaries and not any(self._recorded.files.values()):
            return summaries
        facts = FactsOfPart(
            recorded=self._recorded,
            places=self._places,
            findings=self._findings,
            topology=self._run.topology,
            subscriptions=[
                (each.cluster, each.name, each.moved_from, each.writes_outputs) for each in self._subscriptions
            ],
            evidence=self._evidence.make_tables(),
            turns=self._turns,
            faults_undone=self._evidence.undone.given,
            clock_error_us=self._run.facts.clock_error_us,
            anomalies=[str(anomaly) for anomaly in self._anomalies if anomaly not in COMPARISONS],
            uncompared=self._uncompared,
            compare=partial(compare_part, self._parts, self._rows, self._compared),
        )
        answers = work_in_parts(self._spark, self._parts, with_database(facts))
        judged = [PartSummary(**json.loads(answer)) for answer in answers]
        # The arrays counted the rows of all messages.
        if summaries:
            judged = [
                dataclasses.replace(each, producers=[], attempts=[], deliveries=[], stored=[], recorded_twice=[])
                for each in judged
            ]
        return [*summaries, *judged]

    @property
    def _parts(self) -> int:
        return self._recorded.parts

    def _join_parts(self, rows: int) -> None:
        """Judge parts of few rows together, because each task and each comparison across parts costs time."""
        self._recorded = self._recorded.join(max(1, -(-rows // MOST_ROWS_TOGETHER)))

    def _set_clean_aside(self) -> list[PartSummary]:
        """Write the results of clean messages, and let SQL judge only the others. Return summaries of all messages.

        If arrays cannot describe the run, return no summary, and SQL judges all messages.
        """
        directory = self._replacement.locate_beside("arrays")
        subset = {table: self._replacement.locate_beside(f"subset_{table}") for table in DIVIDED_TABLES}
        most_suspicious = self._most_suspicious or 0
        arrays = ArraysOfPart(
            recorded=self._recorded,
            directory=directory,
            subset=subset,
            most_suspicious=most_suspicious,
            topology=self._run.topology,
            subscriptions=[(each.cluster, each.name) for each in self._subscriptions],
            turns=self._turns,
            clock_error_us=self._run.facts.clock_error_us,
        )
        answers = [json.loads(answer) for answer in work_in_parts(self._spark, self._parts, arrays)]
        if any("problem" in answer for answer in answers):
            return []
        witnesses, uncompared = (self._replacement.locate_beside(name) for name in ("witnesses", "uncompared"))
        results = CleanResultsOfPart(
            recorded=self._recorded,
            arrays=directory,
            messages=self._messages,
            subset=subset,
            witnesses=witnesses,
            uncompared=uncompared,
            run_id=self._run.run_id,
            doubts=compare_parts(load_description(f"{directory}/described-{part}") for part in range(self._parts)),
            clock_error_us=self._run.facts.clock_error_us,
            most_suspicious=most_suspicious,
        )
        clean = [json.loads(answer) for answer in work_in_parts(self._spark, self._parts, results)]
        self._witnesses, self._uncompared = (witnesses, self._parts), (uncompared, self._parts)
        self._clean_counts = [json.dumps({"messages": each["counts"], "anomalies": []}) for each in clean]
        both = [*answers, *clean]
        files = {table: [name for each in both for name in each["files"].get(table, [])] for table in DIVIDED_TABLES}
        for table, names in files.items():
            commit_files(subset[table], names)
        division = self._recorded.division
        self._recorded = RecordedParts(division=division, parts=division.parts, directories=subset, files=files)
        self._join_parts(sum(each["rows"] for each in both))
        return [PartSummary(**answer["summary"]) for answer in answers]

    def write_tables(self) -> Counts:
        """Compare messages with each other, write `messages` and `anomalies`, and return the counts of both tables."""
        if self._clean_counts and not any(self._recorded.files.values()):
            write_part(self._found, 0, SCHEMAS["anomalies"], iter(()))
            write_part(self._messages, 0, SCHEMAS["messages"], iter(()))
            return add_up_counts(self._clean_counts)
        compared = self._replacement.locate_beside("compared")
        if self._parts > 1:
            comparisons = ComparisonsOfBucket(
                recorded=self._recorded,
                rows=self._rows,
                findings=compared,
                clock_error_us=self._run.facts.clock_error_us,
                anomalies=self._compared,
            )
            work_in_parts(self._spark, self._parts, with_database(comparisons))
        results = ResultTablesOfPart(
            run_id=self._run.run_id,
            places=self._places,
            findings=self._findings,
            compared=compared,
            recorded=self._recorded,
            messages=self._messages,
            anomalies=self._found,
            forbidden=list_forbidden(self._run.scenario, self._run.topology),
            loosened=list_loosened(self._run.scenario),
            witnesses=self._witnesses,
            destroyed=list_destroyed(self._run),
        )
        answers = work_in_parts(self._spark, self._parts, with_database(results))
        return add_up_counts([*self._clean_counts, *answers])
