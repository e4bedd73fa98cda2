"""What Brokerproof asks of a messaging system: the seam between the core and each system.

A `System` is one object in the registry that knows no run. For a run it makes four parts, and whoever needs one of
them takes it alone: what provisions its nodes, what administers its clusters, what observes them, and its clients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.run_warning import RunWarning
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import Workload
from brokerproof.experiment.yaml_models import FrozenModel
from brokerproof.machine.finding import Finding
from brokerproof.network import Route
from brokerproof.run.directory import Run
from brokerproof.run.observations import Sample
from brokerproof.run.records import ReplicationDrain, SubscriptionDrain
from brokerproof.runtimes.protocols import NodeSpec, Program
from brokerproof.systems.clients import Clients, Position


@dataclass(frozen=True, kw_only=True)
class RoleTraits:
    """What a node of a role does, in words that every system shares."""

    # Clients and other servers connect to it; it can own a topic.
    serves: bool = False
    # It holds copies of what is published.
    stores: bool = False
    # It knows which nodes there are and what they own.
    coordinates: bool = False
    # It can be started later than the others, because it holds nothing that they wrote meanwhile.
    may_stand_by: bool = False
    # Heap of a node in MiB where a topology does not say, None for a role without a heap of a set size.
    heap_mb: int | None = None


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """What has to be done once for a version of a system, before the first run: see warm_up.py."""

    # Brings the version to this machine.
    fetch: Callable[[], object]
    # Whether a run of `topology` would teach nothing more.
    done: Callable[[], bool]
    # The smallest topology with every role, and a workload for it, as their files would hold them.
    topology: Mapping[str, Any]
    workload: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Failover:
    """How long acks stay away after nodes fell silent, where nothing but the system's time-outs decides it."""

    # Seconds from the failure: no other node takes over earlier, and later clients have tried again.
    soonest_s: float
    latest_s: float
    # What has to end first, and how clients try again; it completes the sentence "acks can stay away so long: …".
    why: str


@dataclass(frozen=True, kw_only=True)
class Coordinators:
    """The nodes that coordinate a cluster and serve now: the one that leads them, and those that follow it."""

    leader: str
    followers: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class SegmentCopies:
    """Where the copies of one segment of a topic's log are: a row of the table `ledgers`."""

    cluster: str
    partition: int
    # The segment, and the offset at which these copies begin.
    segment: int
    first_offset: int
    # The system's own word for whether it is still written to.
    state: str
    # The nodes that have to hold it, and those of them that hold all of it.
    holders: Sequence[str]
    in_sync: Sequence[str]
    # The regions that it has to span, because they had a node that could take a copy.
    regions_required: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class TopicLog:
    """One log that has to be read back."""

    cluster: str
    partition: int
    # The position behind the last message, None for an empty log.
    end: Position | None = None
    # Why it cannot be read, None where it can.
    why: str | None = None


class Provisioning(Protocol):
    """The nodes of a run's clusters: how each is started, and whether it is healthy."""

    def specs(self) -> Mapping[str, NodeSpec]:
        """Every node of the topology, by name."""

    def routes(self) -> list[Route]:
        """Every way from one region to another that the system's nodes and clients take; none without links."""

    def start_order(self) -> list[list[str]]:
        """Nodes in groups: each group starts, in parallel, when the one before is ready."""

    def initialize(self, execute: Callable[[Program], None]) -> None:
        """Do what has to be done once between the first group's start and the second's.

        `execute` runs a program and raises NodeError where it fails. Raises NodeError.
        """

    def is_healthy(self, spec: NodeSpec) -> bool:
        """Whether the node itself says that it is healthy."""

    def is_ready(self, spec: NodeSpec) -> bool:
        """Whether the node serves. A start waits for this as long as the cluster is not configured."""

    def describe_health(self, spec: NodeSpec) -> str:
        """How the node is asked for its health, for errors and evidence, such as a URL."""

    def learn(self, pids: Mapping[str, int]) -> None:
        """Keep what makes the next start of such nodes faster, from nodes that run (name: pid)."""


class Administration(Protocol):
    """What is changed about a run's clusters while they run."""

    def configure(self) -> list[str]:
        """Set everything that the topology asks for. Returns the nodes that have to restart for it.

        Raises AdminError where the cluster refuses something.
        """

    def check_configuration(self) -> None:
        """Read everything back that `configure` set. Raises AdminError naming what did not take."""

    def reassign(self, cluster: str | None = None) -> None:
        """Take the topic of a cluster, the home one by default, from its owner, so that one is chosen anew.

        Needs `Ability.REASSIGNMENT`.
        """

    def unload(self, cluster: str) -> None:
        """Make sure that the next reader of the topic in a cluster is served from disks and not from a cache."""


