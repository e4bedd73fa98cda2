"""The problems of a job's tasks, which reach the job without a loss of what the tasks recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import ConsumerEnd, EarlyEnd, PhaseTimes, ProducerEnd, read_record, write_record

End = TypeVar("End", ProducerEnd, ConsumerEnd)


def read_end(run: Run, kind: type[End], number: int, epoch: int) -> End | None:
    """Return the end that the task's client left, None if there is none or another process of the client left it.

    A process of an earlier epoch may still write its end if Spark repeats the task.
    """
    end = read_record(run, kind, number)
    return end if end is not None and end.epoch == epoch else None


def leave_end(run: Run, kind: type[End], number: int, epoch: int, make_end: Callable[[], End]) -> None:
    """Ensure that a record of the client's end exists; `make_end` makes it if the client left none.

    Raises RunError with the end's problem if the load is not steady yet.
    """
    end = read_end(run, kind, number, epoch) or make_end()
    raise_before_steady(run, end.problem)
    write_record(run, end)


def raise_before_steady(run: Run, problem: str | None) -> None:
    """Raise a task's problem as long as the load is not steady, unless the task was told to end.

    If a task raises, Spark throws away the rows of all tasks of the job, which then come from the clients' records.
    Before the load is steady nothing of value is recorded, so the job fails at once. A task that the timeline told to
    end has no problem of its own. Raises RunError.
    """
    if problem is not None and read_record(run, PhaseTimes) is None and read_record(run, EarlyEnd) is None:
        raise RunError(problem)


def end_job(run: Run, problem: str) -> None:
    """End a job whose tasks are done: fail it with their problem, if they have one. Raises RunError.

    Where the timeline broke, the tasks ended early because they were told to. That is no problem of theirs, and the
    timeline's own step has the reason.
    """
    early = read_record(run, EarlyEnd)
    if problem and early is not None:
        print(f"ended early, because {early.why}: {problem}")
    elif problem:
        raise RunError(problem)


def join_problems(problems: Iterable[str | None]) -> str:
    """The problems of a job's tasks in one line, each once; empty without any."""
    return "; ".join(dict.fromkeys(problem for problem in problems if problem))
