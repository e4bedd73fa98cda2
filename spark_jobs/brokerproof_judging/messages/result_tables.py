"""The tables `messages` and `anomalies`, and the counts: places and what the searches found, put together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.tables import SCHEMAS

from brokerproof_judging import partitioned_sql
from brokerproof_judging.messages.message_columns import IN_LOG, PLACE, PRODUCER, SEQ, columns

# What is illegal at each place of `f`: as the place's own row says, or else as the row without a cluster does. What a
# destroyed cluster lost, or had not yet sent on, is legal; `rpo_messages` bounds what nobody holds any more.
LEGALITY = "LEFT JOIN forbidden r ON (r.cluster, r.subscription) = (f.cluster, f.subscription)"
_RULED = "coalesce(r.forbidden, (SELECT d.forbidden FROM forbidden d WHERE d.cluster IS NULL))"
_GONE = "SELECT name FROM destroyed"
FORBIDDEN = f"""
    CASE WHEN f.subscription = '{IN_LOG}' AND (f.cluster IN ({_GONE}) OR coalesce(f.home IN ({_GONE}), false))
    THEN list_filter({_RULED}, lambda each: each NOT IN ('{Anomaly.LOST}', '{Anomaly.NOT_REPLICATED}'))
    ELSE {_RULED} END
"""

# A message may have been found by a search more than once at a place; one anomaly is told once.
_JOINED = f"""
    CREATE TABLE joined AS
    WITH said AS (
        SELECT {columns(*PLACE)}, anomaly, min({{cause: cause, detail: detail}}) AS said
        FROM rows WHERE who IS NOT NULL GROUP BY {columns(*PLACE)}, anomaly
    ),
    searched AS (
        SELECT {columns(*PLACE)},
            list({{anomaly: anomaly, cause: said.cause, detail: said.detail}} ORDER BY anomaly) AS searched
        FROM said GROUP BY {columns(*PLACE)}
    ),
    found AS (
        SELECT p.* EXCLUDE (found), s.searched IS NOT NULL AS sought,
            list_concat(p.found, coalesce(s.searched, [])) AS found
        FROM places p LEFT JOIN searched s USING ({columns(*PLACE)})
    )
    SELECT f.* EXCLUDE (subscription), nullif(f.subscription, '{IN_LOG}') AS subscription, sought,
        {PRODUCER} AS producer, {SEQ} AS seq,
        {FORBIDDEN} AS forbidden
    FROM found f {LEGALITY}
"""

_MESSAGES = """
    SELECT * EXCLUDE (forbidden, found),
        [each.anomaly FOR each IN found] AS anomalies,
        [each.anomaly FOR each IN found IF list_contains(forbidden, each.anomaly)] AS illegal
    FROM joined
"""

_ANOMALIES = """
    SELECT * EXCLUDE (each), each.anomaly, each.cause, each.detail, NOT list_contains(forbidden, each.anomaly) AS legal
    FROM (SELECT *, unnest(found) AS each FROM joined WHERE len(found) > 0)
"""

# DuckDB's `count_if` is null over nothing, and a part may be empty.
_COUNTS = """
    SELECT
        count(*) FILTER (at_home) AS messages,
        count(*) FILTER (at_home AND outcome = 'acked') AS acked,
        count(*) FILTER (at_home AND outcome = 'failed') AS failed,
        count(*) FILTER (at_home AND outcome = 'unknown') AS unknown,
        count(*) FILTER (at_home AND recovered) AS recovered,
        coalesce(sum(copies) FILTER (subscription IS NULL), 0)::BIGINT AS stored,
        coalesce(sum(deliveries), 0)::BIGINT AS deliveries
    FROM (SELECT *, subscription IS NULL AND cluster = home AS at_home FROM joined)
"""


@dataclass(frozen=True, kw_only=True)
class Results:
    """Writes a part of the two tables from the part's places and the searches' findings, and yields its counts."""

    run_id: str
    places: str
    messages: str
    anomalies: str
    forbidden: pa.Table
    destroyed: Sequence[str]

    SCHEMA = "part int, counts string"

    def __call__(self, part: int, connection: partitioned_sql.Connection) -> partitioned_sql.Batches:
        """One row: the part's number and its counts, as JSON.

        Raises RunError where a search found something at a place that there is not.
        """
        partitioned_sql.read(connection, "places", self.places, part)
        destroyed = partitioned_sql.table("name string", [(name,) for name in self.destroyed])
        partitioned_sql.give(connection, {"forbidden": self.forbidden, "destroyed": destroyed})
        connection.execute(_JOINED)
        self._nothing_left_over(connection)
        for table, directory, query in (
            ("messages", self.messages, _MESSAGES),
            ("anomalies", self.anomalies, _ANOMALIES),
        ):
            partitioned_sql.write(
                directory, part, SCHEMAS[table], partitioned_sql.answer(connection, self._select(table, query))
            )
        (counts,) = partitioned_sql.rows(connection, _COUNTS)
        found = "SELECT legal, anomaly, count(*) AS count FROM (" + _ANOMALIES + ") GROUP BY ALL"
        told = json.dumps({"all": counts, "anomalies": partitioned_sql.rows(connection, found)})
        yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32()), "counts": [told]})

    def _select(self, table: str, query: str) -> str:
        quoted = self.run_id.replace("'", "''")
        constant = {"run_id": f"'{quoted}' AS run_id"}
        return f"SELECT {', '.join(constant.get(name, name) for name in SCHEMAS[table].names)} FROM ({query})"

    @staticmethod
    def _nothing_left_over(connection: partitioned_sql.Connection) -> None:
        left = partitioned_sql.rows(
            connection,
            f"SELECT {columns(*PLACE)}, anomaly FROM rows WHERE who IS NOT NULL AND ({columns(*PLACE)}) NOT IN "
            f"(SELECT ({columns(*PLACE)}) FROM places) LIMIT 1",
        )
        if left:
            raise RunError(f"a search found an anomaly where no fact is: {left[0]}")


def counted(publishes: int, parts_told: Iterable[str]) -> dict[str, Any]:
    """How many there are of everything; one number per anomaly, legal and illegal apart."""
    counts: dict[str, Any] = {"publishes": publishes}
    found: dict[str, dict[str, int]] = {kind: {str(each): 0 for each in Anomaly} for kind in ("legal", "illegal")}
    for told in map(json.loads, parts_told):
        for name, count in told["all"].items():
            counts[name] = counts.get(name, 0) + count
        for row in told["anomalies"]:
            found["legal" if row["legal"] else "illegal"][row["anomaly"]] += row["count"]
    return counts | found
