"""What the Spark jobs share: Spark itself, tasks that run side by side and write a run's table, and the end of a job.

Once the load is steady, a job learns of its tasks' problems, and still keeps all rows that the tasks recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from brokerproof.clients.record import End, read_end
from brokerproof.errors import BrokerproofError, RunError
from brokerproof.experiment.fault import TASK_RETRY
from brokerproof.run.directory import Run
from brokerproof.run.division import DividedWriter, Division, commit_files, remove_unfinished
from brokerproof.run.records import EarlyEnd, PhaseTimes, read_record, write_record
from brokerproof.run.tables import Batches
from brokerproof.run.time_axis import follow_time_axis
from pyspark import SparkContext

Task = TypeVar("Task")


def run_tasks(
    context: SparkContext,
    run: Run,
    table: str,
    tasks: Sequence[Task],
    work: Callable[[Run, Task], Batches],
    *,
    at_once: bool = False,
) -> None:
    """Run `work` as one Spark task for each of `tasks`, and append the rows that it yields to a table of the run.

    The table is divided by message. Rows of a task that fails, or that Spark repeats, are not in the table. If
    `at_once`, all tasks run at the same time. If there are too few slots for that, Spark raises an error at once.
    """
    directory, division = run.directory, Division.for_run(run)

    def run_numbered(numbers: Iterable[int]) -> Iterator[str]:
        for number in numbers:
            # A Spark worker is a process of its own, perhaps on another machine.
            follow_time_axis(here := Run(directory))
            with DividedWriter(here.table(table), table, division) as writer:
                for batch in work(here, tasks[number]):
                    writer.add(batch)
            yield from writer.names

    # Without Spark's SQL, whose classes Java would load and compile, a job takes 5.3 s of a core instead of 7.6 s.
    numbers = context.parallelize(range(len(tasks)), len(tasks))
    try:
        # A job has one action, because a second one would run the tasks against the cluster again. Spark returns the
        # files of one attempt of each task.
        names = (numbers.barrier() if at_once else numbers).mapPartitions(run_numbered)
        if at_once and any(fault.kind == TASK_RETRY for fault in run.scenario.faults):
            # Spark repeats a failed barrier stage only if a shuffle follows it (`handleTaskCompletion` of its
            # `DAGScheduler`). It then repeats all tasks of the stage.
            names = names.coalesce(1, shuffle=True)
        files = names.collect()
        commit_files(run.table(table), files)
    except BaseException:
        remove_unfinished(run.table(table))
        raise


class SparkTasks:
    """Spark, which runs the tasks of one job. A test may pass another runner to a job."""

    def __init__(self, name: str) -> None:
        self._context = SparkContext(appName=f"brokerproof-{name}")

    def run(
        self,
        run: Run,
        table: str,
        tasks: Sequence[Task],
        work: Callable[[Run, Task], Batches],
        *,
        at_once: bool = False,
    ) -> None:
        run_tasks(self._context, run, table, tasks, work, at_once=at_once)


def open_job_run(arguments: Sequence[str] | None = None) -> Run:
    """Return the run whose directory is the job's first argument, or raise SystemExit with the reason."""
    directories = sys.argv[1:] if arguments is None else arguments
    if not directories:
        raise SystemExit(f"usage: {sys.argv[0]} RUN_DIR")
    try:
        run = Run(directories[0])
        run.refuse_links()
        follow_time_axis(run)
    except BrokerproofError as error:
        raise SystemExit(str(error)) from None
    return run


def leave_end(run: Run, kind: type[End], number: int, epoch: int, make_end: Callable[[], End]) -> None:
    """Record a client's end: the record that the client left, or `make_end()` if it left none.

    If `raise_before_steady` raises RunError with the client's problem, nothing is recorded.
    """
    end = read_end(run, kind, number, epoch) or make_end()
    raise_before_steady(run, end.problem)
    write_record(run, end)


def raise_before_steady(run: Run, problem: str | None) -> None:
    """Raise RunError with a task's problem if the load is not steady yet, unless the fault timeline failed.

    If a task raises an error, Spark drops the rows of all tasks of the job. Before the load is steady, no row matters,
    so the job fails at once. If the timeline failed, it made the task end, so the problem is not the task's own.
    """
    if problem is not None and read_record(run, PhaseTimes) is None and read_record(run, EarlyEnd) is None:
        raise RunError(problem)


def end_job(run: Run, problem: str) -> None:
    """End a job whose tasks are done. Raises RunError with `problem`, unless it is empty or the fault timeline failed.

    A failed timeline makes the tasks end early. Then the problem is only printed, because the timeline's own task in
    the DAG has the reason.
    """
    early = read_record(run, EarlyEnd)
    if problem and early is not None:
        print(f"ended early, because {early.why}: {problem}")
    elif problem:
        raise RunError(problem)


def join_problems(ends: Iterable[tuple[str, End | None]]) -> str:
    """Return the problems of a job's clients in one line, each problem once; empty if there are none.

    `ends` has the name of each client and the record of its end. A client that left no record counts as a problem.
    """
    problems = (f"{name} left no record of its end" if end is None else end.problem for name, end in ends)
    return "; ".join(dict.fromkeys(problem for problem in problems if problem))
