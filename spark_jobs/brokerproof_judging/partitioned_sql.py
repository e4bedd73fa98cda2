"""Judges messages part by part: Spark splits the rows into parts, and a database answers queries on each part.

Spark reads, hashes and moves rows, on as many machines as it has. The queries on the rows of a part are SQL and run in
the Python worker. A part may be larger than a worker's memory.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import pyarrow as pa
from brokerproof.errors import RunError
from brokerproof.run.tables import Batches
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from brokerproof_judging.database import DuckDB, load_table, open_database

# For this many rows, Arrow and DuckDB hold about 500 MB in each of the tasks that run at a time.
_ROWS_A_PART = 2_000_000

# Gets the number of the part and a database with the part's rows in the table `rows`.
WorkOnPart = Callable[[int, DuckDB], Batches]


@dataclass(frozen=True)
class Parts:
    """The number of parts that the messages are judged in. A message is in the same part in every frame."""

    count: int

    def split_by_message(self, frame: DataFrame) -> DataFrame:
        """The frame in these parts, by the columns `who` and `number`."""
        return frame.repartitionById(self.count, self.compute_part())

    def compute_part(self) -> Column:
        """The number of a message's part."""
        return F.pmod(F.hash("who", "number"), F.lit(self.count))

    def split_by(self, frame: DataFrame, columns: Sequence[str]) -> DataFrame:
        """The frame in as many parts; rows with the same `columns` are in one part."""
        return frame.repartition(self.count, *columns)


def choose_parts(spark: SparkSession, rows: int) -> Parts:
    """As many parts as rows need, and at least as many as there are tasks to shuffle for.

    Where there are few, plans are not adapted while they run: that costs more than it saves.
    """
    least = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    wanted = rows // _ROWS_A_PART
    spark.conf.set("spark.sql.adaptive.enabled", str(wanted > least).lower())
    return Parts(max(least, wanted))


def work_on_parts(frame: DataFrame, work: WorkOnPart, schema: str) -> DataFrame:
    """The rows that `work` yields for each part of `frame`, parts without rows included.

    `schema` is that of its batches, as `name type, …`.
    """
    return frame.mapInArrow(partial(_work_in_task, work, to_arrow_schema(frame.schema)), schema)


def collect_answers(parts: Parts, answers: DataFrame) -> list[str]:
    """The answer of every part, from rows of (part, answer). Raises RunError where a part gave none, or two."""
    rows = answers.collect()
    if sorted(row.part for row in rows) != list(range(parts.count)):
        raise RunError(f"of {parts.count} parts of the messages, these were looked at: {[row.part for row in rows]}")
    return [row[1] for row in rows]


def start_workers(spark: SparkSession, *modules: str) -> None:
    """Start as many Python workers of Spark as tasks run at a time, and let them import `modules`.

    It takes a worker some three seconds, in which the first query is still being planned.
    """
    context = spark.sparkContext
    slots = max(1, context.defaultParallelism // int(context.getConf().get("spark.task.cpus") or 1))
    work_on_parts(spark.range(0, slots, 1, slots), partial(_import_modules, modules), "part int").collect()


def _import_modules(modules: Sequence[str], part: int, connection: DuckDB) -> Batches:
    del part, connection
    for module in modules:
        import_module(module)
    # Spark has a worker collect garbage after each task, which takes 60 ms as long as it goes through every module.
    gc.freeze()
    yield from ()


def _work_in_task(work: WorkOnPart, schema: pa.Schema, batches: Batches) -> Batches:
    context = TaskContext.get()
    assert context is not None, "runs in a Spark task"
    with open_database() as connection:
        load_table(connection, "rows", batches, schema)
        yield from work(context.partitionId(), connection)
