"""A DuckDB database that reads a run's tables from their files, without Spark.

Spark takes up to a second to plan a query. DuckDB streams only the columns that a query reads, and what exceeds its
memory goes to disk. So the memory does not grow with the number of messages.
"""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import duckdb
import fsspec
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS
from fsspec.implementations.local import LocalFileSystem

from brokerproof_judging.database import DuckDB, select_rows

_MEMORY = "2GB"


@contextmanager
def open_run_database(run: Run, tables: Sequence[str], places: Mapping[str, str] | None = None) -> Iterator[DuckDB]:
    """Open a database with a view of each of the run's `tables`. A missing table has no rows, a missing column is null.

    `places` has the directories of tables that are not at their usual places.
    """
    filesystem, _ = fsspec.url_to_fs(run.directory)
    with tempfile.TemporaryDirectory(prefix="brokerproof-tables-") as spill:
        config = {"memory_limit": _MEMORY, "preserve_insertion_order": "false", "temp_directory": spill}
        with duckdb.connect(config=dict(config)) as connection:
            if not isinstance(filesystem, LocalFileSystem):
                connection.register_filesystem(filesystem)
            for table in tables:
                _make_view(connection, table, (places or {}).get(table, run.table(table)))
            yield connection


def _make_view(connection: DuckDB, table: str, directory: str) -> None:
    filesystem, root = fsspec.url_to_fs(directory)
    found = filesystem.find(root) if filesystem.exists(root) else []
    # Unfinished files and markers of Spark are left out.
    whole = [
        path for path in found if not any(part.startswith((".", "_")) for part in path[len(root) + 1 :].split("/"))
    ]
    is_local = isinstance(filesystem, LocalFileSystem)
    names = [glob.escape(path if is_local else filesystem.unstrip_protocol(path)) for path in whole]
    connection.register(f"empty_{table}", SCHEMAS[table].empty_table())
    columns = f"COLUMNS(name -> name IN {_quote(SCHEMAS[table].names)})"
    rows = f"UNION ALL BY NAME SELECT {columns} FROM read_parquet({_quote(names)}, union_by_name = true)"
    connection.execute(f"CREATE VIEW {table} AS FROM empty_{table} {rows if names else ''}")


@cache
def read_script(package: str, name: str) -> str:
    """Return the text of `sql/NAME.sql` of a package of `brokerproof_judging`."""
    return files(f"brokerproof_judging.{package}").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """The quantiles p50 and p99 and the maximum of some messages' values, in `values`; None without a value.

    `messages` is the number of messages, and `ended` that of messages for which a client recorded the end of the time.
    """

    messages: int = 0
    ended: int = 0
    values: tuple[int | None, int | None, int | None] = (None, None, None)


NO_VALUES = Quantiles()

# Exact without all values in memory: values are counted first, and equal ones are many.
_QUANTILES = """
    WITH counted AS (
        SELECT subject, value, sum(count) AS count, sum(count) FILTER (is_ended) AS ended FROM measured GROUP BY ALL
    ),
    ranked AS (
        SELECT
            *,
            sum(count) FILTER (value IS NOT NULL) OVER (PARTITION BY subject ORDER BY value NULLS LAST) AS rank,
            sum(count) FILTER (value IS NOT NULL) OVER (PARTITION BY subject) AS total
        FROM counted
    )
    SELECT
        subject,
        sum(count)::BIGINT AS messages,
        coalesce(sum(ended), 0)::BIGINT AS ended,
        [min(value) FILTER (rank >= 0.5 * total), min(value) FILTER (rank >= 0.99 * total), max(value)] AS values
    FROM ranked
    GROUP BY subject
"""


def read_quantiles(connection: DuckDB) -> Iterator[tuple[Any, Quantiles]]:
    """Yield each subject of the view `measured`, with its quantiles.

    The view has the columns `subject`, `value`, `is_ended` and `count`, the number of messages with this value.
    """
    for row in select_rows(connection, _QUANTILES):
        p50, p99, longest = row["values"]
        yield row["subject"], Quantiles(messages=row["messages"], ended=row["ended"], values=(p50, p99, longest))


def _quote(texts: Sequence[str]) -> str:
    """Return a list of texts in SQL."""
    return "[" + ", ".join("'" + text.replace("'", "''") + "'" for text in texts) + "]"
