"""A run's tables as Spark frames, and frames as a run's tables.

Nothing here looks at content, except that every message gets an identity and every position one spelling.
"""

from __future__ import annotations

from pathlib import Path

import fsspec
from brokerproof import clock
from brokerproof.run import Run
from brokerproof.tables import SCHEMAS
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

# A message without a readable identity is told from others by its position. No producer's name has this character.
_ANONYMOUS = "\u0001"


def schema(table: str) -> T.StructType:
    """The Spark schema of a table in tables.py."""
    return from_arrow_schema(SCHEMAS[table])


def location(path: str) -> str:
    """`path` as Spark needs it: a local path as a URI, because a Spark cluster's default file system may be another."""
    return path if "://" in path else Path(path).resolve().as_uri()


def read(spark: SparkSession, run: Run, table: str) -> DataFrame:
    """A table of the run; an empty frame where there is none."""
    if not run.exists("tables", table):
        return spark.createDataFrame([], schema(table))
    return spark.read.schema(schema(table)).parquet(location(run.table(table)))


def conform(frame: DataFrame, table: str) -> DataFrame:
    """The columns of a table in its order and types."""
    return frame.select([F.col(field.name).cast(field.dataType).alias(field.name) for field in schema(table).fields])


def identified(frame: DataFrame) -> DataFrame:
    """With `who` and `number` for the message, never null, and its position in one spelling.

    `who` and `number` are producer and seq; a message without them gets one identity per position. The batch index is
    -1 outside a batch; a negative BookKeeper ledger (a deduplicated retry's answer) is no position.
    """
    there = F.col("ledger_id") >= 0
    positioned = frame.withColumns(
        {
            "entry_id": F.when(there, F.col("entry_id")),
            "batch_index": F.when(there, F.coalesce(F.col("batch_index"), F.lit(-1))),
            "ledger_id": F.when(there, F.col("ledger_id")),
        }
    )
    anonymous = F.col("producer").isNull() | F.col("seq").isNull()
    place = F.concat_ws(":", "partition", "ledger_id", "entry_id", "batch_index")
    mark = F.concat(F.lit(_ANONYMOUS), place, F.lit(_ANONYMOUS), F.coalesce(F.col("producer"), F.lit("")))
    return positioned.withColumns(
        {
            "who": F.when(anonymous, mark).otherwise(F.col("producer")),
            "number": F.when(anonymous, F.coalesce(F.col("seq"), F.lit(-1))).otherwise(F.col("seq")),
        }
    )


def producer() -> Column:
    """The producer of an identified message, null where it carries none."""
    name = F.substring_index("who", _ANONYMOUS, -1)
    return F.when(F.length(name) > 0, name)


def seq() -> Column:
    """The seq of an identified message, null where it carries none."""
    return F.when(~(F.col("who").startswith(_ANONYMOUS) & (F.col("number") < 0)), F.col("number"))


def microseconds(column: str) -> Column:
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

    def write(self, table: str, frame: DataFrame) -> None:
        """Write a table aside."""
        path = f"{self._run.path('tables')}/.{table}.{self._stamp}.new"
        conform(frame, table).write.mode("overwrite").parquet(location(path))
        self._written.append(table)

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        """A table written aside, before it took its place."""
        path = f"{self._run.path('tables')}/.{table}.{self._stamp}.new"
        return spark.read.schema(schema(table)).parquet(location(path))

    def take_place(self) -> None:
        """Put every table that was written in the place of its predecessor."""
        for table in self._written:
            new, old, name = (f"{self._tables}/{part}" for part in self._names(table))
            if self._filesystem.exists(name):
                self._filesystem.mv(name, old, recursive=True)
            self._filesystem.mv(new, name, recursive=True)
            if self._filesystem.exists(old):
                self._filesystem.rm(old, recursive=True)
        self._written.clear()

    def discard(self) -> None:
        """Remove what never took its place."""
        for table in SCHEMAS:
            new, _, _ = (f"{self._tables}/{part}" for part in self._names(table))
            if self._filesystem.exists(new):
                self._filesystem.rm(new, recursive=True)

    def _names(self, table: str) -> tuple[str, str, str]:
        return f".{table}.{self._stamp}.new", f".{table}.{self._stamp}.old", table
