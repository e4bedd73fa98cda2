"""The `process` runtime: nodes are processes of this machine, each on a loopback address of its own.

A node's directory, `nodes/<name>/` in the run's directory, holds the node's files, its data directories,
`log/node.log`, and `pid.json`, the record of its process (machine/processes.py). `node.json` lists the data
directories.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from brokerproof.clock import wait_until
from brokerproof.errors import DeadlineError, MachineError, NodeError
from brokerproof.experiment.topology import Topology
from brokerproof.machine.files import write_whole
from brokerproof.machine.processes import (
    MARK,
    Mark,
    end_processes,
    find_marked_processes,
    find_recorded_process,
    is_stopped,
    send_signal,
    start_process,
)
from brokerproof.network import LinkClient, Plan, start_link_process
from brokerproof.runtimes.node_addresses import assign_addresses, assign_views
from brokerproof.runtimes.protocols import Addresses, NodeSpec, Program
from brokerproof.runtimes.supervised_runtime import SupervisedRuntime, pick_last_lines

_PROGRAM_TIMEOUT_S = 60.0
# The directory of programs that belong to no node, and their name in marks.
_PROGRAMS = "initialize"

log = logging.getLogger(__name__)


class ProcessRuntime(SupervisedRuntime):
    """The nodes of one run as processes in sessions of their own, which outlive the process that started them."""

    @staticmethod
    def assign_addresses(topology: Topology, slot: int) -> Addresses:
        return Addresses(nodes=assign_addresses(topology, slot), views=assign_views(topology, slot))

    def directory(self, name: str) -> Path:
        return self.nodes / name

    def prepare(self, spec: NodeSpec) -> None:
        """Write the node's files, make its directories and check that its ports are free."""
        directory = self.directory(spec.name)
        try:
            for folder in ("log", "tmp", *spec.data):
                (directory / folder).mkdir(parents=True, exist_ok=True)
            self._write_files(spec.name, spec.files)
            write_whole(directory / "node.json", json.dumps({"data": spec.data}))
        except OSError as error:
            raise MachineError(
                f"node {spec.name} cannot be written to {directory}: {error.strerror}; free the disk"
            ) from error
        for port in spec.ports:
            _check_free(spec.name, spec.address, port)

    def _start(self, spec: NodeSpec) -> None:
        """Start the node, with its output in log/node.log. If the node has no data, run its `format` program first."""
        directory = self.directory(spec.name)
        if spec.format is not None and not any(any((directory / folder).iterdir()) for folder in spec.data):
            self._run_for(spec, spec.format, "formats its empty data directories")
        start_process(
            self._command(spec.name, spec.command),
            mark=Mark(self.nodes, spec.name),
            record=directory / "pid.json",
            log=directory / "log" / "node.log",
            environment=_environment(spec.environment),
            working_directory=directory,
        )

    def stop(self, name: str, *, grace_s: float) -> None:
        with self._lock(name):
            self._want_no_more(name)
            self._signal(name, signal.SIGCONT, signal.SIGTERM)
        try:
            wait_until(lambda: not self.is_alive(name), timeout_s=grace_s, what=f"node {name} to stop")
        except DeadlineError:
            self.kill(name)

    def kill(self, name: str) -> None:
        with self._lock(name):
            self._want_no_more(name)
            self._signal(name, signal.SIGKILL)
        wait_until(
            lambda: not self.is_alive(name), timeout_s=10, what=f"node {name} to be gone after SIGKILL", every_s=0.01
        )

    def pause(self, name: str) -> None:
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def is_paused(self, name: str) -> bool:
        process = self._find_process(name)
        return process is not None and is_stopped(process.pid)

    def wipe(self, spec: NodeSpec) -> None:
        with self._lock(spec.name):
            if self.is_alive(spec.name):
                raise NodeError(f"node {spec.name} still runs, so its data was not wiped; stop it first")
            for folder in spec.data:
                data = self.directory(spec.name) / folder
                shutil.rmtree(data)
                data.mkdir()

    def reset(self, spec: NodeSpec) -> None:
        if spec.reset is not None:
            self._run_for(spec, spec.reset, "makes the cluster accept it after its disks were wiped")

    def execute(self, program: Program) -> None:
        """Run the program in the directory `initialize`, which is next to the nodes' directories."""
        (self.directory(_PROGRAMS) / "tmp").mkdir(parents=True, exist_ok=True)
        self._write_files(_PROGRAMS, program.files)
        if failure := self._run(_PROGRAMS, program.command, _environment({}), timeout_s=program.timeout_s):
            raise NodeError(f"{program.purpose} failed: {failure}")

    def is_alive(self, name: str) -> bool:
        """Return whether the process that pid.json names runs; a zombie does not run."""
        return self._find_process(name) is not None

    def evidence_of_death(self, spec: NodeSpec) -> str | None:
        """Return a sentence if the process is gone and its first port, if any, refuses connections; else None."""
        if self.is_alive(spec.name):
            return None
        if not spec.ports:
            return "process gone"
        at = f"{spec.address}:{spec.ports[0]}"
        return f"process gone, {at} refuses connections" if _refuses_connections(spec.address, spec.ports[0]) else None

    def start_links(self, plan: Plan) -> LinkClient:
        return start_link_process(self.nodes, plan)

    def network(self) -> LinkClient:
        return LinkClient(self.nodes)

    def pids(self) -> dict[str, int]:
        names = [file.parent.name for file in self.nodes.glob("*/node.json")]
        return {name: process.pid for name in names if (process := self._find_process(name)) is not None}

    def log_tail(self, name: str, lines: int = 15) -> str:
        """Return the last lines of log/node.log, and above them some earlier lines that contain errors."""
        log = self.directory(name) / "log" / "node.log"
        if not log.exists():
            return "(no log)"
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 65_536))
            return pick_last_lines(file.read().decode(errors="replace"), lines)

    def release(self) -> list[str]:
        """End the supervisor, which would restart nodes, and then kill every node."""
        self.end_supervision()
        return end_processes(find_marked_processes(self.nodes))

    def forget(self) -> None:
        """Remove the data and temporary files of nodes that have ended; their logs and configuration stay.

        The run's evidence is in its tables. The nodes' data is many times larger, and each nightly run would add to it.
        """
        for file in sorted(self.nodes.glob("*/node.json")):
            directory = file.parent
            if self.is_alive(directory.name):
                continue
            try:
                self._want_no_more(directory.name)
            except OSError as error:
                log.warning("%s stays: %s", self._wanted(directory.name), error)
            for folder in (*json.loads(file.read_text(encoding="utf-8"))["data"], "tmp"):
                if (directory / folder).is_dir():
                    shutil.rmtree(directory / folder, onerror=_log_not_removed)

    def _write_files(self, name: str, files: Mapping[str, str]) -> None:
        directory = self.directory(name)
        for file, content in files.items():
            path = directory / file
            path.parent.mkdir(parents=True, exist_ok=True)
            text = content.replace("{node}", str(directory)).replace("{host}", socket.gethostname())
            path.write_text(text, encoding="utf-8")

    def _command(self, name: str, command: Sequence[str]) -> list[str]:
        return [part.replace("{node}", str(self.directory(name))) for part in command]

    def _run(self, name: str, command: Sequence[str], environment: Mapping[str, str], *, timeout_s: float) -> str:
        """Run a program in a node's directory, and wait until the program ends.

        Returns why the program failed, or "" after success.
        """
        try:
            result = subprocess.run(
                self._command(name, command),
                cwd=self.directory(name),
                env={**environment, MARK: str(Mark(self.nodes, name))},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it did not end in {timeout_s:.0f} s"
        if result.returncode == 0:
            return ""
        last_lines = "\n".join((result.stdout + result.stderr).splitlines()[-15:])
        return f"it ended with status {result.returncode}; its last lines are\n{last_lines}"

    def _run_for(self, spec: NodeSpec, command: Sequence[str], purpose: str) -> None:
        environment = _environment(spec.environment)
        if failure := self._run(spec.name, command, environment, timeout_s=_PROGRAM_TIMEOUT_S):
            raise NodeError(f"the program of node {spec.name} that {purpose} failed: {failure}")

    def _signal(self, name: str, *signals: signal.Signals) -> None:
        if process := self._find_process(name):
            for number in signals:
                send_signal(process, number)

    def _find_process(self, name: str) -> psutil.Process | None:
        return find_recorded_process(self.directory(name) / "pid.json")


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a node: the given variables, `LANG`, and only `PATH` from this process."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", **variables}


def _log_not_removed(_: object, path: str, failure: tuple[object, BaseException, object]) -> None:
    log.warning("%s stays: %s", path, failure[1])


def _refuses_connections(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=0.5).close()
    except OSError as error:
        return isinstance(error, ConnectionRefusedError)
    return False


def _check_free(name: str, address: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise MachineError(
                f"node {name} cannot listen on {address}:{port}: {error.strerror}; "
                "end what listens there (`brokerproof down` ends what earlier runs left)"
            ) from error
