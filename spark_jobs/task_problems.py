"""Passes the problems of tasks on to their job without losing the rows that the tasks recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brokerproof.clients.record import End, read_end
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import EarlyEnd, PhaseTimes, read_record, write_record


def leave_end(run: Run, kind: type[End], number: int, epoch: int, make_end: Callable[[], End]) -> None:
    """Record the client's end. `make_end` makes the record if the client left none.

    Raises RunError like `raise_before_steady` with the end's problem, and then records nothing.
    """
    end = read_end(run, kind, number, epoch) or make_end()
    raise_before_steady(run, end.problem)
    write_record(run, end)


def raise_before_steady(run: Run, problem: str | None) -> None:
    """Raise RunError with a task's problem if the load is not steady yet, unless the timeline failed.

    If a task raises an error, Spark drops the rows of all tasks of the job, and the rows must come from the clients'
    records instead. Before the load is steady no row matters, so the job fails at once. If the timeline failed, it made
    the task end, so the problem is not the task's own.
    """
    if problem is not None and read_record(run, PhaseTimes) is None and read_record(run, EarlyEnd) is None:
        raise RunError(problem)


def end_job(run: Run, problem: str) -> None:
    """End a job whose tasks are done. Raises RunError with `problem` unless it is empty or the timeline failed.

    If the timeline failed, it made the tasks end early. Then the problem is only printed, because the timeline's own
    step has the reason.
    """
    early = read_record(run, EarlyEnd)
    if problem and early is not None:
        print(f"ended early, because {early.why}: {problem}")
    elif problem:
        raise RunError(problem)


def join_problems(problems: Iterable[str | None]) -> str:
    """Return the different problems of a job's tasks in one line; empty if there are none."""
    return "; ".join(dict.fromkeys(problem for problem in problems if problem))
