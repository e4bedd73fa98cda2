"""The problems of a job's tasks, which reach the job without a loss of what the tasks recorded."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Protocol

from brokerproof.run.directory import Run
from brokerproof.run.records import PhaseTimes, read_record


class Closeable(Protocol):
    """A client of the messaging system, or a part of one."""

    def close(self) -> None:
        """Close it."""


def close_clients(**clients: Closeable) -> None:
    """Close clients that have done their work. Where one does not close, as with a broker that hangs, stderr has it."""
    for name, client in clients.items():
        try:
            client.close()
        except Exception as error:
            print(f"the {name} did not close: {error!r}", file=sys.stderr)


def defer_error(run: Run, who: str, error: BaseException | None) -> str | None:
    """The problem to record instead of an error, None without one.

    If a task raises, Spark throws away what all tasks of the job recorded. Before the load is steady nothing of value
    is recorded, so the error is raised then, and the job fails at once.
    """
    if error is not None and read_record(run, PhaseTimes) is None:
        raise error
    return None if error is None else f"{who}: {type(error).__name__}: {error}"


def join_problems(problems: Iterable[str | None]) -> str:
    """The problems of a job's tasks in one line, each once; empty without any."""
    return "; ".join(dict.fromkeys(problem for problem in problems if problem))
