"""The `process` runtime: nodes are processes of this machine, each on a loopback address of its own.

A node's directory is `nodes/<name>/` of the run: its files, `data/`, `log/node.log` and `pid.json` (pid, start time).
Processes are found again by the pid file and by a mark in their environment, so that one that was started and not yet
written down when its starter was killed is not forgotten.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from brokerproof.clock import wait_until
from brokerproof.errors import DeadlineError, MachineError, NodeError
from brokerproof.machine.process_identity import living
from brokerproof.runtimes.protocols import NodeSpec

# In the environment of every process that belongs to a run: `<run directory>|<name>`.
MARK = "BROKERPROOF_NODE"
_RESET_TIMEOUT_S = 60.0
_ERROR = re.compile(r" (ERROR|FATAL) |^Caused by: |^\S*(Exception|Error)\b")


log = logging.getLogger(__name__)


class ProcessRuntime:
    """Nodes of one run as processes in sessions of their own, which outlive whoever started them."""

    def __init__(self, nodes: Path) -> None:
        self.nodes = nodes.absolute()
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def directory(self, name: str) -> Path:
        """The node's directory."""
        return self.nodes / name

    def prepare(self, spec: NodeSpec) -> None:
        """Write the node's files and check that its ports are free; `tmp` is for what a node unpacks and forgets."""
        directory = self.directory(spec.name)
        try:
            for folder in ("log", "tmp", *spec.data):
                (directory / folder).mkdir(parents=True, exist_ok=True)
            for name, content in spec.files.items():
                path = directory / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content.replace("{node}", str(directory)), encoding="utf-8")
        except OSError as error:
            raise MachineError(
                f"node {spec.name} cannot be written to {directory}: {error.strerror}; free the disk"
            ) from error
        for port in spec.ports:
            _check_free(spec.name, spec.address, port)

    def start(self, spec: NodeSpec) -> None:
        """Start the process; its output goes to log/node.log."""
        if self.alive(spec.name):
            raise NodeError(f"node {spec.name} runs already")
        directory = self.directory(spec.name)
        environment = {
            # Nothing of the starter's own settings reaches a node.
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            **spec.environment,
            MARK: f"{self.nodes}|{spec.name}",
        }
        command = [part.replace("{node}", str(directory)) for part in spec.command]
        with (directory / "log" / "node.log").open("ab") as log:
            child = subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[spec.name] = child
        state = {"pid": child.pid, "created": psutil.Process(child.pid).create_time(), "address": spec.address}
        temporary = directory / "pid.json.tmp"
        temporary.write_text(json.dumps(state), encoding="utf-8")
        temporary.replace(directory / "pid.json")

    def stop(self, name: str, *, grace_s: float) -> None:
        """SIGTERM, and SIGKILL after `grace_s` seconds."""
        for process in self._processes(name):
            _send(process, signal.SIGCONT)
            _send(process, signal.SIGTERM)
        try:
            wait_until(lambda: not self.alive(name), timeout_s=grace_s, what=f"node {name} to stop")
        except DeadlineError:
            self.kill(name)

    def kill(self, name: str) -> None:
        """SIGKILL."""
        for process in self._processes(name):
            _send(process, signal.SIGKILL)
        wait_until(
            lambda: not self.alive(name), timeout_s=10, what=f"node {name} to be gone after SIGKILL", every_s=0.01
        )

    def pause(self, name: str) -> None:
        """SIGSTOP."""
        for process in self._processes(name):
            _send(process, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """SIGCONT."""
        for process in self._processes(name):
            _send(process, signal.SIGCONT)

    def paused(self, name: str) -> bool:
        """Whether the kernel has every thread of the process as stopped; the first one stops before the others."""
        return any(_all_stopped(process.pid) for process in self._processes(name))

    def wipe(self, name: str) -> None:
        """Remove data/ and make it anew, empty."""
        if self.alive(name):
            raise NodeError(f"node {name} still runs; its data is not wiped under it")
        data = self.directory(name) / "data"
        shutil.rmtree(data, ignore_errors=False)
        data.mkdir()

    def reset(self, spec: NodeSpec) -> None:
        """Run the node's `reset` program in its directory."""
        if spec.reset is None:
            return
        directory = self.directory(spec.name)
        result = subprocess.run(
            [part.replace("{node}", str(directory)) for part in spec.reset],
            cwd=directory,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_RESET_TIMEOUT_S,
            check=False,
        )
        if result.returncode != 0:
            tail = "\n".join((result.stdout + result.stderr).splitlines()[-10:])
            raise NodeError(f"node {spec.name} could not be reset after its disks were wiped:\n{tail}")

    def alive(self, name: str) -> bool:
        """Whether the process of the pid file runs (a zombie does not)."""
        return any(True for _ in self._processes(name))

    def pids(self) -> dict[str, int]:
        """Pids of the nodes that run, by name."""
        names = [file.parent.name for file in self.nodes.glob("*/pid.json")]
        return {name: process.pid for name in names for process in self._processes(name)}

    def log_tail(self, name: str, lines: int = 15) -> str:
        """The last lines of log/node.log, after the last errors that stand before them.

        A node may end with a page of usage, and the reason above it.
        """
        log = self.directory(name) / "log" / "node.log"
        if not log.exists():
            return "(no log)"
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 65_536))
            text = file.read().decode(errors="replace").splitlines()
        errors = [line for line in text[:-lines] if _ERROR.search(line)]
        return "\n".join([*errors[-lines // 3 :], *text[-lines:]])

    def release(self) -> list[str]:
        """End every node of the run by force."""
        return end(process for process in marked_processes() if process_mark(process).startswith(f"{self.nodes}|"))

    def forget(self) -> None:
        """Remove what nodes that have ended stored and unpacked; their logs and configuration stay.

        A run's evidence is in its tables; its ledgers and journals are many times as large, night after night.
        """
        for directory in sorted(self.nodes.glob("*")):
            for folder in ("data", "tmp"):
                if (directory / folder).is_dir() and not self.alive(directory.name):
                    shutil.rmtree(directory / folder, onerror=_not_removed)

    def _processes(self, name: str) -> Iterator[psutil.Process]:
        child = self._children.get(name)
        if child is not None:
            child.poll()  # reaps it, so that it does not stay behind as a zombie
        try:
            state = json.loads((self.directory(name) / "pid.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        if process := living(state["pid"], state["created"]):
            yield process


def _not_removed(_: object, path: str, failure: tuple[object, BaseException, object]) -> None:
    log.warning("%s stays: %s", path, failure[1])


def marked_processes() -> Iterator[psutil.Process]:
    """Every process of this machine that some run started and that this user may look at."""
    for process in psutil.process_iter():
        if process.pid != os.getpid() and process_mark(process):
            yield process


def process_mark(process: psutil.Process) -> str:
    """The mark in a process's environment, empty where it has none."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        return process.environ().get(MARK, "")
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return ""


def end(processes: Iterable[psutil.Process]) -> list[str]:
    """SIGKILL processes and wait until they are gone; their names from the marks."""
    ended = {process: process_mark(process).rpartition("|")[2] for process in processes}
    for process in ended:
        _send(process, signal.SIGKILL)
    _, left = psutil.wait_procs(list(ended), timeout=10)
    still = [process.pid for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    if still:
        raise NodeError(f"processes {still} did not end after SIGKILL")
    return list(ended.values())


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _all_stopped(pid: int) -> bool:
    # The state follows the name, which is in brackets and may hold anything (proc(5)).
    states = [file.read_text().rpartition(")")[2].split()[0] for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    return bool(states) and set(states) == {"T"}


def _check_free(name: str, address: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise MachineError(
                f"node {name} cannot listen on {address}:{port}: {error.strerror}; "
                "end what listens there (`python -m brokerproof down` ends what earlier runs left)"
            ) from error