class Observation(Protocol):
    """What a run's clusters say about themselves.

    A method raises AdminError, and nothing else, where nobody answers or where the answer is not as expected: a node
    that is broken may answer anything.
    """

    def find_owner(self, cluster: str | None = None) -> str | None:
        """The node that owns the topic now (the first partition of a partitioned one), in a cluster or in the first
        that is published to. None if no node owns it. Raises AdminError if no node answers who does."""

    def find_holders(self, cluster: str | None = None) -> list[str]:
        """The nodes that the newest messages of the topic are stored on, in a cluster or in the first that is
        published to. Needs `Ability.COPIES`."""

    def find_coordinators(self, cluster: str | None = None) -> Coordinators:
        """Which of the nodes that coordinate a cluster, or the first one that is published to, leads the others.

        Raises AdminError where not exactly one leads. Needs `Ability.COORDINATORS`.
        """

    def list_alive(self) -> dict[str, list[str]]:
        """Nodes that the clusters themselves list as alive, by role; roles that serve or store, all of them."""

    def samplers(self) -> Mapping[str, Callable[[], list[Sample]]]:
        """Functions that each take one observation. They run side by side, so that none waits for another.

        A function raises AdminError like a method, and its error is recorded.
        """

    def count_under_replicated(self) -> int:
        """Segments waiting for another copy, in all clusters. Needs `Ability.UNDER_REPLICATION`."""

    def find_copies(self, without: Collection[str] = ()) -> list[SegmentCopies]:
        """Where every segment of the topic is now, in every cluster but those `without`. Needs `Ability.COPIES`."""

    def find_parts(self, cluster: str, partition: int) -> list[tuple[Position, Position]]:
        """The parts of a log in order, each from its first position to the one behind its last.

        All entries of a part have their copies on the same nodes. Needs `Ability.COPIES`.
        """

    def count_published(self) -> int:
        """The number of messages that the topic's owners took in from producers, in all clusters published to.

        It is a counter that starts again with each owner.
        """

    def find_subscription_drains(self) -> list[SubscriptionDrain]:
        """For each partition and subscription, whether it has got everything.

        A subscription that moves counts on the cluster that it moves to. Where a cluster does not answer, its
        subscriptions have not drained, and `why` says so.
        """

    def find_replication_drains(self) -> list[ReplicationDrain]:
        """For each way that the topic is replicated, whether everything has arrived; nothing without such a way.

        Where nobody answers, it has not arrived.
        """

    def find_acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
        """For each partition, the position before which the cluster knows everything to be acknowledged.

        Needs `Ability.CONFIRMED_ACKS`.
        """

    def find_logs(self) -> list[TopicLog]:
        """The logs that have to be read back: of every partition, in every cluster that messages had to reach."""


class System(Protocol):
    """One messaging system. It knows no run; the registry has one object of it."""

    @property
    def name(self) -> str:
        """What a topology calls it, in `system`."""

    @property
    def roles(self) -> Mapping[str, RoleTraits]:
        """What a node can be, by the name that a topology uses, in the order in which nodes start."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What it can do beyond what every system can."""

    @property
    def policies(self) -> type[FrozenModel]:
        """The model of what stands beside the nodes of a cluster in a topology's file."""

    @property
    def packages(self) -> Sequence[str]:
        """The Python packages of its clients, whose versions every run records."""

    @property
    def default_version(self) -> str:
        """The version of a scenario that names none."""

    def versions(self) -> Sequence[str]:
        """The versions that can be run."""

    def validate(self, topology: Topology) -> Topology:
        """The topology with the defaults of its policies filled in; its roles are known to be right.

        Raises InputError, its field inside the topology, where no cluster of the system can be like that.
        """

    def check(self, scenario: Scenario, topology: Topology) -> None:
        """Raises InputError, its field inside the scenario, where the scenario asks for what cannot be done there."""

    def list_warnings(self, scenario: Scenario, topology: Topology) -> list[RunWarning]:
        """What will happen in a run for a reason that only the system knows, though the scenario can be run."""

    def estimate_failover(
        self, scenario: Scenario, topology: Topology, nodes: Collection[str], *, not_before_s: float = 0
    ) -> Failover | None:
        """How long acks can stay away after `nodes` fell silent, all at once.

        Nobody can take over before `not_before_s`. None where no time-out has to end before acks come again.
        """

    def topic(self, workload: Workload) -> str:
        """The full name of the workload's topic."""

    def list_reached(self, topology: Topology, home: str, topic: str) -> list[str]:
        """The clusters whose logs have to hold what is published to a topic in `home`, `home` first."""

    def warm_up(self, version: str) -> WarmUp | None:
        """What makes the first run of a version as fast as the next. Raises InputError for an unknown version."""

    def examine(self, version: str) -> list[Finding]:
        """What this machine has and lacks for a version; changes nothing."""

    def list_images(self, version: str) -> list[str]:
        """The images that nodes of a version are started from, by name and tag; none without `Ability.IMAGES`."""

    def provisioning(self, run: Run) -> Provisioning:
        """What starts the run's nodes."""

    def administration(self, run: Run) -> Administration:
        """What changes the run's clusters."""

    def observation(self, run: Run, *, patience_s: float = 10.0) -> Observation:
        """What asks the run's clusters; it waits `patience_s` seconds for a node before it asks the next one."""

    def clients(self, run: Run, cluster: str, region: str | None = None) -> Clients:
        """Connections to a cluster of the run, from a region or, without one, from beside the cluster."""
