"""The embedded Airflow's processes, which form one session of the operating system.

The supervisor (airflow_supervisor.py) leads the session. The API server, the scheduler, the DAG processor and the tasks
are its members. Airflow gives tasks no sessions of their own, so all members can be found even if the supervisor was
killed. A run's nodes are not members: each leads a session of its own and outlives Airflow.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass

import psutil

from brokerproof.machine.ports import describe_other_listener
from brokerproof.machine.processes import find_process, read_environment

# Airflow itself kills a task 5 s after it asked the task to end.
_STOP_TIMEOUT_S = 10


@dataclass(frozen=True, kw_only=True)
class AirflowSession:
    """The session that the pid file describes: the supervisor's pid, and the port of the API server.

    `created` is the supervisor's start in seconds since the machine's boot.
    """

    pid: int
    created: float
    port: int

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return f"http://127.0.0.1:{self.port}"

    def is_supervised(self) -> bool:
        """Whether the supervisor still runs. Another process that got the supervisor's pid later does not count."""
        return find_process(self.pid, self.created) is not None

    def describe_other_listener(self) -> str | None:
        """Return a description of the process that answers at the URL in place of this Airflow; None if none does."""
        return describe_other_listener(self.port, lambda: [member.pid for member in self.list_members()])

    def read_beginning(self) -> float:
        """Return the supervisor's start in seconds since 1970. Raises psutil.NoSuchProcess if its pid is unused."""
        return psutil.Process(self.pid).create_time()

    def read_environment(self) -> dict[str, str] | None:
        """Return the supervisor's environment, or None if the supervisor has ended or belongs to another user."""
        try:
            return read_environment(psutil.Process(self.pid))
        except (OSError, psutil.Error):
            return None

    def list_members(self) -> list[psutil.Process]:
        """Return all living processes of the session, including the supervisor; empty if the session has ended.

        The id of the session is the supervisor's pid. The kernel does not reuse this pid while the session has a
        member. So if another process has the pid, the session has ended.
        """
        if self._is_pid_taken():
            return []
        members = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.pid and process.status() != psutil.STATUS_ZOMBIE:
                    members.append(process)
            except (OSError, psutil.Error):
                continue
        return members

    def has_lost(self, component: str) -> bool:
        """Whether a component of Airflow has ended and cannot start again, because the supervisor has ended too."""
        return not self.is_supervised() and not any(_runs(member, component) for member in self.list_members())

    def end_members(self) -> bool:
        """End every member, and return whether there was one.

        Each member gets SIGTERM first, and SIGKILL after _STOP_TIMEOUT_S. This repeats until no member is left.
        """
        found = False
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        # A scheduler that gets SIGTERM waits for its tasks, so the tasks get SIGTERM too, not only the supervisor.
        asked: set[int] = set()
        while members := self.list_members():
            found = True
            overdue = time.monotonic() > deadline
            for member in members:
                if overdue or member.pid not in asked:
                    asked.add(member.pid)
                    with contextlib.suppress(psutil.Error):
                        member.send_signal(signal.SIGKILL if overdue else signal.SIGTERM)
            time.sleep(0.1)
        # If this process started the supervisor, the pid stays taken until this process reads the exit status.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return found

    def measure_memory(self) -> int:
        """Return the bytes of memory that become free when the session's processes end."""
        return sum(_measure_process(member) for member in self.list_members())

    def _is_pid_taken(self) -> bool:
        """Whether another process has the supervisor's pid now."""
        # This check comes first. If this process started the supervisor and it has ended, the check frees its pid.
        if self.is_supervised():
            return False
        try:
            return bool(psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False


def _runs(process: psutil.Process, component: str) -> bool:
    """Whether a process runs the component. A process that is only just starting counts too.

    At first it has no command line, or that of the supervisor, from which it was forked.
    """
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return not command or f"airflow {component}" in command or "airflow_supervisor" in command


def _measure_process(process: psutil.Process) -> int:
    """Return the bytes that a process uses. Memory that it shares with its forks counts as its share of it."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0
