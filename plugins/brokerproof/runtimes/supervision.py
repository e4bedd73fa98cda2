"""Starts, finds and ends the supervisor, a process that restarts the nodes of a run after they ended by themselves.

The supervisor's files are next to the nodes' directories: its plan (`supervision.json`), the record of its process
(`supervisor.json`), its log, and the list of the nodes' ends and restarts (`restarts.jsonl`). The supervisor restarts
nodes only while the plan exists. So removing the plan stops all restarts, even if the process that removed it dies at
once.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from brokerproof.errors import NodeError
from brokerproof.machine.files import write_whole
from brokerproof.machine.processes import (
    Mark,
    describe_log,
    end_processes,
    find_marked_processes,
    find_recorded_process,
    read_last_lines,
    read_mark,
    start_and_await,
)
from brokerproof.runtimes.protocols import NodeSpec
from brokerproof.runtimes.restarts import RestartRecord

# The name in the supervisor's mark.
_NAME = "supervisor"
# Files next to the nodes' directories, so no node can have one of these names.
_PLAN, _RECORD, _LOG, _EVENTS = "supervision.json", "supervisor.json", "supervisor.log", "restarts.jsonl"


@dataclass(frozen=True, kw_only=True)
class SupervisedNode:
    """A node that the supervisor restarts `after_s` seconds after it ended by itself."""

    spec: NodeSpec
    after_s: float


class Supervision:
    """Starts, checks and ends the supervisor of the nodes below a directory."""

    def __init__(self, nodes: Path) -> None:
        self._nodes, self._plan = nodes, nodes / _PLAN

    def begin(self, supervised: Iterable[SupervisedNode], runtime: str) -> None:
        """Start the supervisor, in a session of its own, and wait until it watches the nodes.

        `runtime` is the class of the nodes' runtime, as MODULE:CLASS. Raises NodeError if the supervisor was started
        already or does not start.
        """
        if self._plan.exists():
            raise NodeError(f"the supervisor of {self._nodes} was started already")
        write_whole(self._plan, json.dumps([asdict(node) for node in supervised], indent=1))
        start_and_await(
            "the supervisor",
            [sys.executable, "-m", "brokerproof.runtimes.supervisor", str(self._nodes), runtime],
            (self._nodes / _EVENTS).exists,
            mark=Mark(self._nodes, _NAME),
            record=self._nodes / _RECORD,
            log=self._nodes / _LOG,
        )

    def end(self) -> None:
        """Stop all restarts from now on, and wait until the supervisor is gone. Does nothing without a supervisor."""
        try:
            self._plan.unlink()
        except FileNotFoundError:
            return
        end_processes(find_supervisors(self._nodes))

    def check(self) -> None:
        """Raises NodeError if the supervisor does not run."""
        if find_recorded_process(self._nodes / _RECORD) is None:
            end = describe_log(read_last_lines(self._nodes / _LOG))
            raise NodeError(f"the supervisor of {self._nodes} does not run; {end}")

    @property
    def is_in_force(self) -> bool:
        """Whether the plan exists, so that nodes may be restarted."""
        return self._plan.exists()

    @property
    def events(self) -> RestartRecord:
        """The record of the ends of nodes that the supervisor saw, and of the restarts that it made."""
        return RestartRecord(self._nodes / _EVENTS)

    def read_plan(self) -> list[SupervisedNode]:
        plan = json.loads(self._plan.read_text(encoding="utf-8"))
        return [SupervisedNode(spec=_parse_spec(node["spec"]), after_s=node["after_s"]) for node in plan]


def find_supervisors(below: Path | None = None) -> Iterator[psutil.Process]:
    """Yield the supervisors that this user may inspect: all on this machine, or those of runs below a directory.

    A caller that also ends the runs' other processes must end the supervisors first, because they would restart nodes.
    """
    marked = [(process, read_mark(process)) for process in find_marked_processes(below)]
    found = {process.pid: process for process, mark in marked if mark is not None and mark.name == _NAME}
    for process in found.values():
        # A child that a supervisor has forked carries the supervisor's mark until it executes the node's program.
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.ppid() not in found:
                yield process


def _parse_spec(content: Mapping[str, Any]) -> NodeSpec:
    # JSON has no tuples, so they were written as lists.
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
    }
    return NodeSpec(**fields)
