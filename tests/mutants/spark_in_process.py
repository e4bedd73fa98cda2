"""A plugin of pytest that judges in this process and without Spark, with SQL for every message.

Spark takes ten seconds to start, which is too long for a mutant. Judging needs little of Spark: tasks, and rows that it
brings together. Arrays would judge most messages, so they are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import local_spark
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.division import Division
from brokerproof.run.tables import Batches
from brokerproof_judging import partitioned_sql, run_judging, table_io
from brokerproof_judging.database import DuckDB, make_small_table, open_database
from brokerproof_judging.messages import comparisons, message_judging

# The highest position of a log before each second, as comparisons.py has Spark find it.
_WITH_EARLIER = """
    CREATE TABLE rows AS FROM events UNION ALL BY NAME
    SELECT 'before' AS kind, cluster, topic, partition, second, unnest(earlier) FROM (
        SELECT cluster, topic, partition, second, max(
            CASE WHEN segment IS NOT NULL THEN {segment: segment, "offset": "offset", batch_index: batch_index} END
        ) OVER (
            PARTITION BY cluster, topic, partition ORDER BY second ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS earlier
        FROM highest
    ) WHERE earlier IS NOT NULL
"""


def pytest_configure(config: pytest.Config) -> None:
    del config
    context = SimpleNamespace(partitionId=lambda: _Session.task)
    replaced: Mapping[Any, Mapping[str, Any]] = {
        local_spark: {"start_local_spark": lambda _: _Session()},
        partitioned_sql: {"TaskContext": SimpleNamespace(get=lambda: context)},
        run_judging: {"start_judging_workers": lambda _: None},
        message_judging: {"find_by_comparison": _find_by_comparison},
    }
    for module, names in replaced.items():
        for name, value in names.items():
            setattr(module, name, value)
    message_judging.MessageJudging.__init__.__kwdefaults__["most_suspicious"] = None  # type: ignore[index]


class _Session:
    """The little of a Spark session that judging needs: numbers and settings."""

    # The number of the part that a task works on.
    task = 0
    conf = SimpleNamespace(get=lambda _: "1", set=lambda *_: None)

    def range(self, start: int, end: int, *_: int) -> _Frame:
        return _Frame(pa.table({"id": pa.array(range(start, end), pa.int64())}))

    def stop(self) -> None: ...


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


def _find_by_comparison(
    _: object, directory: str, clock_error_us: int, division: Division, anomalies: Sequence[Anomaly]
) -> _Frame:
    """Do what comparisons.py does with Spark: bring the rows of all parts together, and compare them."""
    columns = "who string, number int64, topic string, cluster string, subscription string, cause string, detail string"
    found = [make_small_table(f"{columns}, anomaly string, part int32", [])]
    for anomaly in anomalies:
        with open_database() as connection:
            _load_rows(connection, anomaly, f"{directory}/{anomaly}")
            work = partial(comparisons._find_in_part, str(anomaly), clock_error_us, division, 0)
            found += [pa.Table.from_batches([batch]).cast(found[0].schema) for batch in work(connection)]
    return _Frame(pa.concat_tables(found))


def _load_rows(connection: DuckDB, anomaly: Anomaly, directory: str) -> None:
    rows = f"FROM read_parquet('{directory}/*.parquet')"
    if anomaly is not Anomaly.POSITION_REGRESSED:
        connection.execute(f"CREATE TABLE rows AS {rows}")
        return
    with open_database() as other:
        other.execute(f"CREATE TABLE rows AS {rows}")
        highest = pa.Table.from_batches(comparisons._find_highest_by_second(0, other))
    connection.register("highest", highest)
    connection.execute(f"CREATE TABLE events AS {rows}")
    connection.execute(_WITH_EARLIER)
