"""When the problem of a task fails its job at once, and when it is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.clients.record import read_end
from brokerproof.clock import now_us
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import ConsumerEnd, EarlyEnd, PhaseTimes, Record, read_record, write_record
from task_problems import leave_end, raise_before_steady


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(str(tmp_path))


def test_before_the_load_is_steady_a_problem_fails_the_job(run: Run) -> None:
    with pytest.raises(RunError, match="the cluster refuses producers"):
        raise_before_steady(run, "the cluster refuses producers")


def make_consumer_end(*, epoch: int | None, problem: str | None = None) -> ConsumerEnd:
    return ConsumerEnd(task=0, consumer="audit-0", delivered=1, epoch=epoch, segments=1, problem=problem, at=now_us())


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        pytest.param(None, None, id="no problem"),
        # The rows of the other tasks are worth more than an early failure.
        pytest.param(
            PhaseTimes(steady_at=1, impact_at=1, recovery_at=1, ends_at=1), "refused", id="the load is steady"
        ),
        # Seen: a client that may have one unanswered message never held the rate, and three steps failed for it.
        pytest.param(EarlyEnd(why="the topic never held 383 messages/s", at=1), "told to end", id="told to end"),
    ],
)
def test_a_problem_that_is_not_the_task_s_own_or_comes_late_is_recorded_and_fails_nothing(
    run: Run, record: Record | None, problem: str | None
) -> None:
    if record is not None:
        write_record(run, record)
    leave_end(run, ConsumerEnd, 0, 1, lambda: make_consumer_end(epoch=None, problem=problem))
    left = read_record(run, ConsumerEnd, 0)
    assert left is not None
    assert left.problem == problem


def test_an_end_that_an_earlier_process_of_a_repeated_task_left_is_not_the_end_of_this_one(run: Run) -> None:
    write_record(run, make_consumer_end(epoch=0))
    assert read_end(run, ConsumerEnd, 0, epoch=1) is None
    write_record(run, PhaseTimes(steady_at=1, impact_at=1, recovery_at=1, ends_at=1))
    leave_end(run, ConsumerEnd, 0, 1, lambda: make_consumer_end(epoch=None, problem="its process was killed"))
    left = read_record(run, ConsumerEnd, 0)
    assert left is not None
    assert left.problem == "its process was killed"


def test_the_end_that_the_process_itself_left_stays(run: Run) -> None:
    write_record(run, make_consumer_end(epoch=1))
    leave_end(run, ConsumerEnd, 0, 1, lambda: pytest.fail("a second end was made"))
    assert read_end(run, ConsumerEnd, 0, epoch=1) == read_record(run, ConsumerEnd, 0)
