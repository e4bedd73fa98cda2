"""Judges the messages of a run in this process and without Spark, with the SQL of a mutant.

This is the only module of the folder that knows how judging works inside. What Spark does between the queries of a run
with one part is done here by DuckDB: it brings the rows of comparisons together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.directory import Run
from brokerproof.run.division import Division
from brokerproof.run.tables import Batches
from brokerproof_judging import partitioned_sql, table_io
from brokerproof_judging.database import load_table, make_small_table, open_database
from brokerproof_judging.evidence import Evidence
from brokerproof_judging.messages import comparisons, message_columns, message_facts, message_judging
from brokerproof_judging.recorded_parts import RecordedParts

PACKAGE = Path(message_columns.__file__).parent
SQL = PACKAGE / "sql"
Answer = set[tuple[Any, ...]]

_ORIGINAL = {name: (SQL / f"{name}.sql").read_text(encoding="utf-8") for name in ("macros", "records")}
_NO_FRAME: dict[str, Any] = {"publishes": None, "stored": None, "deliveries": None}

_ACKS = "FROM publishes WHERE outcome = 'acked' AND segment IS NOT NULL"
_NAMED_POSITIONS = f"""
    SELECT cluster, topic, partition, segment, "offset", batch_index, who, number, '' AS subscription {_ACKS}
    UNION ALL
    SELECT cluster, topic, partition, segment, "offset", batch_index, who, number, '' FROM stored
    UNION ALL
    SELECT cluster, topic, place.partition, place.segment, place."offset", place.batch_index, who, number, subscription
    FROM (SELECT cluster, topic, who, number, subscription, unnest(positions_elsewhere) AS place FROM places)
