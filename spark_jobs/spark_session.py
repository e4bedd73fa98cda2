"""What every job asks of Spark: a session, tasks that run side by side, and tables in the schemas of a run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from brokerproof.errors import BrokerproofError
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS, Batches
from brokerproof.run.time_axis import follow_time_axis
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

Task = TypeVar("Task")


def start_session(name: str) -> SparkSession:
    """The session of a job. Everything else about it comes from spark-submit."""
    return SparkSession.builder.appName(f"brokerproof-{name}").config("spark.sql.session.timeZone", "UTC").getOrCreate()


def run_tasks(
    spark: SparkSession,
    run: Run,
    table: str,
    tasks: Sequence[Task],
    work: Callable[[Run, Task], Batches],
    *,
    at_once: bool = False,
) -> None:
    """Run `work` as one Spark task for each of `tasks`, and append the rows that it yields to a table of the run.

    `at_once`: no task starts before all of them have a place, and too few places are an error at once.
    """
    directory, schema = run.directory, from_arrow_schema(SCHEMAS[table])

    def run_numbered(batches: Batches) -> Batches:
        for numbers in batches:
            for number in numbers.column(0).to_pylist():
                # A worker of Spark is a process of its own, perhaps on another machine.
                follow_time_axis(here := Run(directory))
                yield from work(here, tasks[number])

    numbers: DataFrame = spark.range(0, len(tasks), 1, len(tasks))
    # One action a job, because a second one would repeat what the tasks do to the cluster.
    numbers.mapInArrow(run_numbered, schema, barrier=at_once).write.mode("append").parquet(run.table(table))


class SparkTasks:
    """A session of Spark that runs the tasks of one job. A test may give a job something else that runs them."""

    def __init__(self, name: str) -> None:
        self._session = start_session(name)

    def run(
        self,
        run: Run,
        table: str,
        tasks: Sequence[Task],
        work: Callable[[Run, Task], Batches],
        *,
        at_once: bool = False,
    ) -> None:
        """As `run_tasks`."""
        run_tasks(self._session, run, table, tasks, work, at_once=at_once)

    def stop(self) -> None:
        """End the session."""
        self._session.stop()


def open_run(arguments: Sequence[str] | None = None) -> Run:
    """The run whose directory is the job's first argument. Ends the job where that is no run."""
    directories = sys.argv[1:] if arguments is None else arguments
    if not directories:
        raise SystemExit(f"usage: {sys.argv[0]} RUN_DIR")
    try:
        run = Run(directories[0])
        follow_time_axis(run)
    except BrokerproofError as error:
        raise SystemExit(str(error)) from None
    return run
