"""Runs SQL on messages part by part. A part is the rows of one Spark task.

DuckDB runs the queries in Spark's Python workers. Spark moves no rows: a task reads those of its part itself. A part
may be larger than a worker's memory.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

from brokerproof.errors import RunError
from brokerproof.run.tables import Batches
from pyspark.sql import DataFrame, SparkSession

from brokerproof_judging.database import DuckDB, open_database

# A function of a part's number and of an empty database.
WorkOnPart = Callable[[int, DuckDB], Batches]


def set_adaptive_plans(spark: SparkSession, parts: int) -> None:
    """Turn Spark's adaptive plans off if there are few parts, because then they cost more time than they save."""
    least = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    spark.conf.set("spark.sql.adaptive.enabled", str(parts > least).lower())


def work_in_parts(spark: SparkSession, parts: int, work: WorkOnPart, schema: str) -> DataFrame:
    """Return the rows that `work` yields for each part. `schema` describes them, as `name type, …`."""
    return spark.range(0, parts, 1, parts).mapInArrow(partial(_work_with_database, work), schema)


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
    work_in_parts(spark, slots, partial(_import_modules, modules), "part int").collect()


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
