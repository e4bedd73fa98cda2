"""A producer or consumer under test as a process: how a Spark task starts it, follows its record, and ends it.

The task writes the time at which the client begins to the client's standard input. If the input ends, the task is gone.
The client then gives up pending attempts, records its end, and exits. So no client outlives a killed task or driver.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn, Protocol, Self, TypeVar

from brokerproof import clock
from brokerproof.clients.record import RecordReader, Segment
from brokerproof.errors import RunError
from brokerproof.machine.processes import MARK, SERVICE_MARK, Mark
from brokerproof.run.directory import Run
from brokerproof.run.records import ClustersConfigured, EarlyEnd, read_record
from brokerproof.run.time_axis import follow_time_axis, note_wall_clock

_LOOK_EVERY_S = 0.25
# After the timeline broke, a client has this many seconds to end by itself. Then it is killed.
_EARLY_END_S = 3.0
_CLOSE_S = 5.0
# Python looks for unreachable cycles after this many new objects.
_COLLECT_AFTER = 500_000


class ClientTask(Protocol):
    """The task of a producer or consumer."""

    @property
    def client(self) -> str:
        """The client's name in the run."""


TaskT = TypeVar("TaskT", bound=ClientTask)


class ClientProcess:
    def __init__(self, module: str, run: Run, client: str, number: int, epoch: int) -> None:
        """Start the Python module `module` as a process. A producer writes a byte to a pipe when it is connected.

        Its arguments are the run's directory, the client's number, the epoch and the pipe's descriptor. The epoch is
        the number of this process among all processes of the client, from 0.

        A consumer need not say when it has subscribed: its subscription begins at the topic's first message, and the
        system keeps all messages.
        """
        reading, writing = os.pipe()
        environment = {name: value for name, value in os.environ.items() if name not in (MARK, SERVICE_MARK)}
        mark = Mark(Path(run.directory).absolute(), f"client {client}")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, run.directory, str(number), str(epoch), str(writing)],
                env={**environment, MARK: str(mark)},
                stdin=subprocess.PIPE,
                # Without a buffer, nothing is left to write when an ended client's input is closed.
                bufsize=0,
                # In a Spark worker, standard output belongs to Spark.
                stdout=sys.stderr.fileno(),
                pass_fds=[writing],
                # A signal to the task's process group must end only the task. The client sees the input's end.
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
        """Close the client's input, so that it ends, and kill it if it still runs after `_CLOSE_S` seconds."""
        os.close(self._ready)
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=_CLOSE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def await_ready(self) -> None:
        """Wait until the producer is connected or has ended: until it writes a byte to the pipe, or the pipe closes."""
        os.read(self._ready, 1)

    def begin(self, at: float) -> None:
        """Tell the client to begin at `at`, in Unix time."""
        if self._process.stdin is not None:
            # The client may have ended.
            with suppress(BrokenPipeError):
                self._process.stdin.write(f"{at!r}\n".encode())

    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the client with SIGKILL, and wait for its end."""
        self._process.kill()
        self._process.wait()

    def describe_end(self) -> str:
        """Wait for the client's end. Return how the client ended, to complete the sentence "its process …"."""
        status = self._process.wait()
        return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def follow_record(
    run: Run, client: ClientProcess, reader: RecordReader, is_overdue: Callable[[], bool] = lambda: False
) -> Iterator[Segment]:
    """Yield the segments (files) of a client's record as they appear, until the client has ended and all are read.

    The client is killed if `is_overdue` returns True, or `_EARLY_END_S` seconds after the timeline of faults failed.
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


def spare_collections() -> None:
    """Have Python look for unreachable cycles of objects rarely, because no message makes such a cycle.

    With thousands of messages in memory, a published message costs 21 µs of processor time instead of 33, and a message
    that is read back 6 µs in Python instead of 8.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


def run_client(plan: Callable[[Run], Sequence[TaskT]], work: Callable[[Run, TaskT, int, Parent], object]) -> NoReturn:
    """Run a client in this process, whose arguments are those that `ClientProcess` gives, and exit.

    `plan` returns the tasks of all clients of the same job. `work` gets the run, the client's task, its epoch and its
    parent. It is left out if the clusters are never configured.
    """
    directory, number, epoch, ready = sys.argv[1:]
    parent = Parent(int(ready))
    parent.watch()
    run = Run(directory)
    follow_time_axis(run)
    spare_collections()
    task = plan(run)[int(number)]
    if _await_clusters(run, parent.gone):
        with note_wall_clock(run, task.client):
            work(run, task, int(epoch), parent)
    sys.stderr.flush()
    # Everything is recorded. Threads of the system's client that hang must not keep the process alive.
    os._exit(0)


def _await_clusters(run: Run, gone: threading.Event) -> bool:
    """Wait until the clusters are configured. Returns False if the run ends early or `gone` is set first.

    Clients start while nodes start, so that Python has imported all modules when the nodes serve.
    """
    while read_record(run, ClustersConfigured) is None:
        if read_record(run, EarlyEnd) is not None or gone.wait(_LOOK_EVERY_S):
            return False
    return True


class Parent:
    """The Spark task that started this client, as the client sees it."""

    def __init__(self, ready: int, source: IO[str] = sys.stdin) -> None:
        """`ready` is the descriptor of the pipe on which a producer reports that it is connected."""
        self._ready, self._source = ready, source
        self.gone = threading.Event()
        self._begin_at: float | None = None
        self._told = threading.Event()

    def watch(self) -> None:
        """Begin to read standard input on a thread. The event `gone` is set when the input ends or SIGTERM arrives."""
        signal.signal(signal.SIGTERM, lambda *_: self.gone.set())
        threading.Thread(target=self._read, name="parent", daemon=True).start()

    def say_ready(self) -> None:
        """Tell the Spark task that the producer is connected."""
        os.write(self._ready, b"r")
        os.close(self._ready)

    def await_begin(self) -> float:
        """Wait for the Unix time at which the client begins, and return it. Raises RunError if the task ends first."""
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
