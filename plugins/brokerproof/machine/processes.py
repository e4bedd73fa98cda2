"""Processes that outlive the process that started them: how they are started, recorded, found again and ended.

Such a process can be found in two ways, also if its starter was killed. A mark in its environment names its owner from
the start, but a search for marks has to look at every process of the machine. A record is a file with the process's id
and start time. A record is fast to look up, but is written shortly after the start.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from brokerproof.errors import MachineError
from brokerproof.machine.files import write_whole

# The environment variable with the mark, for processes that belong to a run, and for those that serve all runs.
MARK, SERVICE_MARK = "BROKERPROOF_NODE", "BROKERPROOF_SERVICE"
# Start times that differ by at most this are the same; the kernel counts them in hundredths of a second.
_SAME_S = 0.005
_END_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Mark:
    """The owner of a process: the directory of a run or service, and the process's name in it."""

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

    The process gets `environment`, with `mark` as its only mark, and inherits the `descriptors`. The record also
    contains the `facts`.
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


def find_recorded_process(record: Path) -> psutil.Process | None:
    """Return the process that a record names; None if there is no record or the process has ended."""
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return find_process(content["pid"], content["created"])


def read_start(pid: int) -> float:
    """Return when a process started, in seconds since the machine's boot. Raises psutil.NoSuchProcess if it is gone.

    Unlike the time of day, this number stays the same if the clock is set or a virtual machine corrects its time.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    # Field 22, see proc_pid_stat(5). Field 2 is a name in brackets, which may contain any character.
    return int(stat[stat.rindex(b")") + 2 :].split()[19]) / os.sysconf("SC_CLK_TCK")


def find_process(pid: int, created: float) -> psutil.Process | None:
    """Return the process with this pid and this start time, as `read_start` returns it; None if the process has ended.

    The kernel reuses pids, so only both together identify a process. If the process was a child of this one and has
    ended, it is reaped.
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

    If `below` is given, the marks must name this directory or one below it.
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
        directory, _, name = process.environ().get(variable, "").rpartition("|")
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return None
    return Mark(Path(directory), name) if directory else None


def end_processes(processes: Iterable[psutil.Process]) -> list[str]:
    """Kill those of the processes that have a mark, and wait until they are gone. Returns the names in their marks.

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
