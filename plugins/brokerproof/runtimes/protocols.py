"""The protocol that every runtime implements, and the protocols of abilities that only some runtimes have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from brokerproof.experiment.topology import Topology
from brokerproof.network import LinkClient, Plan
from brokerproof.runtimes.restarts import RestartEvent


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """Everything that a runtime needs to start a node. The code for the node's messaging system makes it."""

    name: str
    role: str
    region: str
    address: str
    # The image with the node's programs. Runtimes that run no images ignore it.
    image: str = ""
    # Program and arguments; `{node}` is replaced by the node's directory.
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    # {path below the node's directory: content}. `{node}` is replaced as above, `{host}` by the host name that the node
    # sees.
    files: Mapping[str, str] = field(default_factory=dict)
    # The program that makes empty data directories usable, if the node needs one. It runs before the node's own.
    format: tuple[str, ...] | None = None
    # The program that makes the cluster accept the node after its disks were wiped, if the node needs one.
    reset: tuple[str, ...] | None = None
    # The node's data directories, below its own directory. `wipe` empties them, `forget` removes them.
    data: tuple[str, ...] = ("data",)
    ports: tuple[int, ...] = ()
    # {port of this machine, one of the node's `host_ports`: port of the node that it leads to}
    published: Mapping[int, int] = field(default_factory=dict)
    # A program with exit status 0 if the node is healthy, for runtimes that check health themselves. The process
    # runtime ignores it.
    health: tuple[str, ...] = ()
    # The source of the node's health, such as a URL, as errors and evidence name it.
    health_source: str = "its health check"
    # The node's limit of memory in MiB; the process runtime ignores it.
    memory_mb: int | None = None
    # The port and path of the node's metrics in Prometheus' format; None if the node has no metrics.
    metrics: tuple[int, str] | None = None
    # How long a node that is alive may take until it is healthy. One that died is noticed at once, so this only bounds
    # the wait for a node that hangs, and nodes took more than 90 s on two busy processors.
    start_timeout_s: float = 240.0


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that runs once, outside the nodes but able to reach them, and has to succeed."""

    # The program's purpose, as the subject of the sentence "… failed".
    purpose: str
    image: str = ""
    # Program and arguments; `{node}` is replaced by the program's own directory.
    command: tuple[str, ...]
    # {path below that directory: content}; `{node}` is replaced as above.
    files: Mapping[str, str]
    timeout_s: float = 120.0


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """The addresses and ports of a run's nodes."""

    # {node: address}
    nodes: Mapping[str, str]
    # The address at which each node or place sees each node of another region: {viewer: {node: address}}. Empty for a
    # topology without links, because every viewer then uses the node's own address.
    views: Mapping[str, Mapping[str, str]]
    # {node: its ports on this machine's loopback}, for runtimes whose nodes have no address of this machine.
    host_ports: Mapping[str, Sequence[int]] = field(default_factory=dict)


class RunsTargets(Protocol):
    """Ends and starts the targets of a fault: nodes, or clients (faults/client_runtime.py)."""

    def start(self, spec: NodeSpec) -> None:
        """Start the target, and do not wait for its health. If a node has no data, run its `format` program first.

        Raises NodeError if the target runs already or cannot be started.
        """

    def stop(self, name: str, *, grace_s: float) -> None:
        """Ask the target to end, kill it if it still runs after `grace_s` seconds, and wait until it is gone."""

    def kill(self, name: str) -> None:
        """End the target at once, and wait until it is gone."""

    def is_alive(self, name: str) -> bool:
        """Return whether the target's process runs, even if it is frozen."""

    def evidence_of_death(self, spec: NodeSpec) -> str | None:
        """Return evidence that the target is dead, and that no process answers at a node's first port; else None."""


