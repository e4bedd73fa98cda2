"""The embedded Airflow's executor: Airflow's LocalExecutor, whose workers exist only while there are tasks.

Airflow's own starts `core.parallelism` workers at once, and each keeps 30 MB while it waits. Only Airflow's scheduler
imports this module.
"""

from __future__ import annotations

import time
from contextlib import suppress
from importlib import import_module
from multiprocessing import Process
from pathlib import Path
from typing import Any

from airflow.executors.local_executor import LocalExecutor, _run_worker

# Between two tasks of a run, there is no task for less than this many seconds.
_IDLE_S = 30.0
# Seconds by which an idle scheduler, which calls `sync` in each of its rounds, begins the next round later. A round
# takes 25 ms of a core, and a run needs the next round soon.
_PAUSE_S = 1.0
# A task is a fork of its worker, and would take half a second of a core to import these modules itself. The scheduler
# does not import them, so a change of the code takes effect as soon as the workers have ended.
_TASK_MODULES = (
    "brokerproof.orchestration.dag_building.scenario_dag",
    "brokerproof.lifecycle",
    "brokerproof.results.recording",
    "brokerproof.orchestration.notify.notifier",
    "brokerproof.reports.exports",
)
# In the title of each worker's process, except while it starts, and in that of a worker that waits for a task.
_TITLE, _IDLE = b"LocalExecutor:", b"<idle>"


class EmbeddedExecutor(LocalExecutor):
    """Have at most one worker for each task, and end all workers when there was no task lately."""

    # {process id: worker}
    workers: dict[int, Process]

    def start(self) -> None:
        self._busy_at = time.monotonic()
        super().start()

    def sync(self) -> None:
        super().sync()
        if self.queued_tasks or self._unread_messages.value or self._count_free() < len(self.workers):
            self._busy_at = time.monotonic()
        elif time.monotonic() - self._busy_at > _IDLE_S:
            self._end_workers()
            time.sleep(_PAUSE_S)

    def _end_workers(self) -> None:
        # As in `end`, each worker takes one message and ends.
        for _ in self.workers:
            self.activity_queue.put(None)
        for worker in self.workers.values():
            worker.join()
            worker.close()
        self.workers = {}

    def _count_free(self) -> int:
        """Return the number of workers without a task. Airflow does not keep it, but a busy worker shows its task."""
        return sum(_TITLE not in (title := _read_title(pid)) or _IDLE in title for pid in self.workers)

    def _spawn_worker(self) -> None:
        options = {
            "logger_name": self.log.name,
            "input": self.activity_queue,
            "output": self.result_queue,
            "unread_messages": self._unread_messages,
            "team_conf": self.conf,
        }
        worker = Process(target=_run_prepared_worker, kwargs=options)
        worker.start()
        assert worker.pid is not None
        self.workers[worker.pid] = worker

    def _spawn_workers_with_gc_freeze(self, spawn_number: int) -> None:
        needed = self._unread_messages.value - self._count_free()
        super()._spawn_workers_with_gc_freeze(max(0, min(spawn_number, needed)))


def _run_prepared_worker(**options: Any) -> None:
    """Import what tasks need, and then work as one of Airflow's own workers."""
    for module in _TASK_MODULES:
        # A task that needs the module imports it again and reports the error.
        with suppress(Exception):
            import_module(module)
    _run_worker(**options)


def _read_title(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
