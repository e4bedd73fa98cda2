"""The Spark session of a job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from brokerproof.errors import BrokerproofError
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

Task = TypeVar("Task")


class Closeable(Protocol):
    """A client of the messaging system, or a part of one."""

    def close(self) -> None:
        """Close it."""


def session(name: str) -> SparkSession:
    """The session; everything else comes from spark-submit."""
    return SparkSession.builder.appName(f"brokerproof-{name}").config("spark.sql.session.timeZone", "UTC").getOrCreate()


def schema(table: str) -> StructType:
    """A table's schema in Spark's terms."""
    return from_arrow_schema(SCHEMAS[table])


def append(frame: DataFrame, run: Run, table: str) -> None:
    """Write what a job made. One action a job: an action repeats side effects."""
    frame.write.mode("append").parquet(run.table(table))


def one_task_each(
    run: Run, tasks: list[Task], work: Callable[[Run, int, Task], Iterator[pa.RecordBatch]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What `mapInArrow` runs on a frame of task numbers: `work` on the task of each number."""
    directory = run.directory

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in batches:
            for number in numbers.column(0).to_pylist():
                yield from work(Run(directory), number, tasks[number])

    return each


def batch(table: str, rows: list[dict[str, Any]], constant: Mapping[str, Any]) -> pa.RecordBatch:
    """Rows of a table; `constant` has the columns that are the same in all of them."""
    columns = [
        pa.array(
            [constant[field.name]] * len(rows) if field.name in constant else [row[field.name] for row in rows],
            field.type,
        )
        for field in SCHEMAS[table]
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[table])


def close(**what: Closeable) -> None:
    """Close clients that have done their work. One that cannot close, as with a broker that hangs, is said."""
    for name, each in what.items():
        try:
            each.close()
        except Exception as error:
            print(f"the {name} did not close: {error!r}", file=sys.stderr)


def kept(run: Run, who: str, error: BaseException | None) -> str | None:
    """What a task says of an error instead of raising it, because Spark would throw away what all tasks had recorded.

    Before the load was steady there is nothing to keep, and the sooner the job fails the better: then it is raised.
    """
    if error is not None and run.state("timeline") is None:
        raise error
    return None if error is None else f"{who}: {type(error).__name__}: {error}"


def told(problems: Iterable[str | None]) -> str:
    """What went wrong in a job's tasks, in one line; empty where nothing did."""
    return "; ".join(dict.fromkeys(problem for problem in problems if problem))


def run_argument() -> Run:
    """The run whose directory is the job's first argument."""
    if len(sys.argv) < 2:
        raise SystemExit(f"usage: {sys.argv[0]} RUN_DIR")
    try:
        run = Run(sys.argv[1])
        _ = run.facts
    except BrokerproofError as error:
        raise SystemExit(str(error)) from None
    return run
