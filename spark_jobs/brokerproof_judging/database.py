"""A DuckDB database in which a Spark task queries its part of the messages and writes its part of a Parquet table.

A part is the share of the messages that one task works on. Data that exceeds DuckDB's memory goes to disk.
"""

from __future__ import annotations

import fcntl
import posixpath
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from brokerproof.run.tables import Batches, choose_encodings

# The limit of DuckDB's memory in one task. Arrow's rows are not included.
_MEMORY = "1GB"
_ROWS_A_BATCH = 50_000

DuckDB = duckdb.DuckDBPyConnection


_SPILL = "brokerproof-judging-"
_LOCK = "in-use"


@contextmanager
def _make_spill_directory() -> Iterator[str]:
    """Make a temporary directory, and remove those that killed tasks left.

    A task locks a file in its directory. The lock ends with the task, even if the task is killed.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_SPILL}*"):
        with suppress(OSError), (left / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_SPILL) as spill, Path(spill, ".new").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Other tasks find the file only when it is locked.
        Path(spill, ".new").rename(f"{spill}/{_LOCK}")
        yield spill


@contextmanager
def open_database(memory: str = _MEMORY) -> Iterator[DuckDB]:
    """Open an empty database. Data that exceeds `memory`, such as `1GB`, goes to a temporary directory."""
    with _make_spill_directory() as spill:
        # One thread: Spark already runs one task for each core.
        config = {"threads": "1", "memory_limit": memory, "preserve_insertion_order": "false", "temp_directory": spill}
        connection = duckdb.connect(config=dict(config))
        try:
            yield connection
        finally:
            connection.close()


def load_table(connection: DuckDB, name: str, batches: Batches, schema: pa.Schema) -> None:
    """Create the table `name` from Arrow batches. Without a batch, it is empty and has the columns of `schema`."""
    first = next(batches, None)

    def all_batches() -> Batches:
        # The iterator of an empty Parquet file fails if it is asked again after its end.
        if first is not None:
            yield first
            yield from batches

    reader = pa.RecordBatchReader.from_batches(schema if first is None else first.schema, all_batches())
    connection.register("arriving", reader)
    connection.execute(f"CREATE TABLE {name} AS FROM arriving")
    connection.unregister("arriving")


def register_tables(connection: DuckDB, tables: Mapping[str, pa.Table]) -> None:
    for name, table in tables.items():
        connection.register(name, table)


def make_small_table(columns: str, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return an Arrow table of `rows`. `columns` has names and types in the form `cluster string, partition int32`."""
    fields = [part.split() for part in columns.split(",")]
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in fields])
    names = [name for name, _ in fields]
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=schema)


def define_values(connection: DuckDB, values: Mapping[str, Any]) -> None:
    """Make each value available to queries as a function named after it, without arguments, such as `clock_error_us()`.

    A query that uses an undefined value fails. An undefined variable of DuckDB would be null instead.
    """
    for name, value in values.items():
        connection.execute(f"SET VARIABLE {name} = ?", [value])
        connection.execute(f"CREATE MACRO {name}() AS getvariable('{name}')")


def select_batches(connection: DuckDB, query: str) -> Batches:
    """Yield the rows of a query in batches of at most `_ROWS_A_BATCH` rows."""
    yield from connection.execute(query).to_arrow_reader(_ROWS_A_BATCH)


def select_rows(connection: DuckDB, query: str) -> list[dict[str, Any]]:
    """Return all rows of a query as dictionaries. The query must have few rows."""
    return [row for batch in select_batches(connection, query) for row in batch.to_pylist()]


def write_part(directory: str, part: int, schema: pa.Schema, batches: Batches) -> None:
    """Write the file of one part of a Parquet table, with the columns in the order of `schema`.

    Readers see the whole file or no file. If Spark repeats a task, the new file replaces the earlier one.
    """
    with _open_part(directory, part, schema) as writer:
        for batch in batches:
            writer.write_batch(batch.select(schema.names).cast(schema))


def write_buckets(directory: str, part: int, schema: pa.Schema, batches: Batches, buckets: int) -> None:
    """Write the file of one part like `write_part`, with one row group for each of `buckets` buckets.

    The rows also have a column `bucket`, and ascend by it. `read_bucket` reads a bucket's rows of all parts.
    """
    with _open_part(directory, part, schema) as writer:
        bucket = 0
        waiting: list[pa.RecordBatch] = []

        def finish_bucket() -> None:
            table = pa.Table.from_batches(waiting, schema)
            writer.write_table(table, row_group_size=max(1, len(table)))
            waiting.clear()

        for batch in batches:
            numbers, first = batch.column("bucket").to_numpy(), 0
            rows = batch.select(schema.names).cast(schema)
            while len(numbers) and bucket < numbers[-1]:
                end = int(np.searchsorted(numbers, bucket, "right"))
                waiting.append(rows.slice(first, end - first))
                finish_bucket()
                bucket, first = bucket + 1, end
            waiting.append(rows.slice(first))
        for _ in range(bucket, buckets):
            finish_bucket()


@contextmanager
def _open_part(directory: str, part: int, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    filesystem, root = fsspec.url_to_fs(directory)
    filesystem.makedirs(root, exist_ok=True)
    # Readers skip files whose names begin with an underscore.
    unfinished = posixpath.join(root, f"_{part:05d}.{uuid.uuid4().hex}")
    try:
        options = choose_encodings(schema)
        with filesystem.open(unfinished, "wb") as file, pq.ParquetWriter(file, schema, **options) as writer:
            yield writer
        filesystem.mv(unfinished, _part_file(root, part))
    finally:
        if filesystem.exists(unfinished):
            filesystem.rm(unfinished)


def read_part(connection: DuckDB, name: str, directory: str, part: int) -> None:
    """Create the table `name` from the file that `write_part` wrote for a part."""
    filesystem, root = fsspec.url_to_fs(directory)
    with filesystem.open(_part_file(root, part), "rb") as file:
        parquet = pq.ParquetFile(file)
        load_table(connection, name, parquet.iter_batches(_ROWS_A_BATCH), parquet.schema_arrow)


def read_parts(connection: DuckDB, name: str, directory: str, parts: Sequence[int], schema: pa.Schema) -> None:
    """Create the table `name` from the files that `write_part` wrote for these parts."""
    filesystem, root = fsspec.url_to_fs(directory)

    def read() -> Batches:
        for part in parts:
            with filesystem.open(_part_file(root, part), "rb") as file:
                yield from pq.ParquetFile(file).iter_batches(_ROWS_A_BATCH)

    load_table(connection, name, read(), schema)


def read_bucket(connection: DuckDB, name: str, directory: str, schema: pa.Schema, parts: int, bucket: int) -> None:
    """Create the table `name` from the bucket's rows in the files that `write_buckets` wrote for all parts."""
    filesystem, root = fsspec.url_to_fs(directory)

    def read_parts() -> Batches:
        for part in range(parts):
            with filesystem.open(_part_file(root, part), "rb") as file:
                yield from pq.ParquetFile(file).iter_batches(_ROWS_A_BATCH, row_groups=[bucket])

    load_table(connection, name, read_parts(), schema)


def _part_file(root: str, part: int) -> str:
    return posixpath.join(root, f"part-{part:05d}.parquet")
