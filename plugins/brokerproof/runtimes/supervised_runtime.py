"""The common part of runtimes with a service manager, which restarts nodes that ended by themselves.

A node's file `wanted` exists from the node's start until `stop` or `kill`. If a node has this file and does not run, it
has ended by itself. A process or thread holds the lock of a node's directory while it starts or ends the node. So a
fault and the service manager never race.
"""

from __future__ import annotations

import fcntl
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from brokerproof.errors import NodeError
from brokerproof.machine.files import write_whole
from brokerproof.runtimes.protocols import NodeSpec
from brokerproof.runtimes.restarts import RestartEvent
from brokerproof.runtimes.supervision import SupervisedNode, Supervision

_ERROR = re.compile(r" (ERROR|FATAL) |^Caused by: |^\S*(Exception|Error)\b")


class SupervisedRuntime(ABC):
    """The nodes of one run, which a supervisor can restart."""

    # Seconds between two looks of the supervisor at every node.
    look_every_s: ClassVar[float] = 0.1

    def __init__(self, nodes: Path) -> None:
        self.nodes = nodes.absolute()

    @abstractmethod
    def is_alive(self, name: str) -> bool:
        """Return whether the node runs."""

    @abstractmethod
    def _start(self, spec: NodeSpec) -> None:
        """Start a node that does not run. The caller holds the node's lock."""

    def start(self, spec: NodeSpec) -> None:
        with self._lock(spec.name):
            self._start_unless_alive(spec)

    def supervise(self, specs: Iterable[NodeSpec], after_s: Mapping[str, float]) -> None:
        supervised = (SupervisedNode(spec=spec, after_s=after_s[spec.name]) for spec in specs)
        Supervision(self.nodes).begin(supervised, f"{type(self).__module__}:{type(self).__qualname__}")

    def check_supervision(self) -> None:
        Supervision(self.nodes).check()

    def end_supervision(self) -> None:
        Supervision(self.nodes).end()

    def list_restart_events(self) -> list[RestartEvent]:
        return Supervision(self.nodes).events.read()

    def has_ended_by_itself(self, name: str) -> bool | None:
        with self._lock(name, wait=False) as locked:
            return self._has_ended_by_itself(name) if locked else None

    def start_again(self, spec: NodeSpec) -> bool:
        """Start the node if it ended by itself and no other caller holds the node's lock.

        Returns whether the node was started.
        """
        with self._lock(spec.name, wait=False) as locked:
            if not locked or not self._has_ended_by_itself(spec.name):
                return False
            self._start_unless_alive(spec)
            return True

    def _start_unless_alive(self, spec: NodeSpec) -> None:
        if self.is_alive(spec.name):
            raise NodeError(f"node {spec.name} runs already")
        self._start(spec)
        write_whole(self._wanted(spec.name), "")

    def _has_ended_by_itself(self, name: str) -> bool:
        return self._wanted(name).exists() and not self.is_alive(name)

    def _want_no_more(self, name: str) -> None:
        self._wanted(name).unlink(missing_ok=True)

    def _wanted(self, name: str) -> Path:
        return self.nodes / name / "wanted"

    @contextmanager
    def _lock(self, name: str, *, wait: bool = True) -> Iterator[bool]:
        """Hold the node's lock in the block and yield True. Without `wait`, yield False if another caller holds it."""
        directory = os.open(self.nodes / name, os.O_RDONLY)
        try:
            yield _lock_file(directory, wait=wait)
        finally:
            os.close(directory)


def _lock_file(descriptor: int, *, wait: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def pick_last_lines(text: str, lines: int) -> str:
    """Return the last `lines` lines of a log, and above them the last of the earlier lines that contain errors.

    The earlier lines are at most about a third of `lines`. They show an error even if the program then printed a page
    about its usage.
    """
    all_lines = text.splitlines()
    errors = [line for line in all_lines[:-lines] if _ERROR.search(line)]
    return "\n".join([*errors[-lines // 3 :], *all_lines[-lines:]])
