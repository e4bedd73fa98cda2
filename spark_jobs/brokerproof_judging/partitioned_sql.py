"""Works on messages part by part, with SQL or without. A part is the rows of one Spark task.

DuckDB runs the queries in Spark's Python workers. Spark moves no rows: a task reads those of its part itself. A part
may be larger than a worker's memory.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from brokerproof.errors import RunError
from pyspark.sql import SparkSession

from brokerproof_judging.database import DuckDB, open_database

# A function of a part's number, which returns its answer.
WorkOnPart = Callable[[int], str]


def work_in_parts(spark: SparkSession, parts: int, work: WorkOnPart) -> list[str]:
    """Return the answer of `work` for each part, in order. Raises RunError unless each part has exactly one."""
    return sort_answers(parts, _run_tasks(spark, parts, partial(_answer, work)))


def with_database(work: Callable[[int, DuckDB], str]) -> WorkOnPart:
    """Return a function that gives `work` an empty database for each part.

    Work that needs no SQL goes to `work_in_parts` without it. A database takes 12 ms. When it is closed, DuckDB gives
    the memory back to the kernel that the worker keeps for its next arrays.
    """
    return partial(_work_with_database, work)


def sort_answers(parts: int, answers: Sequence[tuple[int, str]]) -> list[str]:
    """Return the answers of pairs (part, answer), by part. Raises RunError unless each part has exactly one."""
    numbers = [part for part, _ in answers]
    if sorted(numbers) != list(range(parts)):
        raise RunError(f"of {parts} parts of the messages, these were looked at: {numbers}")
    return [answer for _, answer in sorted(answers)]


def start_workers(spark: SparkSession, *modules: str) -> None:
    """Start one Python worker of Spark for each parallel task, and let it import `modules`."""
    context = spark.sparkContext
    slots = max(1, context.defaultParallelism // int(context.getConf().get("spark.task.cpus") or 1))
    _run_tasks(spark, slots, partial(_import_modules, modules))


def _run_tasks(spark: SparkSession, count: int, task: Callable[[Iterable[int]], Iterator[Any]]) -> list[Any]:
    # Without Spark's SQL, whose classes Java would load and compile.
    return spark.sparkContext.parallelize(range(count), count).mapPartitions(task).collect()


def _import_modules(modules: Sequence[str], numbers: Iterable[int]) -> Iterator[Any]:
    del numbers
    for module in modules:
        import_module(module)
    # Spark's worker collects garbage after each task. This takes 60 ms unless the imported modules are frozen.
    gc.freeze()
    return iter(())


def _answer(work: WorkOnPart, numbers: Iterable[int]) -> Iterator[tuple[int, str]]:
    for part in numbers:
        yield part, work(part)


def _work_with_database(work: Callable[[int, DuckDB], str], part: int) -> str:
    with open_database() as connection:
        return work(part, connection)
