"""What a runtime must be able to do with a node, and what it may be able to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from brokerproof.experiment.topology import Role


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """Everything that a runtime needs to start a node; made by a system."""

    name: str
    role: Role
    region: str
    address: str
    # Program and arguments; `{node}` stands for the node's directory.
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    # Content of files, by path below the node's directory; `{node}` as above.
    files: Mapping[str, str] = field(default_factory=dict)
    # The program that makes the cluster accept the node back after its disks were wiped, if it takes one.
    reset: tuple[str, ...] | None = None
    # Directories below the node's that hold what it stores: what `destroy` wipes.
    data: tuple[str, ...] = ("data",)
    ports: tuple[int, ...] = ()
    start_timeout_s: float = 90.0


@runtime_checkable
class Runtime(Protocol):
    """A place where nodes live."""

    def prepare(self, spec: NodeSpec) -> None:
        """Write the node's files. Raises MachineError where an address or port is taken or the disk is full."""

    def start(self, spec: NodeSpec) -> None:
        """Start the node without waiting for its health."""

    def stop(self, name: str, *, grace_s: float) -> None:
        """Ask the node to end, and end it by force after `grace_s` seconds. Returns when it is gone."""

    def kill(self, name: str) -> None:
        """End the node at once. Returns when it is gone."""

    def wipe(self, name: str) -> None:
        """Remove what a stopped node stored."""

    def reset(self, spec: NodeSpec) -> None:
        """Run the spec's `reset` program, if it has one. Raises NodeError where that fails."""

    def alive(self, name: str) -> bool:
        """Whether the node's process runs."""

    def log_tail(self, name: str, lines: int = 15) -> str:
        """The last lines of the node's log."""

    def release(self) -> list[str]:
        """End every node of the run; the names of those that still ran."""


@runtime_checkable
class SupportsPause(Protocol):
    """A runtime that can freeze a node."""

    def pause(self, name: str) -> None:
        """Freeze the node; it keeps its connections and answers nothing."""

    def resume(self, name: str) -> None:
        """Let a frozen node go on; one that was killed meanwhile stays dead."""

    def paused(self, name: str) -> bool:
        """Whether the node is frozen."""
