"""What runtimes with a service manager have in common: which nodes are wanted, and who may act on a node now.

A node's file `wanted` is there from its start until somebody takes it down. A node that is wanted and does not run
ended by itself. Whoever starts a node or takes it down holds the lock of its directory meanwhile, across processes and
threads, so that a fault and the service manager never race.
"""

from __future__ import annotations

import fcntl
import logging
import os
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

log = logging.getLogger(__name__)


class SupervisedRuntime(ABC):
    """The nodes of one run, which a supervisor starts again."""

    # How often the supervisor looks at every node, in seconds.
    look_every_s: ClassVar[float] = 0.1

    def __init__(self, nodes: Path) -> None:
        """`nodes` is the directory of the run's nodes."""
        self.nodes = nodes.absolute()

    @abstractmethod
    def is_alive(self, name: str) -> bool:
        """Whether the node runs."""

    @abstractmethod
    def _start(self, spec: NodeSpec) -> None:
        """Start the node, which does not run; the caller holds its lock."""

    def start(self, spec: NodeSpec) -> None:
        """Start the node, after its `format` program where it has no data. Raises NodeError where it runs already."""
        with self._lock(spec.name):
            self._start_unless_alive(spec)

    def supervise(self, specs: Iterable[NodeSpec], after_s: Mapping[str, float]) -> None:
        """Start the supervisor of the run."""
        supervised = (SupervisedNode(spec=spec, after_s=after_s[spec.name]) for spec in specs)
        Supervision(self.nodes).begin(supervised, f"{type(self).__module__}:{type(self).__qualname__}")

    def check_supervision(self) -> None:
        """The process of the supervisor runs."""
        Supervision(self.nodes).check()

    def end_supervision(self) -> None:
        """End the supervisor of the run, if it has one."""
        Supervision(self.nodes).end()

    def list_restart_events(self) -> list[RestartEvent]:
        """What the supervisor recorded."""
        return Supervision(self.nodes).list_events()

    def has_ended_by_itself(self, name: str) -> bool | None:
        """Whether the node does not run though nobody took it down; None where somebody starts it or takes it down."""
        with self._lock(name, wait=False) as locked:
            return self._has_ended_by_itself(name) if locked else None

    def start_again(self, spec: NodeSpec) -> bool:
        """Start the node if it has ended by itself; whether that was so, and nobody just acted on the node."""
        with self._lock(spec.name, wait=False) as locked:
            if not locked or not self._has_ended_by_itself(spec.name):
                return False
            self._start_unless_alive(spec)
            return True

    def _start_unless_alive(self, spec: NodeSpec) -> None:
        if self.is_alive(spec.name):
            raise NodeError(f"node {spec.name} runs already")
        self._start(spec)
        self._want(spec.name)

    def _has_ended_by_itself(self, name: str) -> bool:
        return self._wanted(name).exists() and not self.is_alive(name)

    def _want(self, name: str) -> None:
        write_whole(self._wanted(name), "")

    def _want_no_more(self, name: str) -> None:
        self._wanted(name).unlink(missing_ok=True)

    def _wanted(self, name: str) -> Path:
        return self.nodes / name / "wanted"

    @contextmanager
    def _lock(self, name: str, *, wait: bool = True) -> Iterator[bool]:
        """Let nobody else start the node or take it down meanwhile; whether that holds, as always with `wait`."""
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
