"""Runs SQL on messages part by part. A part is the rows of one Spark task.

Spark splits the rows into parts, and DuckDB runs the queries in Spark's Python workers. A part may be larger than a
worker's memory.
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

# For a part of this many rows, Arrow and DuckDB hold about 500 MB in each running task.
_ROWS_A_PART = 2_000_000

# A function of a part's number and of a database that has the part's rows in the table `rows`.
WorkOnPart = Callable[[int, DuckDB], Batches]


@dataclass(frozen=True)
class Parts:
    """The number of parts into which messages are split. A part is the set of rows that one Spark task works on.

    `split_by_message` gives all rows of a message the same part number, in every frame.
    """

    count: int

    def split_by_message(self, frame: DataFrame) -> DataFrame:
        """Return the frame split into parts by the columns `who` and `number`."""
        return frame.repartitionById(self.count, self.compute_part())

    def compute_part(self) -> Column:
        """Return the number of a message's part, from 0, as a column."""
        return F.pmod(F.hash("who", "number"), F.lit(self.count))

    def split_by(self, frame: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Return the frame split into `count` parts; rows that agree in `columns` are in one part."""
        return frame.repartition(self.count, *columns)


def choose_parts(spark: SparkSession, rows: int) -> Parts:
    """Return one part for every `_ROWS_A_PART` rows, and at least `spark.sql.shuffle.partitions` parts.

    If that minimum is enough, the function turns off Spark's adaptive plans, which would cost more time than they save.
    """
    least = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    wanted = rows // _ROWS_A_PART
    spark.conf.set("spark.sql.adaptive.enabled", str(wanted > least).lower())
    return Parts(max(least, wanted))


def work_on_parts(frame: DataFrame, work: WorkOnPart, schema: str) -> DataFrame:
    """Return the rows that `work` yields for each part (Spark partition) of `frame`, even for a part without rows.

    `schema` describes the yielded rows, as `name type, …`.
    """
    return frame.mapInArrow(partial(_work_in_task, work, to_arrow_schema(frame.schema)), schema)


def collect_answers(parts: Parts, answers: DataFrame) -> list[str]:
    """Return each part's answer, from rows of (part, answer). Raises RunError unless each part has exactly one row."""
    rows = answers.collect()
    if sorted(row.part for row in rows) != list(range(parts.count)):
        raise RunError(f"of {parts.count} parts of the messages, these were looked at: {[row.part for row in rows]}")
    return [row[1] for row in rows]


def start_workers(spark: SparkSession, *modules: str) -> None:
    """Start one Python worker of Spark for each parallel task, and let it import `modules`.

    A worker takes about three seconds to start. Spark plans the first query in that time.
    """
    context = spark.sparkContext
    slots = max(1, context.defaultParallelism // int(context.getConf().get("spark.task.cpus") or 1))
    work_on_parts(spark.range(0, slots, 1, slots), partial(_import_modules, modules), "part int").collect()


def _import_modules(modules: Sequence[str], part: int, connection: DuckDB) -> Batches:
    del part, connection
    for module in modules:
        import_module(module)
    # Spark's worker collects garbage after each task. This takes 60 ms unless the imported modules are frozen.
    gc.freeze()
    yield from ()


def _work_in_task(work: WorkOnPart, schema: pa.Schema, batches: Batches) -> Batches:
    context = TaskContext.get()
    assert context is not None, "runs in a Spark task"
    with open_database() as connection:
        load_table(connection, "rows", batches, schema)
        yield from work(context.partitionId(), connection)
