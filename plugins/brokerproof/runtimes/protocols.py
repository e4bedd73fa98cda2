"""What a runtime must be able to do with a node, and what it may be able to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from brokerproof.experiment.topology import Topology
from brokerproof.network import Network, Plan
from brokerproof.runtimes.restarts import RestartEvent


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """Everything that a runtime needs to start a node; made by a system."""

    name: str
    role: str
    region: str
    address: str
    # What holds its programs, where the runtime runs images; elsewhere it is not looked at.
    image: str = ""
    # Program and arguments; `{node}` stands for the node's directory.
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    # Content of files, by path below the node's directory; `{node}` as above, `{host}` stands for the name of the
    # machine as the node sees it.
    files: Mapping[str, str] = field(default_factory=dict)
    # The program that makes empty data directories usable, if it takes one; it runs before the node's own program.
    format: tuple[str, ...] | None = None
    # The program that makes the cluster accept the node back after its disks were wiped, if it takes one.
    reset: tuple[str, ...] | None = None
    # Directories below the node's that hold what it stores: `wipe` empties them, `forget` removes them.
    data: tuple[str, ...] = ("data",)
    ports: tuple[int, ...] = ()
    # Ports that `host_ports` of this machine lead to, by the latter: {port of the machine: port of the node}.
    published: Mapping[int, int] = field(default_factory=dict)
    # A program that ends well where the node serves, for runtimes that ask by themselves, and the most memory that it
    # needs; the process runtime looks at neither.
    health: tuple[str, ...] = ()
    memory_mb: int | None = None
    # Where it answers with its metrics in Prometheus' format: port and path; None where it does not.
    metrics: tuple[int, str] | None = None
    start_timeout_s: float = 90.0


@dataclass(frozen=True, kw_only=True)
class Program:
    """Something that has to run once, beside the nodes, and to end well."""

    # What it does, to complete the sentence "… failed".
    purpose: str
    image: str = ""
    # Program and arguments; `{node}` stands for a directory of its own.
    command: tuple[str, ...]
    # Content of files, by path below that directory; `{node}` as above.
    files: Mapping[str, str]
    timeout_s: float = 120.0


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where the nodes of a run are found."""

    # By node.
    nodes: Mapping[str, str]
    # The address at which each node or place sees each node of another region: {viewer: {node: address}}. Empty for a
    # topology without links, in which everybody sees a node at its own address.
    views: Mapping[str, Mapping[str, str]]
    # By node, ports of this machine's loopback that are its own, where nodes are not on this machine's own addresses.
    host_ports: Mapping[str, Sequence[int]] = field(default_factory=dict)


@runtime_checkable
class Runtime(Protocol):
    """A place where nodes live."""

    def __init__(self, nodes: Path) -> None:
        """`nodes` is the directory of a run's nodes."""

    @staticmethod
    def assign_addresses(topology: Topology, slot: int) -> Addresses:
        """The addresses of a run that holds this slot. Raises MachineError where the topology needs more than fit."""

    def prepare(self, spec: NodeSpec) -> None:
        """Write the node's files. Raises MachineError where an address or port is taken or the disk is full."""

    def start(self, spec: NodeSpec) -> None:
        """Start the node without waiting for its health; a node without data runs its `format` program first.

        Raises NodeError where the node runs already or that program fails.
        """

    def stop(self, name: str, *, grace_s: float) -> None:
        """Ask the node to end, and end it by force after `grace_s` seconds. Returns when it is gone."""

    def kill(self, name: str) -> None:
        """End the node at once. Returns when it is gone."""

    def wipe(self, spec: NodeSpec) -> None:
        """Empty the data directories of a node that does not run. Raises NodeError where it runs."""

    def reset(self, spec: NodeSpec) -> None:
        """Run the spec's `reset` program, if it has one. Raises NodeError where that fails."""

    def execute(self, program: Program) -> None:
        """Run a program beside the nodes and wait for its end. Raises NodeError where it fails or takes too long."""

    def is_alive(self, name: str) -> bool:
        """Whether the node's process runs."""

    def evidence_of_death(self, spec: NodeSpec) -> str | None:
        """What shows that the node is dead and nothing answers in its place, None where it does not show."""

    def log_tail(self, name: str, lines: int = 15) -> str:
        """The last lines of the node's log."""

    def release(self) -> list[str]:
        """End every node of the run; the names of those that still ran."""

    def forget(self) -> None:
        """Remove what the nodes of the run that do not run stored; their logs and configuration stay."""


@runtime_checkable
class RunsProcesses(Protocol):
    """A runtime whose nodes are processes of this machine."""

    def pids(self) -> dict[str, int]:
        """Pids of the nodes that run, by name."""


@runtime_checkable
class RunsImages(Protocol):
    """A runtime whose nodes are started from images, which hold their programs."""

    def read_image_file(self, image: str, path: str) -> str:
        """The content of a text file in an image. Raises MachineError where there is no such image or file."""


@runtime_checkable
class PausesNodes(Protocol):
    """A runtime that can freeze a node."""

    def pause(self, name: str) -> None:
        """Freeze the node; it keeps its connections and answers nothing."""

    def resume(self, name: str) -> None:
        """Let a frozen node go on; one that was killed meanwhile stays dead."""

    def is_paused(self, name: str) -> bool:
        """Whether the node is frozen."""


@runtime_checkable
class EmulatesLinks(Protocol):
    """A runtime that can put links with delay, bandwidth and state between the regions of a run."""

    def start_links(self, plan: Plan) -> Network:
        """Start the network. Raises MachineError where an address is taken, NodeError where it does not start."""

    def network(self) -> Network:
        """The network that was started. Raises RunError where none was."""


@runtime_checkable
class SupervisesNodes(Protocol):
    """A runtime with a service manager, which starts nodes again that ended by themselves.

    It leaves a node alone that `stop` or `kill` took down, until `start` starts it, and one that was never started.
    """

    def supervise(self, specs: Iterable[NodeSpec], after_s: Mapping[str, float]) -> None:
        """Start each of these nodes again so many seconds after it ended by itself, as often as it does.

        Whoever does it outlives its caller. Raises NodeError where it does not start, or somebody does it already.
        """

    def check_supervision(self) -> None:
        """Raises NodeError where nobody is there who would start a node again."""

    def end_supervision(self) -> None:
        """Start no node again from now on. Nothing happens where nobody ever did."""

    def list_restart_events(self) -> list[RestartEvent]:
        """Every end and every start that the service manager saw and did, in the order of time."""


@runtime_checkable
class SeesOthersActs(Protocol):
    """A runtime in which others can end a node, and which can tell that from an end of the node's own."""

    def check_nobody_interfered(self) -> None:
        """Raises NodeError where somebody outside the run ended a node that was to run: nothing of it is its own."""


@runtime_checkable
class LivesElsewhere(Protocol):
    """A runtime whose nodes are no processes that this machine's user can find."""

    @staticmethod
    def require(topology: Topology) -> None:
        """Raises MachineError where nodes of this topology could not live there now."""

    @staticmethod
    def remove_left(below: Path | None) -> list[str]:
        """End and remove what is left of all runs that had one of these slots, or of those with a directory below.

        Returns the names of the nodes that still ran. Raises MachineError where whoever holds it does not answer; there
        may be nobody.
        """


# What each ability is, to complete the sentence "the runtime cannot …".
MEANINGS: Mapping[type, str] = {
    PausesNodes: "freeze nodes",
    EmulatesLinks: "put links between regions",
    SupervisesNodes: "start nodes again that ended by themselves",
}
