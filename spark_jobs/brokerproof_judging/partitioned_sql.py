"""Runs SQL on messages part by part. A part is the rows of one Spark task.

DuckDB runs the queries in Spark's Python workers. A task reads the rows of its part itself (`work_in_parts`), or Spark
brings them to it (`work_on_parts`). A part may be larger than a worker's memory.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

import pyarrow as pa
from brokerproof.errors import RunError
from brokerproof.run.tables import Batches
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from brokerproof_judging.database import DuckDB, load_table, open_database

# A function of a part's number and of a database. If Spark brings the part's rows, they are in the table `rows`.
WorkOnPart = Callable[[int, DuckDB], Batches]


def set_adaptive_plans(spark: SparkSession, parts: int) -> None:
    """Turn Spark's adaptive plans off if there are few parts, because then they cost more time than they save."""
    least = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    spark.conf.set("spark.sql.adaptive.enabled", str(parts > least).lower())


def work_in_parts(spark: SparkSession, parts: int, work: WorkOnPart, schema: str) -> DataFrame:
    """Return the rows that `work` yields for each part. Spark moves no rows; `work` reads those of its part itself."""
    return spark.range(0, parts, 1, parts).mapInArrow(partial(_work_with_database, work), schema)


def work_on_parts(frame: DataFrame, work: WorkOnPart, schema: str) -> DataFrame:
    """Return the rows that `work` yields for each part (Spark partition) of `frame`, even for a part without rows.

    `schema` describes the yielded rows, as `name type, …`.
    """
    return frame.mapInArrow(partial(_work_in_task, work, to_arrow_schema(frame.schema)), schema)


def collect_answers(parts: int, answers: DataFrame) -> list[str]:
    """Return each part's answer, from rows of (part, answer). Raises RunError unless each part has exactly one row."""
    rows = answers.collect()
    if sorted(row.part for row in rows) != list(range(parts)):
        raise RunError(f"of {parts} parts of the messages, these were looked at: {[row.part for row in rows]}")
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


def _work_with_database(work: WorkOnPart, batches: Batches) -> Batches:
    for numbers in batches:
        for part in numbers.column(0).to_pylist():
            with open_database() as connection:
                yield from work(part, connection)


def _work_in_task(work: WorkOnPart, schema: pa.Schema, batches: Batches) -> Batches:
    context = TaskContext.get()
    assert context is not None, "runs in a Spark task"
    with open_database() as connection:
        load_table(connection, "rows", batches, schema)
        yield from work(context.partitionId(), connection)
