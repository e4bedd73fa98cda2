"""The parts of Spark that the jobs share: a session, tasks that run side by side, and rows for a run's tables."""

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
    """Return a job's Spark session, with times in UTC. Other settings come from spark-submit."""
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

    If `at_once`, no task starts before Spark has a slot for every task. If there are too few slots, Spark raises an
    error at once.
    """
    directory, schema = run.directory, from_arrow_schema(SCHEMAS[table])

    def run_numbered(batches: Batches) -> Batches:
        for numbers in batches:
            for number in numbers.column(0).to_pylist():
                # A Spark worker is a process of its own, perhaps on another machine.
                follow_time_axis(here := Run(directory))
                yield from work(here, tasks[number])

    numbers: DataFrame = spark.range(0, len(tasks), 1, len(tasks))
    # A job has one action, because a second one would run the tasks against the cluster again.
    numbers.mapInArrow(run_numbered, schema, barrier=at_once).write.mode("append").parquet(run.table(table))


class SparkTasks:
    """A Spark session that runs the tasks of one job. A test may pass another runner to a job."""

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
        run_tasks(self._session, run, table, tasks, work, at_once=at_once)

    def stop(self) -> None:
        self._session.stop()


def open_job_run(arguments: Sequence[str] | None = None) -> Run:
    """Return the run whose directory is the job's first argument, or raise SystemExit with the reason."""
    directories = sys.argv[1:] if arguments is None else arguments
    if not directories:
        raise SystemExit(f"usage: {sys.argv[0]} RUN_DIR")
    try:
        run = Run(directories[0])
        follow_time_axis(run)
    except BrokerproofError as error:
        raise SystemExit(str(error)) from None
    return run
