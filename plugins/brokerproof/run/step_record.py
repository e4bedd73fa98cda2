"""The records that every step leaves about itself: its start and end, and the problem if it failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from brokerproof import clock
from brokerproof.errors import BrokerproofError, MachineError, RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    RunReleased,
    StepProblem,
    StepSeconds,
    read_record,
    record_keys,
    remove_record,
    write_record,
)
from brokerproof.run.time_axis import follow_time_axis


@contextmanager
def record_step(run: Run, step: str) -> Iterator[None]:
    """Run a block as a step: write its `StepSeconds` at the end and, if the block raises, its `StepProblem`.

    Before the block, this process begins to follow the run's time axis, and the problem of an earlier try is removed.
    The step `release` ends the run's processes. A problem of another step after that may be only a consequence, and
    says so.
    """
    with suppress(RunError):
        # If run.json cannot be read, a step that needs it raises the error itself.
        follow_time_axis(run)
    started_at = clock.now_us()
    remove_record(run, StepProblem, step)
    try:
        yield
    except BrokerproofError as error:
        _leave_problem(run, step, str(error), started_at)
        raise
    except BaseException as error:
        _leave_problem(run, step, f"{type(error).__name__}: {error}", started_at)
        raise
    finally:
        # An error here must not replace the step's own exception.
        with suppress(MachineError):
            write_record(run, StepSeconds(step=step, started_at=started_at, finished_at=clock.now_us()))


def _leave_problem(run: Run, step: str, problem: str, started_at: int) -> None:
    with suppress(RunError, OSError):
        released = read_record(run, RunReleased)
        if step != "release" and released is not None and released.at >= started_at:
            problem = f"the run was released before the step had ended: {problem}"
    with suppress(MachineError):
        write_record(run, StepProblem(step=step, problem=problem))


def list_step_problems(run: Run) -> dict[str, str]:
    """Return {step: sentence with the problem} for the steps that failed."""
    return {step: f"step {step} failed: {_read_problem(run, step)}" for step in record_keys(run, StepProblem)}


def _read_problem(run: Run, step: str) -> str:
    try:
        record = read_record(run, StepProblem, step)
    except (RunError, OSError):
        record = None
    return record.problem if record else "its record cannot be read"
