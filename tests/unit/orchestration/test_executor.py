"""The embedded Airflow's executor: it has workers only while there are tasks."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from brokerproof.clock import wait_until
from brokerproof.orchestration import executor as module
from brokerproof.orchestration.executor import EmbeddedExecutor


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedExecutor]:
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)
    made = EmbeddedExecutor(parallelism=4)
    made.start()
    yield made
    made.end()


def give_task(executor: EmbeddedExecutor) -> None:
    """Give the executor a task that no worker can run, because it is none of Airflow's."""
    task: Any = SimpleNamespace(
        key="k", running_state=None, success_state="success", failure_state="failed", display_name="t"
    )
    executor.queued_tasks[task.key] = task
    executor._process_workloads([task])


def await_end(executor: EmbeddedExecutor) -> None:
    """Wait until the executor knows the end of its task, and its worker waits for the next one."""

    def has_ended() -> bool:
        executor.sync()
        return executor.event_buffer.pop("k", None) is not None  # type: ignore[call-overload]

    wait_until(has_ended, timeout_s=30, what="the task's end")
    # A worker that is just changing its title has none, and counts as free.
    are_idle = lambda: all(module._IDLE in module._read_title(pid) for pid in executor.workers)  # noqa: E731
    wait_until(are_idle, timeout_s=30, what="workers to wait")


def test_there_is_no_worker_before_the_first_task(executor: EmbeddedExecutor) -> None:
    executor.sync()
    assert executor.workers == {}


def test_a_task_gets_a_worker_which_stays_for_the_next_task(executor: EmbeddedExecutor) -> None:
    give_task(executor)
    assert len(executor.workers) == 1
    await_end(executor)
    give_task(executor)
    assert len(executor.workers) == 1


def test_workers_end_if_there_was_no_task_lately(executor: EmbeddedExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    give_task(executor)
    (pid,) = executor.workers
    await_end(executor)
    monkeypatch.setattr(module, "_IDLE_S", 0.0)
    executor.sync()
    assert executor.workers == {}
    assert not psutil.pid_exists(pid)


def test_a_task_that_runs_keeps_its_worker(executor: EmbeddedExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    give_task(executor)
    await_end(executor)
    monkeypatch.setattr(module, "_IDLE_S", 0.0)
    # A worker shows the task that it runs instead.
    monkeypatch.setattr(module, "_IDLE", b"another title")
    executor.sync()
    assert len(executor.workers) == 1


def test_a_worker_that_was_killed_leaves_no_message_for_a_later_worker(
    executor: EmbeddedExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_task(executor)
    await_end(executor)
    (worker,) = executor.workers.values()
    worker.kill()
    worker.join()
    monkeypatch.setattr(module, "_IDLE_S", 0.0)
    executor.sync()
    assert executor.workers == {}
    assert executor.activity_queue.empty()


def test_a_worker_imports_the_modules_of_tasks_once_and_bears_one_that_is_broken(
    executor: EmbeddedExecutor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    imported = tmp_path / "imported"
    (tmp_path / "broken_module.py").write_text("raise ValueError('planted')")
    (tmp_path / "whole_module.py").write_text(f"import os; open({str(imported)!r}, 'a').write(f'{{os.getpid()}} ')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "_TASK_MODULES", ("broken_module", "whole_module"))
    for _ in range(2):
        give_task(executor)
        await_end(executor)
    assert imported.read_text() == f"{next(iter(executor.workers))} "


@pytest.mark.parametrize("name", module._TASK_MODULES)
def test_every_module_that_workers_import_exists(name: str) -> None:
    assert find_spec(name) is not None
