"""When the problem of a task fails its job at once, and when it is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.clients.record import read_end
from brokerproof.clock import now_us
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import ConsumerEnd, EarlyEnd, PhaseTimes, read_record, write_record
from spark_session import leave_end, raise_before_steady


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(str(tmp_path))


def test_before_the_load_is_steady_a_problem_fails_the_job(run: Run) -> None:
    with pytest.raises(RunError, match="the cluster refuses producers"):
        raise_before_steady(run, "the cluster refuses producers")


def make_consumer_end(*, epoch: int | None, problem: str | None = None) -> ConsumerEnd:
    return ConsumerEnd(task=0, consumer="audit-0", delivered=1, epoch=epoch, segments=1, problem=problem, at=now_us())


def leave_problem(run: Run, problem: str | None) -> ConsumerEnd | None:
    leave_end(run, ConsumerEnd, 0, 1, lambda: make_consumer_end(epoch=None, problem=problem))
    return read_record(run, ConsumerEnd, 0)


def test_an_end_without_a_problem_is_left_before_the_load_is_steady(run: Run) -> None:
    assert leave_problem(run, None) is not None


def test_while_the_load_is_steady_the_rows_of_the_other_tasks_are_worth_more(run: Run) -> None:
    write_record(run, PhaseTimes(steady_at=1, impact_at=1, recovery_at=1, ends_at=1))
    left = leave_problem(run, "the cluster refuses producers")
    assert left is not None
    assert left.problem == "the cluster refuses producers"


def test_a_task_that_was_told_to_end_before_the_load_was_steady_has_no_problem_of_its_own(run: Run) -> None:
    """Seen: a client that may have one unanswered message never held the rate, and three steps failed for it."""
    write_record(run, EarlyEnd(why="break_it failed: the topic never held 383 messages/s", at=1))
    assert leave_problem(run, "log-p0: it was told to end before its time") is not None


def test_an_end_that_an_earlier_process_of_a_repeated_task_left_is_not_the_end_of_this_one(run: Run) -> None:
    write_record(run, make_consumer_end(epoch=0))
    assert read_end(run, ConsumerEnd, 0, epoch=1) is None
    write_record(run, PhaseTimes(steady_at=1, impact_at=1, recovery_at=1, ends_at=1))
    left = leave_problem(run, "its process was killed")
    assert left is not None
    assert left.problem == "its process was killed"


def test_the_end_that_the_process_itself_left_stays(run: Run) -> None:
    write_record(run, make_consumer_end(epoch=1))
    leave_end(run, ConsumerEnd, 0, 1, lambda: pytest.fail("a second end was made"))
    assert read_end(run, ConsumerEnd, 0, epoch=1) == read_record(run, ConsumerEnd, 0)
