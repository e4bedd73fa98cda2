"""A run's tables as Spark frames, and frames and rows as a run's tables.

Nothing here looks at content.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from brokerproof import clock
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema


def make_table_schema(table: str) -> T.StructType:
    """The Spark schema of a table in tables.py."""
    return to_spark_schema(SCHEMAS[table])


def to_spark_schema(columns: pa.Schema) -> T.StructType:
    """An Arrow schema as a Spark schema."""
    schema: T.StructType = from_arrow_schema(columns)
    return schema


def to_uri(path: str) -> str:
    """`path` as Spark needs it: a local path as a URI, because a Spark cluster's default file system may be another."""
    return path if "://" in path else Path(path).resolve().as_uri()


def read_table(spark: SparkSession, run: Run, table: str) -> DataFrame:
    """A table of the run; an empty frame where there is none."""
    if not run.exists("tables", table):
        return spark.createDataFrame([], make_table_schema(table))
    return spark.read.schema(make_table_schema(table)).parquet(to_uri(run.table(table)))


def to_microseconds(column: str) -> Column:
    """A time as microseconds since the epoch."""
    return F.unix_micros(column)


class Replacement:
    """New tables of a run that take the place of the old ones together, once all of them are whole.

    Everything is written beside the tables under a name that readers skip. The old table goes and the new one comes
    by renaming, so a reader finds the old one, none, or the new one, never a mixture.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._filesystem, self._tables = fsspec.url_to_fs(run.path("tables"))
        self._stamp = clock.now_us()
        self._written: list[str] = []

    def locate_beside(self, table: str) -> str:
        """The path to write a new table or an intermediate one to. It is no table of the run yet."""
        if table not in self._written:
            self._written.append(table)
        return f"{self._run.path('tables')}/.{table}.{self._stamp}.new"

    def write(self, table: str, rows: list[dict[str, Any]]) -> None:
        """Write a table of few rows aside, without a Spark job."""
        filesystem, directory = fsspec.url_to_fs(self.locate_beside(table))
        filesystem.makedirs(directory, exist_ok=True)
        with filesystem.open(f"{directory}/part-0.parquet", "wb") as file:
            pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS[table]), file)

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        """A table written aside, before it took its place."""
        return spark.read.schema(make_table_schema(table)).parquet(to_uri(self.locate_beside(table)))

    def take_place(self) -> None:
        """Put every table of the run that was written in the place of its predecessor."""
        for table in [table for table in self._written if table in SCHEMAS]:
            new, old, name = (f"{self._tables}/{part}" for part in self._names(table))
            if self._filesystem.exists(name):
                self._filesystem.mv(name, old, recursive=True)
            self._filesystem.mv(new, name, recursive=True)
            if self._filesystem.exists(old):
                self._filesystem.rm(old, recursive=True)

    def discard(self) -> None:
        """Remove what never took its place."""
        for table in self._written:
            new, _, _ = (f"{self._tables}/{part}" for part in self._names(table))
            if self._filesystem.exists(new):
                self._filesystem.rm(new, recursive=True)
        self._written.clear()

    def _names(self, table: str) -> tuple[str, str, str]:
        return f".{table}.{self._stamp}.new", f".{table}.{self._stamp}.old", table
