"""The problems of a job's tasks, which reach the job without a loss of what the tasks recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brokerproof.clients.record import End, read_end
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import EarlyEnd, PhaseTimes, read_record, write_record


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
