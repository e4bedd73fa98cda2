"""Processes that write the history and read it at the same time, and what the readers saw."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from multiprocessing.synchronize import Event
from typing import Any, NamedTuple

from brokerproof.results.history import open_history
from brokerproof.results.history_schema import RecordedRun
from brokerproof.run.directory import Run

# Children that inherit nothing, and do not each spend two seconds on importing.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["brokerproof.results.history"])


class RunShape(NamedTuple):
    """How many rows of each kind a reader saw of a run."""

    run_id: str
    checks: int
    measurements: int
    anomaly_counts: int


@dataclass(kw_only=True)
class Sight:
    """What a reader saw, over all its reads: every shape of every run, and what may never be seen."""

    reads: int = 0
    shapes: set[RunShape] = field(default_factory=set)
    # Runs of which one read had two, and runs that were there in one read and not in the next.
    repeated: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    _last: set[str] = field(default_factory=set)

    def add(self, runs: Sequence[RecordedRun]) -> None:
        """Look at the runs of one read."""
        seen = [run.run_id for run in runs]
        self.reads += 1
        self.repeated |= {run_id for run_id in seen if seen.count(run_id) > 1}
        self.lost |= self._last - set(seen)
        self._last = set(seen)
        self.shapes |= {measure_shape(run) for run in runs}


def measure_shape(run: RecordedRun) -> RunShape:
    """The shape of a run that the history gave."""
    return RunShape(run.run_id, len(run.checks), len(run.measurements), len(run.anomaly_counts))


def make_process(target: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """A process, not started yet, with the environment of this moment and not that of the process that forks it."""
    return PROCESSES.Process(target=_run_in, args=(dict(os.environ), target, arguments))


def _run_in(environment: dict[str, str], target: Callable[..., None], arguments: Sequence[Any]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    target(*arguments)


def record_runs(url: str, directories: Sequence[str], times: int = 1) -> None:
    """Record each run so many times, in turns."""
    with open_history(url) as history:
        for _ in range(times):
            for directory in directories:
                history.record(Run(directory))


@contextmanager
def run_readers(url: str, *, count: int = 10, every_s: float = 0.0) -> Iterator[list[Sight]]:
    """Read all runs again and again in so many processes; at the end, the list holds what each of them saw.

    Every reader has read once before the block begins, and reads once more after it has ended.
    """
    sights: list[Sight] = []
    over = PROCESSES.Event()
    connections: list[Any] = []
    readers: list[Any] = []
    try:
        for _ in range(count):
            here, there = PROCESSES.Pipe(duplex=False)
            reader = make_process(_read_again_and_again, url, over, every_s, there)
            reader.start()
            there.close()
            connections.append(here)
            readers.append(reader)
        for connection in connections:
            connection.recv()
        yield sights
        over.set()
        sights += [connection.recv() for connection in connections]
    finally:
        over.set()
        for reader in readers:
            reader.join(timeout=60)
            if reader.is_alive():
                reader.kill()
                reader.join()


def _read_again_and_again(url: str, over: Event, every_s: float, answers: Connection) -> None:
    sight = Sight()
    with open_history(url) as history:
        sight.add(history.list_runs(limit=1000))
        answers.send(None)
        while not over.wait(every_s):
            sight.add(history.list_runs(limit=1000))
        sight.add(history.list_runs(limit=1000))
    answers.send(sight)
