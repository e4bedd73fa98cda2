"""Starts, records, finds and ends processes that outlive the process that started them.

There are two ways to find such a process, even if its starter was killed: by its mark and by its record. The mark is an
environment variable that names the owner. A process has it as soon as it starts, but a search for marks reads every
process of the machine. The record is a file with the process's id and start time. It is fast to read, but it is written
shortly after the process starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from brokerproof.bounded_reading import MOST_JSON_BYTES, load_json, read_text
from brokerproof.clock import wait_until
from brokerproof.errors import BrokerproofError, DeadlineError, MachineError, NodeError
from brokerproof.machine.files import write_whole

# The environment variable with the mark, for processes that belong to a run, and for those that serve all runs.
MARK, SERVICE_MARK = "BROKERPROOF_NODE", "BROKERPROOF_SERVICE"
# Start times that differ by at most this are the same; the kernel counts them in hundredths of a second.
_SAME_S = 0.005
_START_TIMEOUT_S, _BEGIN_TIMEOUT_S, _END_TIMEOUT_S = 60.0, 1.0, 10.0
# The exit status of a process that cannot start on this machine. The last line of its log says why.
CANNOT_START = 3


@dataclass(frozen=True)
class Mark:
    """The owner of a process, which is the directory of a run or service, and the process's name within this owner."""

    directory: Path
    name: str

    def __str__(self) -> str:
        return f"{self.directory}|{self.name}"


