"""What a step leaves in the run's state besides its work: its wall time, and why it could not be done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import fsspec

from brokerproof import clock
from brokerproof.errors import BrokerproofError
from brokerproof.run.directory import Run


@contextmanager
def recorded(run: Run, step: str) -> Iterator[None]:
    """Leave `seconds-<step>` and, where the step raises, `problem-<step>`; what an earlier attempt left is removed."""
    started_at = clock.now_us()
    _forget(run, f"problem-{step}")
    try:
        yield
    except BrokerproofError as error:
        leave_problem(run, step, str(error))
        raise
    except BaseException as error:
        leave_problem(run, step, f"{type(error).__name__}: {error}")
        raise
    finally:
        # Never instead of the step's own exception.
        with suppress(OSError):
            run.leave_state(f"seconds-{step}", {"step": step, "started_at": started_at, "finished_at": clock.now_us()})


def leave_problem(run: Run, step: str, problem: str) -> None:
    """Leave a step's failure where the outcome and the command line read it."""
    with suppress(OSError):
        run.leave_state(f"problem-{step}", {"step": step, "problem": problem})


def _forget(run: Run, state: str) -> None:
    filesystem, root = fsspec.url_to_fs(run.path("state", f"{state}.json"))
    with suppress(FileNotFoundError):
        filesystem.rm_file(root)
