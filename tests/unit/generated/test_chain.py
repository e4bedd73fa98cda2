"""The stand-in for Spark in generated runs: tasks side by side, and rows that stay only where no task raises."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.table_rows import iterate_rows
from brokerproof.run.tables import Batches, make_batch
from chain import TaskBarrier, ThreadTasks


def make_rows(run: Run, task: str) -> Batches:
    yield make_batch("observations", [{"at": 1, "metric": task, "value": "1"}], {"run_id": "r", "source": "s"})


def make_rows_together(run: Run, task: str, barrier: TaskBarrier) -> Batches:
    others = barrier.allGather(task)
    yield make_batch(
        "observations", [{"at": 1, "metric": task, "value": " ".join(sorted(others))}], {"run_id": "r", "source": "s"}
    )


def fail_for_one(run: Run, task: str, barrier: TaskBarrier) -> Batches:
    yield from make_rows(run, task)
    if task == "b":
        raise RunError("b cannot go on")
    barrier.barrier()


def test_the_rows_of_every_task_are_in_the_table(tmp_path: Path) -> None:
    run = Run(str(tmp_path))
    ThreadTasks("job").run(run, "observations", ["a", "b"], make_rows)
    assert [row["metric"] for row in iterate_rows(run, "observations", ["metric"])] == ["a", "b"]


def test_tasks_that_run_at_once_wait_for_each_other(tmp_path: Path) -> None:
    run = Run(str(tmp_path))
    ThreadTasks("job").run(run, "observations", ["a", "b", "c"], make_rows_together, at_once=True)
    assert [row["value"] for row in iterate_rows(run, "observations", ["value"])] == ["a b c"] * 3


def test_a_task_that_raises_takes_the_rows_of_all_of_them_and_nobody_waits_for_it(tmp_path: Path) -> None:
    run = Run(str(tmp_path))
    with pytest.raises(RunError, match="b cannot go on"):
        ThreadTasks("job").run(run, "observations", ["a", "b"], fail_for_one, at_once=True)
    assert list(iterate_rows(run, "observations", ["metric"])) == []


def test_a_task_that_raises_is_repeated_with_all_others_which_are_ended_wherever_they_are(tmp_path: Path) -> None:
    run = Run(str(tmp_path))
    begun: list[str] = []
    ended = threading.Event()

    def fail_once(run: Run, task: str, barrier: TaskBarrier) -> Batches:
        is_first = task not in begun
        begun.append(task)
        barrier.barrier()
        yield from make_rows(run, task)
        try:
            while is_first and task == "a":
                time.sleep(0.01)
        finally:
            ended.set()
        if is_first:
            raise RunError("b fails once")

    ThreadTasks("job", attempts=2).run(run, "observations", ["a", "b"], fail_once, at_once=True)
    assert ended.is_set()
    assert sorted(begun) == ["a", "a", "b", "b"]
    assert [row["metric"] for row in iterate_rows(run, "observations", ["metric"])] == ["a", "b"]


def test_a_task_that_raises_each_time_fails_the_job_after_the_last_attempt(tmp_path: Path) -> None:
    attempts: list[str] = []

    def fail(run: Run, task: str, barrier: TaskBarrier) -> Batches:
        attempts.append(task)
        yield from ()
        raise RunError("it cannot go on")

    with pytest.raises(RunError, match="it cannot go on"):
        ThreadTasks("job", attempts=3).run(Run(str(tmp_path)), "observations", ["a"], fail, at_once=True)
    assert attempts == ["a"] * 3
