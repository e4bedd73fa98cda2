"""Reads a run's tables as Spark frames, and replaces tables of a run with new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from brokerproof import clock
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS
from fsspec.implementations.local import LocalFileSystem
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

# Files of this size hold about 40,000 rows. One task reads them in less time than Spark takes to start a second task.
SMALL_TABLE_BYTES = 1_000_000


def make_table_schema(table: str) -> T.StructType:
    """Return the Spark schema of a table of `brokerproof.run.tables`."""
    schema: T.StructType = from_arrow_schema(SCHEMAS[table])
    return schema


def to_uri(path: str) -> str:
    """Return the URI of `path`. A Spark cluster may look up a path without a scheme in another file system."""
    return path if "://" in path else Path(path).resolve().as_uri()


def read_table(spark: SparkSession, run: Run, table: str) -> DataFrame:
    """Return a table of the run, or an empty frame if the run does not have it.

    A small table is one partition, so that Spark needs no shuffle.
    """
    if not run.exists("tables", table):
        return spark.createDataFrame([], make_table_schema(table))
    frame = spark.read.schema(make_table_schema(table)).parquet(to_uri(run.table(table)))
    filesystem, path = fsspec.url_to_fs(run.table(table))
    return frame.coalesce(1) if filesystem.du(path) <= SMALL_TABLE_BYTES else frame


def to_microseconds(column: str) -> Column:
    return F.unix_micros(column)


class Replacement:
    """New tables of a run, which replace the old ones only after all of them are written.

    Until then, they are next to the old ones, under names that readers skip. `take_place` renames them. So a reader
    finds the old table, no table, or the new table, but never a mixture of both. An object store renames one file after
    the other, so a reader may find a part of the new table there.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._filesystem, self._tables = fsspec.url_to_fs(run.path("tables"))
        self._stamp = clock.now_us()
        self._written: list[str] = []

    def locate_beside(self, table: str) -> str:
        """Return the path to which a new table of the run, or an intermediate table, is written."""
        if table not in self._written:
            self._written.append(table)
        return f"{self._run.path('tables')}/.{table}.{self._stamp}.new"

    def write(self, table: str, rows: list[dict[str, Any]]) -> None:
        """Write a new table that has few rows, without a Spark job."""
        filesystem, directory = fsspec.url_to_fs(self.locate_beside(table))
        filesystem.makedirs(directory, exist_ok=True)
        with filesystem.open(f"{directory}/part-0.parquet", "wb") as file:
            pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS[table]), file)

    def take_place(self) -> None:
        """Replace each table of the run with its new one. Intermediate tables stay for `discard`."""
        for table in [table for table in self._written if table in SCHEMAS]:
            new, old, name = (f"{self._tables}/{part}" for part in self._names(table))
            if self._filesystem.exists(name):
                self._move(name, old)
            self._move(new, name)
            if self._filesystem.exists(old):
                self._filesystem.rm(old, recursive=True)

    def _move(self, directory: str, target: str) -> None:
        if isinstance(self._filesystem, LocalFileSystem):
            self._filesystem.mv(directory, target, recursive=True)
            return
        # The client of S3 takes the directory for one of the objects to rename, and does not find it.
        for path in self._filesystem.find(directory):
            self._filesystem.mv(path, target + path.removeprefix(directory))

    def discard(self) -> None:
        """Remove every new or intermediate table that did not replace a table of the run."""
        for table in self._written:
            new, _, _ = (f"{self._tables}/{part}" for part in self._names(table))
            if self._filesystem.exists(new):
                self._filesystem.rm(new, recursive=True)
        self._written.clear()

    def _names(self, table: str) -> tuple[str, str, str]:
        return f".{table}.{self._stamp}.new", f".{table}.{self._stamp}.old", table
