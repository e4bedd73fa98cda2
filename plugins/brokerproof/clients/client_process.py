"""A producer or consumer under test as a process: how a Spark task starts it, follows its record, and ends it.

The task writes lines to the client's standard input: the time at which the client begins, `stop` if a fault stops the
client, and the moment at which the client has to freeze itself for a fault. If the input ends, the task is gone. The
client then gives up pending attempts, records its end, and exits. So no client outlives a killed task or driver.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn, Protocol, Self, TypeVar

from brokerproof import clock
from brokerproof.errors import RunError
from brokerproof.experiment.fault import ClientMoment
from brokerproof.experiment.workload import ClientRole
from brokerproof.machine.processes import MARK, SERVICE_MARK, Mark, is_stopped
from brokerproof.run.directory import Run
from brokerproof.run.records import ClustersConfigured, EarlyEnd, read_record
from brokerproof.run.time_axis import follow_time_axis, note_wall_clock

_LOOK_EVERY_S = 0.25
_CLOSE_S, _FREEZE_S = 5.0, 5.0
# The lines that stop a client, and that take back the moment for which it freezes itself.
_STOP, _NO_MOMENT = "stop", "no moment"
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
        """Start the Python module `module` as a process. It writes a byte to a pipe when it is connected.

        Its arguments are the run's directory, the client's number, the epoch and the pipe's descriptor. The epoch is
        the number of this process among all processes of the client, from 0.
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

    @property
    def pid(self) -> int:
        return self._process.pid

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

    def await_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until the client is connected or has ended, by default without a limit. Returns whether one is true.

        A client writes a byte to the pipe when it is connected, and the pipe closes when it ends.
        """
        ready, _, _ = select.select([self._ready], [], [], timeout_s)
        if ready:
            os.read(self._ready, 1)
        return bool(ready)

    def begin(self, at: float) -> None:
        """Tell the client to begin at `at`, in Unix time."""
        self._tell(repr(at))

    def stop(self) -> None:
        """Tell the client to end in order: after what it has begun, and before what it has not."""
        self._tell(_STOP)

    def _tell(self, line: str) -> None:
        if self._process.stdin is not None:
            # The client may have ended.
            with suppress(BrokenPipeError):
                self._process.stdin.write(f"{line}\n".encode())

    def freeze(self) -> None:
        """Stop every thread of the client, and wait until the kernel reports them as stopped or the client has ended.

        Raises DeadlineError after `_FREEZE_S` seconds.
        """
        self._process.send_signal(signal.SIGSTOP)
        is_frozen = lambda: self.is_frozen() or not self.is_running()  # noqa: E731
        clock.wait_until(is_frozen, timeout_s=_FREEZE_S, what="every thread of the client to stop", every_s=0.001)

    def await_moment(self, moment: ClientMoment) -> None:
        """Tell the client to freeze itself the next time that it is at a moment, which `is_frozen` shows."""
        self._tell(moment)

    def give_up_moment(self) -> None:
        """Tell the client to freeze itself no more."""
        self._tell(_NO_MOMENT)
        self.thaw()

    def read_holding(self) -> str:
        """Return what the client held when it froze itself, as it said, such as "17 unacknowledged messages"."""
        return os.read(self._ready, 1000).decode(errors="replace")

    def is_frozen(self) -> bool:
        return self.is_running() and is_stopped(self.pid)

    def thaw(self) -> None:
        """Let a frozen client go on."""
        self._process.send_signal(signal.SIGCONT)

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


def awaits_moments(run: Run, role: ClientRole) -> bool:
    """Return whether a fault may wait until a client of this role is at a moment."""
    return any(fault.targets.client is role and fault.targets.moment for fault in run.scenario.faults)


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
        """`ready` is the descriptor of the pipe on which the client reports that it is connected."""
        self._ready, self._source = ready, source
        # The moment at which the client has to freeze itself.
        self.awaited: ClientMoment | None = None
        # The task is gone, so the client ends at once.
        self.gone = threading.Event()
        # A fault stops the client, which ends in order.
        self.stopping = threading.Event()
        self._begin_at: float | None = None
        self._told = threading.Event()

    def watch(self) -> None:
        """Begin to read standard input on a thread. The event `gone` is set when the input ends or SIGTERM arrives."""
        signal.signal(signal.SIGTERM, lambda *_: self.gone.set())
        threading.Thread(target=self._read, name="parent", daemon=True).start()

    def say_ready(self) -> None:
        """Tell the Spark task that the client is connected."""
        os.write(self._ready, b"r")

    def reach(self, moment: ClientMoment, holding: str) -> None:
        """Freeze this process, if the task awaits the moment, until the task lets it go on or kills it.

        `holding` says what the client holds. So a fault meets the client at exactly this moment, and not by luck.
        """
        if self.awaited is moment:
            self.awaited = None
            os.write(self._ready, holding.encode())
            # The calling thread stops first. A signal to the process may stop another thread first, and this one would
            # go on for some time: it did so in 23 of 40 trials.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    def await_begin(self) -> float:
        """Wait for the Unix time at which the client begins, and return it. Raises RunError if the task ends first."""
        self._told.wait()
        if self._begin_at is None:
            raise RunError("its task ended before it began")
        return self._begin_at

    def _read(self) -> None:
        for line in map(str.strip, self._source):
            if line == _STOP:
                self.stopping.set()
            elif line == _NO_MOMENT:
                self.awaited = None
            elif line in set(ClientMoment):
                self.awaited = ClientMoment(line)
            else:
                self._begin_at = float(line)
                self._told.set()
        self.gone.set()
        self._told.set()
