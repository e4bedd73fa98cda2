"""Nodes of the log server as processes of this machine, for tests that break them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from testlog.client import LogAdmin, LogCluster, NodeStatus, UnavailableError

SERVER = Path(__file__).parent / "testlog" / "server.py"


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
    """Wait for a condition. Raises TimeoutError."""
    until = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {timeout_s} s for {what}")
        time.sleep(0.02)


class LocalNodes:
    """Three nodes, each on a loopback address of its own."""

    def __init__(self, directory: Path, *, misbehaviour: str | None = None, misbehaviour_every: int = 100) -> None:
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        subnet = f"127.88.{os.getpid() % 250 + 1}"
        addresses = {f"n{number}": (f"{subnet}.{number}", _free_port(f"{subnet}.{number}")) for number in (1, 2, 3)}
        for name, (address, port) in addresses.items():
            configuration = {
                "name": name,
                "address": address,
                "port": port,
                "data": str(self.data(name)),
                "peers": {peer: f"{host}:{peer_port}" for peer, (host, peer_port) in addresses.items()},
                "misbehaviour": misbehaviour,
                "misbehaviour_every": misbehaviour_every,
            }
            (directory / name).mkdir(parents=True)
            (directory / name / "configuration.json").write_text(json.dumps(configuration))
        self.names = list(addresses)
        self.cluster = LogCluster(addresses)
        self.admin = LogAdmin(self.cluster)

    def data(self, name: str) -> Path:
        """What a node stores."""
        return self._directory / name / "data"

    def start(self, name: str) -> None:
        """Start a node that does not run."""
        with (self._directory / name / "node.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, str(SERVER), "configuration.json"],
                cwd=self._directory / name,
                env={"PATH": os.environ["PATH"]},
                stdout=log,
                stderr=log,
            )

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self._processes[name].kill()
        self._processes.pop(name).wait()

    def freeze(self, name: str) -> None:
        """SIGSTOP; returns when every thread has stopped."""
        self._processes[name].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._processes[name].pid, os.WSTOPPED)

    def resume(self, name: str) -> None:
        """SIGCONT."""
        self._processes[name].send_signal(signal.SIGCONT)

    def wipe(self, name: str) -> None:
        """Remove what a node that does not run has stored."""
        shutil.rmtree(self.data(name))

    def cpu_s(self, name: str) -> float:
        """Seconds of processor time that a node has used."""
        fields = Path(f"/proc/{self._processes[name].pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def status(self, name: str) -> NodeStatus | None:
        """What a node says of itself, None where it does not answer."""
        try:
            return self.admin.status(name)
        except UnavailableError:
            return None

    def await_leader(self, *, other_than: str = "") -> str:
        """The node that leads, waited for."""
        wait_until(lambda: self.admin.leader() not in (None, other_than), "a leader")
        return self.admin.leader() or self.await_leader(other_than=other_than)

    def followers(self) -> list[str]:
        """The nodes that do not lead."""
        leader = self.await_leader()
        return [name for name in self.names if name != leader]

    def heal(self) -> None:
        """Start what does not run, and wait until all nodes hold the same."""
        for name in self.names:
            if name not in self._processes:
                self.start(name)
            self.resume(name)
        wait_until(self._hold_the_same, "all nodes to hold the same")

    def end(self) -> None:
        """Kill all nodes."""
        for name in list(self._processes):
            self.kill(name)

    def _hold_the_same(self) -> bool:
        statuses = [self.status(name) for name in self.names]
        leads = any(status is not None and status.serves for status in statuses)
        indexes = {
            status and (status.term, status.last_index, status.commit_index, status.member) for status in statuses
        }
        return leads and len(indexes) == 1


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port