"""
_EVENTS = f"""
    SELECT
        kind, cluster, topic, partition, (moment // 1000000)::BIGINT AS second, moment, who, number, segment, "offset",
        batch_index
    FROM (
        SELECT *, 'settled' AS kind, settled_at AS moment {_ACKS} AND settled_at >= sent_at
        UNION ALL
        SELECT *, 'sent' AS kind, sent_at - $error AS moment {_ACKS} AND settled_at >= sent_at
    )
"""
_WITH_EARLIER = """
    FROM events UNION ALL BY NAME
    SELECT 'before' AS kind, cluster, topic, partition, second, unnest(earlier) FROM (
        SELECT cluster, topic, partition, second, max(
            CASE WHEN segment IS NOT NULL THEN {segment: segment, "offset": "offset", batch_index: batch_index} END
        ) OVER (
            PARTITION BY cluster, topic, partition ORDER BY second ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS earlier
        FROM highest
    ) WHERE earlier IS NOT NULL
"""
_ORDER = """
    who, number, topic, cluster, subscription, key, stored_partition AS partition, stored_segment AS segment,
    stored_offset AS "offset", stored_batch_index AS batch_index
"""
_FIRST_COPIES = f"SELECT {_ORDER} FROM places WHERE subscription = '' AND stored_segment IS NOT NULL"
_FIRST_DELIVERIES = f"""
    SELECT {_ORDER}, consumer, incarnation, arrival, first_received_at AS moment
    FROM places WHERE subscription != '' AND stored_segment IS NOT NULL AND deliveries > 0
"""


def judge_messages(run: Run, changed: Mapping[str, str]) -> Answer:
    """Return what the differential test compares: each anomaly with `legal`, its place, and its producer and seq.

    `changed` has the text of changed queries by their path below `sql`, such as `anomalies/lost.sql`.
    """
    replacement = table_io.Replacement(run)
    with pytest.MonkeyPatch.context() as patch:
        _replace_spark(patch)
        patch.setattr(message_columns, "files", lambda _: _ChangedSql(changed))
        message_columns.read_query.cache_clear()
        try:
            spark: Any = _Session()
            judging = message_judging.MessageJudging(spark, run, _NO_FRAME, Evidence.from_run(run), replacement)
            judging.work_out_facts()
            recorded, places = judging._recorded, judging._places
            compare = partial(_find_by_comparison, recorded, places)
            patch.setattr(message_judging, "find_by_comparison", lambda spark, *rest: compare(*rest))
            judging.write_tables()
            names = ["anomaly", "legal", "cluster", "topic", "subscription", "producer", "seq"]
            rows = ds.dataset(replacement.locate_beside("anomalies")).to_table(names).to_pylist()
        finally:
            replacement.discard()
            message_columns.read_query.cache_clear()
    return {(*list(row.values())[:5], (row["producer"], row["seq"])) for row in rows}


class _ChangedSql:
    """The package's folder, in which some SQL files are changed."""

    def __init__(self, changed: Mapping[str, str]) -> None:
        self._changed = changed

    def joinpath(self, folder: str, name: str) -> Any:
        text = self._changed.get(name)
        return SimpleNamespace(read_text=lambda encoding: text) if text is not None else PACKAGE / folder / name


class _Session:
    """The little of a Spark session that judging in one part needs: numbers, settings, and a table's directory."""

    # The number of the part that a task works on.
    task = 0
    conf = SimpleNamespace(get=lambda _: "1", set=lambda *_: None)

    @property
    def read(self) -> Any:
        return SimpleNamespace(schema=lambda _: SimpleNamespace(parquet=lambda uri: uri))

    def range(self, start: int, end: int, *_: int) -> _Frame:
        return _Frame(pa.table({"id": pa.array(range(start, end), pa.int64())}))


class _Frame:
    """Rows, divided into the parts that tasks get."""

    def __init__(self, rows: pa.Table, parts: Sequence[pa.Table] | None = None) -> None:
        self._rows = rows
        self._parts = [rows] if parts is None else parts
        self.schema = table_io.to_spark_schema(rows.schema)

    def repartitionById(self, parts: int, column: str) -> _Frame:  # noqa: N802
        return _Frame(self._rows, [self._rows.filter(pc.field(column) == part) for part in range(parts)])

    def mapInArrow(self, work: Callable[[Batches], Batches], _: str) -> _Frame:  # noqa: N802
        batches: list[pa.RecordBatch] = []
        for part, rows in enumerate(self._parts):
            _Session.task = part
            batches += work(iter(rows.to_batches()))
        return _Frame(pa.Table.from_batches(batches) if batches else self._rows.slice(0, 0))

    def collect(self) -> list[_Row]:
        return [_Row(row) for row in self._rows.to_pylist()]


class _Row:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)
        self._values = list(values.values())

    def __getitem__(self, place: int) -> Any:
        return self._values[place]


def _replace_spark(patch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(partitionId=lambda: _Session.task)
    patch.setattr(partitioned_sql, "TaskContext", SimpleNamespace(get=lambda: context))


def _find_by_comparison(
    recorded: RecordedParts,
    places: str,
    compared: comparisons.ComparisonInput,
    division: Division,
    anomalies: Sequence[Anomaly],
) -> _Frame:
    """Do what comparisons.py does with Spark: bring rows together, and let each anomaly's query compare them."""
    columns = "who string, number int64, topic string, cluster string, subscription string, cause string, detail string"
    found = [make_small_table(f"{columns}, anomaly string, part int32", [])]
    for anomaly, rows in _select_rows(recorded, places, compared.clock_error_us).items():
        if anomaly in anomalies:
            with open_database() as connection:
                load_table(connection, "rows", iter(rows.to_batches()), rows.schema)
                work = comparisons._find_in_part(str(anomaly), compared.clock_error_us, division, 0, connection)
                found += [pa.Table.from_batches([batch]).cast(found[0].schema) for batch in work]
    return _Frame(pa.concat_tables(found))


def _select_rows(recorded: RecordedParts, places: str, clock_error_us: int) -> Mapping[Anomaly, pa.Table]:
    """Return the rows that each comparison reads. No mutant changes the SQL by which they are selected."""
    with open_database() as connection:
        connection.execute(_ORIGINAL["macros"])
        for table, names in message_facts._RECORDED.items():
            parts = [recorded.read(table, part, names).read_all() for part in range(recorded.division.parts)]
            connection.register(f"recorded_{table}", pa.concat_tables(parts))
        connection.execute(_ORIGINAL["records"])
        connection.execute(f"CREATE VIEW places AS FROM read_parquet('{places}/*.parquet')")
        connection.execute(f"CREATE TABLE events AS {_EVENTS.replace('$error', str(clock_error_us))}")
        events = connection.execute("FROM events").to_arrow_table()
        with open_database() as other:
            load_table(other, "rows", iter(events.to_batches()), events.schema)
            highest = pa.Table.from_batches(comparisons._find_highest_by_second(0, other))
        connection.register("highest", highest)
        queries = {
            Anomaly.POSITION_CONFLICT: _NAMED_POSITIONS,
            Anomaly.POSITION_REGRESSED: _WITH_EARLIER,
            Anomaly.STORED_OUT_OF_ORDER: _FIRST_COPIES,
            Anomaly.DELIVERED_OUT_OF_ORDER: _FIRST_DELIVERIES,
        }
        return {anomaly: connection.execute(query).to_arrow_table() for anomaly, query in queries.items()}