def start_process(
    command: Sequence[str],
    *,
    mark: Mark,
    record: Path,
    log: Path,
    environment: Mapping[str, str],
    working_directory: Path | None = None,
    facts: Mapping[str, Any] = MappingProxyType({}),
    descriptors: Sequence[int] = (),
    variable: str = MARK,
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, write its record, and append its output to the file `log`.

    The process gets `environment`, with `mark` as its only mark, and inherits the file descriptors `descriptors`. The
    record is a JSON file with the process's id, its start time and the `facts`.
    """
    unmarked = {name: value for name, value in environment.items() if name not in (MARK, SERVICE_MARK)}
    for file in (record, log):
        file.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=working_directory,
            env={**unmarked, variable: str(mark)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=descriptors,
        )
    created = read_start(process.pid)
    write_whole(record, json.dumps({"pid": process.pid, "created": created, **facts}))
    return process


def start_and_await(
    name: str, command: Sequence[str], is_ready: Callable[[], bool], *, mark: Mark, record: Path, log: Path
) -> None:
    """Start a process with this process's environment, and wait until it is ready. Raises the errors of `await_start`.

    A process that is not ready in time is killed.
    """
    process = start_process(command, mark=mark, record=record, log=log, environment=os.environ)
    try:
        await_start(name, is_ready, process.poll, partial(read_last_lines, log))
    except BrokerproofError:
        process.kill()
        process.wait()
        raise


def await_start(
    name: str, is_ready: Callable[[], bool], find_status: Callable[[], int | None], read_log: Callable[[], str]
) -> None:
    """Wait until a process that was just started is ready.

    `find_status` returns the process's exit status, or None while it runs. Raises MachineError if the exit status is
    `CANNOT_START`. Raises NodeError, with the end of the log, if the process ends otherwise or is not ready in time.
    """
    is_over = lambda: is_ready() or find_status() is not None  # noqa: E731
    try:
        wait_until(is_over, timeout_s=_START_TIMEOUT_S, what=f"{name} to be ready", every_s=0.02)
    except DeadlineError as error:
        raise NodeError(f"{error}; {describe_log(read_log())}") from None
    if (status := find_status()) == CANNOT_START:
        raise MachineError(read_log().rpartition("\n")[2])
    if status is not None:
        raise NodeError(f"{name} does not run; {describe_log(read_log())}")


def read_last_lines(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log; "" if there is no log."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]) if log.exists() else ""


def describe_log(end: str) -> str:
    """Return a clause for an error message that quotes the end of a log, such as "its log ends with …"."""
    return f"its log ends with\n{end}" if end else "its log is empty"


def find_recorded_process(record: Path) -> psutil.Process | None:
    """Return the process that a record names; None if there is no record or the process has ended.

    Raises MachineError if the record is damaged.
    """
    try:
        content = load_json(read_text(record, MOST_JSON_BYTES))
        pid, created = int(content["pid"]), float(content["created"])
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, OverflowError) as error:
        raise MachineError(f"{record} is damaged: {error}; remove it") from None
    return find_process(pid, created)


def read_start(pid: int) -> float:
    """Return the time at which a process started, in seconds since the machine's boot.

    The number stays the same if the machine's clock is set. Raises psutil.NoSuchProcess if the process is gone.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    # Field 22, see proc_pid_stat(5). Field 2 is a name in brackets, which may contain any character.
    return int(stat[stat.rindex(b")") + 2 :].split()[19]) / os.sysconf("SC_CLK_TCK")


def find_process(pid: int, created: float) -> psutil.Process | None:
    """Return the process with this pid and this start time, as `read_start` returns it; None if the process has ended.

    The kernel reuses pids, so only both together identify a process. An ended child of the calling process is reaped.
    """
    try:
        process = psutil.Process(pid)
        if abs(read_start(pid) - created) > _SAME_S:
            return None
        if process.status() != psutil.STATUS_ZOMBIE:
            return process
    except psutil.Error:
        return None
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return None


def find_marked_processes(below: Path | None = None, *, variable: str = MARK) -> Iterator[psutil.Process]:
    """Yield the marked processes that this user may inspect, except the calling process.

    If `below` is given, only processes whose marks name this directory or one below it are yielded.
    """
    for process in psutil.process_iter():
        mark = read_mark(process, variable=variable)
        if mark is None or process.pid == os.getpid():
            continue
        if below is None or mark.directory.is_relative_to(below):
            yield process


def read_mark(process: psutil.Process, *, variable: str = MARK) -> Mark | None:
    """Return the mark in a process's environment; None if the process has none, has ended, or cannot be inspected."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        directory, _, name = read_environment(process).get(variable, "").rpartition("|")
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return None
    return Mark(Path(directory), name) if directory else None


def read_environment(process: psutil.Process) -> dict[str, str]:
    """Return a process's environment. Raises psutil.Error if the process has ended or may not be inspected.

    While a process begins to execute its program, the kernel shows neither its arguments nor its environment. So an
    empty environment is read again until the arguments appear, for at most `_BEGIN_TIMEOUT_S` seconds.
    """
    deadline = time.monotonic() + _BEGIN_TIMEOUT_S
    began = False
    # The arguments appear before the environment, so it is read once more after them.
    while not (environment := dict(process.environ())) and not began and time.monotonic() < deadline and process.exe():
        began = bool(process.cmdline())
        time.sleep(0.001)
    return environment


def end_processes(processes: Iterable[psutil.Process]) -> list[str]:
    """Kill those of the processes that have a mark, wait until they are gone, and return the names in their marks.

    Raises MachineError if a process is not gone after `_END_TIMEOUT_S` seconds.
    """
    ended = {process: mark.name for process in processes if (mark := read_mark(process)) is not None}
    for process in ended:
        send_signal(process, signal.SIGKILL)
    _, left = psutil.wait_procs(list(ended), timeout=_END_TIMEOUT_S)
    if still := [process.pid for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]:
        raise MachineError(f"processes {still} did not end after SIGKILL; look into the kernel's log (`dmesg`)")
    return list(ended.values())


def send_signal(process: psutil.Process, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended meanwhile."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def is_stopped(pid: int) -> bool:
    """Return whether the kernel reports every thread of a process as stopped. They do not all stop at one moment."""
    states = []
    for file in Path(f"/proc/{pid}/task").glob("*/stat"):
        # A thread may end meanwhile. The state follows the name, which is in brackets and may contain any character
        # (proc_pid_stat(5)).
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            states.append(file.read_text().rpartition(")")[2].split()[0])
    return bool(states) and set(states) == {"T"}
