"""Looks at a frame part by part: Spark brings together what belongs together, DuckDB answers questions about it.

Spark reads, hashes and moves rows, on as many machines as it has; what is asked of the rows of a part is SQL that runs
in the Python worker. DuckDB goes over columns instead of rows and needs no warming up, and what does not fit into its
memory it keeps on disk, so a part may be larger than that.
"""

from __future__ import annotations

import gc
import posixpath
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

# Of one task, beside what Arrow holds of the rows under way.
_MEMORY = "1GB"
_ROWS_A_BATCH = 50_000

Connection = duckdb.DuckDBPyConnection
Batches = Iterator[pa.RecordBatch]
# Gets the number of the part and a database with the part's rows in the table `rows`.
Work = Callable[[int, Connection], Batches]


@dataclass(frozen=True)
class Parts:
    """How many parts the messages are judged in; a message is in the same part wherever it is looked at."""

    count: int

    def by_message(self, frame: DataFrame) -> DataFrame:
        """The frame in these parts, by the columns `who` and `number`."""
        return frame.repartitionById(self.count, self.of_message())

    def of_message(self) -> Column:
        """The number of a message's part."""
        return F.pmod(F.hash("who", "number"), F.lit(self.count))

    def together(self, frame: DataFrame, columns: Sequence[str]) -> DataFrame:
        """The frame in as many parts, rows that agree in `columns` in one of them."""
        return frame.repartition(self.count, *columns)


def look(frame: DataFrame, work: Work, schema: str) -> DataFrame:
    """What `work` yields for each part of `frame`, those without rows included.

    `schema` is that of its batches, as `name type, …`.
    """
    return frame.mapInArrow(partial(_each, work, to_arrow_schema(frame.schema)), schema)


def warm_up(spark: SparkSession, *modules: str) -> None:
    """Have Spark start as many Python workers as tasks run at a time, and these import `modules`.

    It takes a worker some three seconds, in which the first look is still being planned.
    """
    context = spark.sparkContext
    slots = max(1, context.defaultParallelism // int(context.getConf().get("spark.task.cpus") or 1))
    look(spark.range(0, slots, 1, slots), partial(_import, modules), "part int").collect()


def _import(modules: Sequence[str], part: int, connection: Connection) -> Batches:
    del part, connection
    for module in modules:
        import_module(module)
    # Spark has a worker collect garbage after each task, which takes 60 ms as long as it goes through every module.
    gc.freeze()
    yield from ()


def _each(work: Work, schema: pa.Schema, batches: Batches) -> Batches:
    context = TaskContext.get()
    assert context is not None, "runs in a Spark task"
    with database() as connection:
        load(connection, "rows", batches, schema)
        yield from work(context.partitionId(), connection)


@contextmanager
def database() -> Iterator[Connection]:
    """A database of its own, in memory and, where that is not enough, in this machine's directory for such files."""
    with tempfile.TemporaryDirectory(prefix="brokerproof-judging-") as spill:
        # One thread: Spark already runs as many tasks as there are cores.
        config = {"threads": "1", "memory_limit": _MEMORY, "preserve_insertion_order": "false", "temp_directory": spill}
        connection = duckdb.connect(config=dict(config))
        try:
            yield connection
        finally:
            connection.close()


def load(connection: Connection, name: str, batches: Batches, schema: pa.Schema) -> None:
    """Make a table of `batches`; `schema` is for where there are none."""
    first = next(batches, None)

    def every() -> Batches:
        # An iterator that has ended is not asked again: that of an empty Parquet file does not bear it.
        if first is not None:
            yield first
            yield from batches

    reader = pa.RecordBatchReader.from_batches(schema if first is None else first.schema, every())
    connection.register("arriving", reader)
    connection.execute(f"CREATE TABLE {name} AS FROM arriving")
    connection.unregister("arriving")


def give(connection: Connection, tables: Mapping[str, pa.Table]) -> None:
    """Make small tables known by their names."""
    for name, table in tables.items():
        connection.register(name, table)


def table(columns: str, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """A small table. `columns` as in `cluster string, partition int32`."""
    fields = [part.split() for part in columns.split(",")]
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in fields])
    names = [name for name, _ in fields]
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=schema)


def answer(connection: Connection, query: str) -> Batches:
    """The rows of a query, in batches."""
    yield from connection.execute(query).to_arrow_reader(_ROWS_A_BATCH)


def rows(connection: Connection, query: str) -> list[dict[str, Any]]:
    """The rows of a query that has few."""
    return [row for batch in answer(connection, query) for row in batch.to_pylist()]


def write(directory: str, part: int, schema: pa.Schema, batches: Batches) -> None:
    """Write a part of a Parquet table; it is there whole or not at all.

    A task that Spark runs again replaces what the first one wrote.
    """
    filesystem, root = fsspec.url_to_fs(directory)
    filesystem.makedirs(root, exist_ok=True)
    # Readers skip what begins with an underscore.
    under_way = posixpath.join(root, f"_{part:05d}.{uuid.uuid4().hex}")
    try:
        with filesystem.open(under_way, "wb") as file, pq.ParquetWriter(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch.cast(schema))
        filesystem.mv(under_way, _file(root, part))
    finally:
        if filesystem.exists(under_way):
            filesystem.rm(under_way)


def read(connection: Connection, name: str, directory: str, part: int) -> None:
    """Make a table of a part that `write` wrote."""
    filesystem, root = fsspec.url_to_fs(directory)
    with filesystem.open(_file(root, part), "rb") as file:
        parquet = pq.ParquetFile(file)
        load(connection, name, parquet.iter_batches(_ROWS_A_BATCH), parquet.schema_arrow)


def _file(root: str, part: int) -> str:
    return posixpath.join(root, f"part-{part:05d}.parquet")
