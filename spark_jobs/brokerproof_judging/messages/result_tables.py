"""Makes the tables `messages` and `anomalies`, and the judgement's counts, from facts and findings about messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.judgement import TOTALS, Counts
from brokerproof.run.tables import SCHEMAS, Batches

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
from brokerproof_judging.messages.sql_files import define_macros, read_query

_FOUND_WITHOUT_FACTS = """
    SELECT anomaly, who, number, topic, cluster, subscription FROM findings WHERE without_facts LIMIT 1
"""

_FINDINGS_BY_ANOMALY = "SELECT legal, anomaly, count(*) AS count FROM findings GROUP BY legal, anomaly"


@dataclass(frozen=True, kw_only=True)
class ResultTablesOfPart:
    """Writes a part of the tables `messages` and `anomalies`, and yields the part's counts.

    The database's table `rows` holds the findings of comparisons. `places` and `findings` are the directories that
    `FactsOfPart` wrote; `messages` and `anomalies` are those to write to.
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
        """Yield one row: the part's number, and its counts as JSON.

        Raises RunError if a comparison found an anomaly at a place without facts.
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
    """Return the sum of all parts' counts, with a legal and an illegal number for each anomaly."""
    totals = dict.fromkeys((*TOTALS, "not_sent"), 0)
    legal, illegal = (dict.fromkeys(Anomaly, 0) for _ in range(2))
    for answer in map(json.loads, answers):
        for name, count in answer["messages"].items():
            totals[name] += count
        for row in answer["anomalies"]:
            (legal if row["legal"] else illegal)[Anomaly(row["anomaly"])] += row["count"]
    return Counts(**totals, legal=legal, illegal=illegal)
