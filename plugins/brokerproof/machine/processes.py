"""Processes that outlive whoever started them: how they are started, recorded, found again and ended.

Such a process is found in two ways, so that none is forgotten, whenever its starter is killed. A mark in its
environment says from the first moment on whose it is; to find a mark means to look at every process of the machine. A
record, a file with the process's id and start time, is looked up at once, and exists shortly after the start.
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

# The variable of every process that belongs to a run, and of every one that serves all runs.
MARK, SERVICE_MARK = "BROKERPROOF_NODE", "BROKERPROOF_SERVICE"
# How far start times may differ as numbers and be the same; the kernel counts in hundredths of a second.
_SAME_S = 0.005
_END_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Mark:
    """The owner of a process: the directory that it belongs to, and its name there."""

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
    """Start a process in a session of its own and record it; what it prints is added to `log`.

    `environment` is all of its environment but the mark; the starter's own mark does not count for it. The record holds
    the `facts` too. The process inherits the `descriptors`.
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
    """The process that a record names, None where there is no record or the process has ended."""
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return find_process(content["pid"], content["created"])


def read_start(pid: int) -> float:
    """When a process started, in seconds since the machine's boot. Raises psutil.NoSuchProcess where there is none.

    Unlike the time of day this never changes: not when the clock is set, nor when a virtual machine catches up.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    # Field 22, see proc_pid_stat(5); the second one is a name in brackets, which may hold anything.
    return int(stat[stat.rindex(b")") + 2 :].split()[19]) / os.sysconf("SC_CLK_TCK")


def find_process(pid: int, created: float) -> psutil.Process | None:
    """The process with this pid that was started then (as `read_start` tells it), None if it has ended.

    A pid is given again; only together with the start time it is one process. A child of this process that has ended is
    reaped.
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
    """The marked processes of this machine that this user may look at, all or those that belong to a directory.

    What belongs to a directory below it counts too.
    """
    for process in psutil.process_iter():
        mark = read_mark(process, variable=variable)
        if mark is None or process.pid == os.getpid():
            continue
        if below is None or mark.directory.is_relative_to(below):
            yield process


def read_mark(process: psutil.Process, *, variable: str = MARK) -> Mark | None:
    """The mark in a process's environment, None where it has none or the process has ended."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        directory, _, name = process.environ().get(variable, "").rpartition("|")
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return None
    return Mark(Path(directory), name) if directory else None


def end_processes(processes: Iterable[psutil.Process]) -> list[str]:
    """SIGKILL processes and wait until they are gone; their names from the marks. Raises MachineError."""
    ended = {process: mark.name for process in processes if (mark := read_mark(process)) is not None}
    for process in ended:
        send_signal(process, signal.SIGKILL)
    _, left = psutil.wait_procs(list(ended), timeout=_END_TIMEOUT_S)
    if still := [process.pid for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]:
        raise MachineError(f"processes {still} did not end after SIGKILL; see what the kernel says of them")
    return list(ended.values())


def send_signal(process: psutil.Process, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended meanwhile."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)
