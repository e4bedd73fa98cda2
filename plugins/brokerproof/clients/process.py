"""A client under test as a process: how a Spark task starts it, follows its record, and ends it.

The client reads its standard input. A line says when to begin, and the end says that whoever started it is gone: then
it gives up what is pending, records that, and ends. So a killed task, worker or driver leaves no client behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from brokerproof import clock
from brokerproof.clients.record import RecordReader, Segment
from brokerproof.errors import RunError
from brokerproof.machine.processes import MARK, SERVICE_MARK, Mark
from brokerproof.run.directory import Run
from brokerproof.run.records import EarlyEnd, read_record

_LOOK_EVERY_S = 0.25
# A client that is told to end at once has so long to do it, and is ended then.
_EARLY_END_S = 3.0
_CLOSE_S = 5.0


class ClientProcess:
    """A client in a process of its own."""

    def __init__(self, module: str, run: Run, client: str, number: int, epoch: int) -> None:
        """Start it. `module` is run with the run's directory, the number of the task and the epoch."""
        reading, writing = os.pipe()
        environment = {name: value for name, value in os.environ.items() if name not in (MARK, SERVICE_MARK)}
        mark = Mark(Path(run.directory).absolute(), f"client {client}")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, run.directory, str(number), str(epoch), str(writing)],
                env={**environment, MARK: str(mark)},
                stdin=subprocess.PIPE,
                # Nothing is left to write when a client that has ended is closed.
                bufsize=0,
                # Standard output belongs to Spark in a worker of Spark.
                stdout=sys.stderr.fileno(),
                pass_fds=[writing],
                # A signal to the group of the task ends the task, and the client sees that.
                process_group=0,
            )
        finally:
            os.close(writing)
        self._ready = reading

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the client, at once where it does not end by itself now that nobody follows it."""
        os.close(self._ready)
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=_CLOSE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def await_ready(self) -> None:
        """Wait until the client is connected, which one byte says, or has ended, which the end of the pipe says."""
        os.read(self._ready, 1)

    def begin(self, at: float) -> None:
        """Say when to begin, in seconds since the epoch."""
        if self._process.stdin is not None:
            # It may have ended, as `is_running` says.
            with suppress(BrokenPipeError):
                self._process.stdin.write(f"{at!r}\n".encode())

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it at once, with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def describe_end(self) -> str:
        """How it ended, from its exit status, to complete the sentence "its process …"."""
        status = self._process.wait()
        return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def follow_record(
    run: Run, client: ClientProcess, reader: RecordReader, is_overdue: Callable[[], bool] = lambda: False
) -> Iterator[Segment]:
    """The segments of a client's record as they appear, until it has ended and all of them were read.

    A client that does not end in time after the timeline broke, or that is overdue, is ended.
    """
    while True:
        running = client.is_running()
        yield from reader.read_new() if running else reader.read_rest()
        if not running:
            return
        early = read_record(run, EarlyEnd)
        if is_overdue() or (early is not None and clock.now_us() > early.at + _EARLY_END_S * 1e6):
            client.kill()
        time.sleep(_LOOK_EVERY_S)


class Parent:
    """The Spark task, as its client sees it."""

    def __init__(self, ready: int, source: IO[str] = sys.stdin) -> None:
        """`ready` is the descriptor of the pipe on which the client says that it is connected."""
        self._ready, self._source = ready, source
        self.gone = threading.Event()
        self._begin_at: float | None = None
        self._told = threading.Event()

    def watch(self) -> None:
        """Begin to read what the parent says; a signal to end is as good as its end."""
        signal.signal(signal.SIGTERM, lambda *_: self.gone.set())
        threading.Thread(target=self._read, name="parent", daemon=True).start()

    def say_ready(self) -> None:
        """Tell the parent that the client is connected."""
        os.write(self._ready, b"r")
        os.close(self._ready)

    def await_begin(self) -> float:
        """The moment at which to begin, in seconds since the epoch. Raises RunError where the parent is gone."""
        self._told.wait()
        if self._begin_at is None:
            raise RunError("its task ended before it began")
        return self._begin_at

    def _read(self) -> None:
        for line in self._source:
            self._begin_at = float(line)
            self._told.set()
        self.gone.set()
        self._told.set()
