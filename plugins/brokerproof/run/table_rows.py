"""Reads the rows of a run's tables, which are Parquet files, with DuckDB and without Spark.

The files of a table are read one after the other, so an error names the damaged file. Memory holds only one batch of
rows and the part of a file that DuckDB decodes.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from brokerproof import clock
from brokerproof.bounded_reading import LONGEST_CELL_BYTES, ContentError, check_columns, open_regular, read_footer
from brokerproof.errors import RunError, shorten
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# One thread is enough, because a look-up reads little, and the machine may also run a cluster. A row group of 340 MB is
# read with this memory, because DuckDB decodes a page of it at a time.
_CONFIG: Mapping[str, Any] = {"threads": "1", "memory_limit": "128MB"}
_BATCH_ROWS = 200
# The limit on collected rows. A message that is delivered again and again may have any number of rows.
_MOST_ROWS = 10_000


def iterate_rows(
    run: Run,
    table: str,
    columns: Sequence[str] | None = None,
    *,
    where: str = "true",
    values: Mapping[str, Any] | None = None,
    problems: list[str] | None = None,
    filled: Collection[str] = (),
) -> Iterator[dict[str, Any]]:
    """Yield the table's rows that satisfy the SQL condition `where`, as {column: value}. A missing table has no rows.

    Times are microseconds since the epoch (1970). A column that a file lacks is null. If `where` names such a column,
    or if a column of `filled` is null in a row, the file counts as unreadable. For `values` and `problems`, see
    `query_files`.
    """
    fields = [SCHEMAS[table].field(name) for name in columns or SCHEMAS[table].names]
    times = {field.name for field in fields if pa.types.is_timestamp(field.type)}
    names = [field.name for field in fields]
    selected = ", ".join(_select_column(field, is_filled=field.name in filled) for field in fields)
    nulls = ", ".join(f'NULL{"::TIMESTAMP" if name in times else ""} AS "{name}"' for name in names)
    query = f"SELECT {selected} FROM (SELECT {nulls} WHERE false UNION ALL BY NAME FROM recorded WHERE {where})"
    return query_files(run, table, query, values, problems=problems)


def collect_rows(
    run: Run,
    table: str,
    problems: list[str],
    *,
    where: str = "true",
    values: Mapping[str, Any] | None = None,
    most_rows: int = _MOST_ROWS,
) -> list[dict[str, Any]]:
    """Return at most `most_rows` rows of `iterate_rows`.

    If there are more rows, or if a file cannot be read, a sentence is added to `problems`.
    """
    rows = iterate_rows(run, table, where=where, values=values, problems=problems)
    found = list(islice(rows, most_rows))
    if next(rows, None) is not None:
        problems.append(f"Only {most_rows:,} rows of the table {table} are read, and there are more.")
    return found


def count_rows(run: Run, table: str) -> int:
    """Return the number of rows of a table. Only the footers of its files are read.

    Raises RunError if a file cannot be read.
    """
    return sum(row["count"] for row in query_files(run, table, "SELECT count(*) AS count FROM recorded"))


def _select_column(field: pa.Field, *, is_filled: bool) -> str:
    """Return SQL that selects a column, and fails for a value that no table of Brokerproof can have."""
    name = f'"{field.name}"'
    if pa.types.is_timestamp(field.type):
        value, is_refused = f"epoch_us({name})", f"epoch_us({name}) NOT BETWEEN {clock.FIRST_US} AND {clock.LAST_US}"
        problem = "a time before the year 1 or after 9999"
    elif pa.types.is_string(field.type) or pa.types.is_list(field.type):
        # A text that many rows share takes little room in the file, and room for each row in memory.
        value, is_refused = name, f"strlen({name}::VARCHAR) > {LONGEST_CELL_BYTES}"
        problem = f"a text of more than {LONGEST_CELL_BYTES:,} bytes"
    else:
        value, is_refused, problem = name, "false", ""
    checks = [(is_refused, f"has {problem}"), *([(f"{name} IS NULL", "is empty in a row")] if is_filled else [])]
    cases = " ".join(f"WHEN {case} THEN error('its column {field.name} {what}')" for case, what in checks)
    return f"CASE {cases} ELSE {value} END AS {name}"


def check_file(run: Run, table: str, name: str) -> None:
    """Raises ContentError if a table's file is damaged, exceeds a limit, or has columns of other types.

    Raises FileNotFoundError if it is missing. Only its footer is read.
    """
    with open_regular(f"{run.table(table)}/{name}") as file:
        check_columns(read_footer(file), SCHEMAS[table])


def check_files(run: Run, tables: Iterable[str]) -> None:
    """Call `check_file` for all files of some tables. Raises RunError, which names the first file that is refused."""
    for table in tables:
        for name in run.list_files(table):
            try:
                check_file(run, table, name)
            except (OSError, ContentError) as error:
                raise RunError(f"The file {name} of the table {table} cannot be read: {error}") from None


def query_files(
    run: Run, table: str, query: str, values: Mapping[str, Any] | None = None, *, problems: list[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Run an SQL query on each file of a table, and yield the rows of the results as {column: value}.

    The query calls the file `recorded`, and `$NAME` is the value of NAME in `values`. An unreadable file raises
    RunError. If a list `problems` is given, a sentence is added to it instead, and the other files are read.
    """
    # Imported here, because DuckDB imports pandas, which takes half a second. Parsing of DAG files does not need it.
    import duckdb

    filesystem, directory = fsspec.url_to_fs(run.table(table))
    is_local = isinstance(filesystem, LocalFileSystem)
    with _connect(is_local) as connection:
        if not is_local:
            connection.register_filesystem(filesystem)
        for name in run.list_files(table):
            path = f"{directory}/{name}"
            file = glob.escape(path if is_local else filesystem.unstrip_protocol(path))
            try:
                check_file(run, table, name)
                found = connection.execute(
                    f"WITH recorded AS (FROM read_parquet($file)) {query}", {"file": file, **(values or {})}
                )
                columns = [column[0] for column in found.description or ()]
                while batch := found.fetchmany(_BATCH_ROWS):
                    yield from (dict(zip(columns, row, strict=True)) for row in batch)
            except (duckdb.Error, OSError, ContentError) as error:
                # DuckDB's messages have several lines.
                reason = shorten(str(error).partition("\n")[0], 500).rstrip(".!")
                problem = f"The file {name} of the table {table} cannot be read: {reason}"
                if problems is None:
                    raise RunError(problem) from None
                problems.append(f"{problem}.")


def _connect(is_local: bool) -> DuckDBPyConnection:
    import duckdb

    # A file system can be registered only once in a database.
    return _open_database(os.getpid()).cursor() if is_local else duckdb.connect(config=dict(_CONFIG))


@cache
def _open_database(process: int) -> DuckDBPyConnection:
    """Return the database in memory that all look-ups of a process share, because it takes 16 ms to open one."""
    import duckdb

    return duckdb.connect(config=dict(_CONFIG))