@runtime_checkable
class Runtime(RunsTargets, Protocol):
    """Starts, changes and ends the nodes of one run."""

    def __init__(self, nodes: Path) -> None:
        """`nodes` is the directory of a run's nodes."""

    @staticmethod
    def assign_addresses(topology: Topology, slot: int) -> Addresses:
        """Return the addresses and ports of the run that holds the slot with this number (machine/slots.py).

        Raises MachineError if the topology needs more addresses than the slot has.
        """

    def prepare(self, spec: NodeSpec) -> None:
        """Write the node's files. Raises MachineError if an address or port is taken or the disk is full."""

    def wipe(self, spec: NodeSpec) -> None:
        """Empty the data directories of a node that does not run. Raises NodeError if the node runs."""

    def reset(self, spec: NodeSpec) -> None:
        """Run the `reset` program of the node's spec, if it has one. Raises NodeError if the program fails."""

    def execute(self, program: Program) -> None:
        """Run a program outside the nodes and wait for its end. Raises NodeError if it fails or takes too long."""

    def log_tail(self, name: str, lines: int = 15) -> str:
        """Return the last lines of the node's log."""

    def release(self) -> list[str]:
        """End the nodes and the link process of the run. Returns the names of those that still ran."""

    def forget(self) -> None:
        """Remove the data of those nodes of the run that have ended. Their logs and configuration stay."""


@runtime_checkable
class RunsProcesses(Protocol):
    """A runtime whose nodes are processes of this machine."""

    def pids(self) -> dict[str, int]:
        """Return {node: pid} of the nodes that run."""


@runtime_checkable
class RunsImages(Protocol):
    """A runtime whose nodes are started from container images, which hold the nodes' programs."""

    def read_image_file(self, image: str, path: str) -> str:
        """Return the content of a text file in an image.

        Raises MachineError if the image is missing, NodeError if the file is missing.
        """


@runtime_checkable
class PausesNodes(Protocol):
    """A runtime that can freeze a node."""

    def pause(self, name: str) -> None:
        """Freeze the node. It keeps its connections, but does not answer."""

    def resume(self, name: str) -> None:
        """Let a frozen node go on. A node that was killed meanwhile stays dead."""

    def is_paused(self, name: str) -> bool:
        """Return whether the node is frozen."""


@runtime_checkable
class EmulatesLinks(Protocol):
    """A runtime that can emulate the links between the regions of a run, each with a delay, a bandwidth and a state."""

    def start_links(self, plan: Plan) -> LinkClient:
        """Start the emulated network. Raises MachineError if an address is taken, NodeError if the start fails."""

    def network(self) -> LinkClient:
        """Return the emulated network. Raises RunError if it was not started."""


@runtime_checkable
class SupervisesNodes(Protocol):
    """A runtime with a service manager, which restarts nodes that ended by themselves.

    It does not start a node that the run has not started yet, or has stopped or killed.
    """

    def supervise(self, specs: Iterable[NodeSpec], after_s: Mapping[str, float]) -> None:
        """Start a service manager that restarts these nodes each time they end by themselves.

        `after_s` is {node: seconds from the node's end to its restart}. The service manager outlives the calling
        process. Raises NodeError if the service manager does not start, or was started already.
        """

    def check_supervision(self) -> None:
        """Raises NodeError if the service manager does not run."""

    def end_supervision(self) -> None:
        """End the service manager, so that no node is restarted from now on. Does nothing if there is none."""

    def list_restart_events(self) -> list[RestartEvent]:
        """Return each end of a node that the service manager saw and each restart that it made, in order of time."""


@runtime_checkable
class SeesOthersActs(Protocol):
    """A runtime that can tell whether a node ended by itself, or was ended by the kernel or a person."""

    def check_nobody_interfered(self) -> None:
        """Raises NodeError if a node that should run was ended from outside the run, by the kernel or a person."""


@runtime_checkable
class LivesElsewhere(Protocol):
    """A runtime whose nodes are run by an engine such as Docker's, so they are no processes of this user."""

    @staticmethod
    def require(topology: Topology) -> None:
        """Raises MachineError if this machine lacks what the runtime needs for this topology, such as an engine."""

    @staticmethod
    def remove_left(below: Path | None) -> list[str]:
        """End and remove everything in the engine that belongs to runs of this user.

        If `below` is given, only runs whose directories are below it count. Returns the names of the nodes that still
        ran; empty if this machine has no engine. Raises MachineError if the engine does not answer.
        """


# {protocol of an ability: text that completes the sentence "the runtime cannot …"}
MEANINGS: Mapping[type, str] = {
    PausesNodes: "freeze nodes",
    EmulatesLinks: "put links between regions",
    SupervisesNodes: "start nodes again that ended by themselves",
}
