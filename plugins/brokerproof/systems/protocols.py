"""The protocols that each messaging system implements, so that the rest of Brokerproof (the core) can use it.

A `System` is one object in the registry and holds no state of a run. For each run it makes four independent parts: the
provisioning of its nodes, the administration of its clusters, their observation, and its clients. All members of these
protocols are mandatory. The protocols of abilities that only some systems have are in abilities.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import ClientSettings, Workload
from brokerproof.experiment.yaml_models import FrozenModel
from brokerproof.run.directory import Run
from brokerproof.run.observations import Sample
from brokerproof.run.records import SubscriptionDrain
from brokerproof.runtimes.protocols import NodeSpec, Program
from brokerproof.systems.clients import Clients, Position


@dataclass(frozen=True, kw_only=True)
class RoleTraits:
    """What the nodes of a role do in their cluster, in words that fit every system."""

    # Clients and other servers connect to the node, and it can own a topic.
    serves: bool = False
    # The node holds copies of messages.
    stores: bool = False
    # The node keeps the list of the cluster's nodes and of what each of them owns.
    coordinates: bool = False
    # The node can start later than the others, because it needs no data that they wrote before its start.
    may_stand_by: bool = False
    # Default heap of a node in MiB; None if the role has no heap of a fixed size.
    heap_mb: int | None = None


@dataclass(frozen=True, kw_only=True)
class Coordinators:
    """The coordinating nodes that serve a cluster now: their leader and its followers."""

    leader: str
    followers: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class SegmentCopies:
    """The nodes that hold copies of a segment of a topic's log, or of a part of it. A row of the table `copies`."""

    cluster: str
    partition: int
    # The segment, and the offset at which these copies begin.
    segment: int
    first_offset: int
    # The system's own word for the segment's state, such as open or closed for writing.
    state: str
    # The nodes that must hold a copy.
    holders: Sequence[str]
    # The holders whose copy is complete.
    in_sync: Sequence[str]
    # The regions that must hold a copy, because they had a node that could take one.
    regions_required: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class TopicLog:
    """A log that has to be read back: the log of one partition in one cluster."""

    cluster: str
    partition: int
    # The position after the last message; None if the log is empty or `why` is given.
    end: Position | None = None
    # Why the log cannot be read; None if it can.
    why: str | None = None


class Provisioning(Protocol):
    """The nodes of a run's clusters: how each is started, and whether it is healthy."""

    def __init__(self, run: Run) -> None:
        """Make the provisioning of one run."""

    def specs(self) -> Mapping[str, NodeSpec]:
        """Return {node: what a runtime needs to start the node} for every node of the topology."""

    def start_order(self) -> list[list[str]]:
        """Return groups of nodes. The nodes of a group start in parallel, after the previous group is ready."""

    def initialize(self, execute: Callable[[Program], None]) -> None:
        """Prepare the clusters once, after the first group of nodes is ready and before any other node starts.

        Settings that a node reads only when it starts belong here.

        `execute` runs a program to its end. Raises NodeError if a program fails, or if the clusters cannot be prepared.
        """

    def is_healthy(self, spec: NodeSpec) -> bool:
        """Return whether the node itself answers that it is healthy."""

    def is_ready(self, spec: NodeSpec) -> bool:
        """Return whether the node serves.

        When a run starts its nodes, it waits until they serve, and configures the clusters only then.
        """


class Administration(Protocol):
    """Changes a run's clusters while they run."""

    def __init__(self, run: Run) -> None:
        """Make the administration of one run."""

    def configure(self) -> None:
        """Set everything that the topology asks for.

        Raises AdminError if a cluster refuses a setting.
        """

    def check_configuration(self) -> None:
        """Read from the clusters the settings that `configure` has set.

        Raises AdminError, naming each setting that has another value than the topology asks for.
        """


class Observation(Protocol):
    """Asks a run's clusters about their state.

    Each method raises AdminError if no node answers, or if an answer is not as expected. If a method returns the reason
    for a failure instead, its docstring says so. Without `cluster`, a method asks the first cluster that the workload
    publishes to.
    """

    def __init__(self, run: Run, *, patience_s: float = 10.0) -> None:
        """Make the observation of one run.

        A request waits `patience_s` seconds for a node's answer. Then it goes to the next node.
        """

    def find_owner(self, cluster: str | None = None) -> str | None:
        """Return the node that owns the topic, or its first partition if it has partitions; None if there is no owner.

        Raises AdminError if no node answers.
        """

    def list_alive(self) -> dict[str, list[str]]:
        """Return {role: nodes that the clusters list as alive} for every role that serves or stores."""

    def samplers(self) -> Mapping[str, Callable[[], list[Sample]]]:
        """Return {name: sampler}. A sampler is a function that observes the clusters once and returns the samples.

        Samplers run in parallel, so none delays another. If a sampler gets no answer, it raises AdminError, which the
        caller records.
        """

    def count_published(self) -> int:
        """Return how many messages the topic's owners received from producers, in all clusters published to.

        When a partition gets a new owner, the partition's count may start again from 0.
        """

    def find_subscription_drains(self) -> list[SubscriptionDrain]:
        """Return, for each subscription and partition, whether the subscription has acknowledged every message.

        The subscriptions are those of `workload.known_subscriptions`: the system knows none of streaming queries.
        If a subscription moves to another cluster, only that cluster is asked. If a cluster does not answer, its
        subscriptions count as not drained, and the field `why` has the reason.
        """

    def find_logs(self, cluster: str | None = None) -> list[TopicLog]:
        """Return the logs to read back: each partition's log in every cluster that the messages had to reach.

        With `cluster`, only this cluster is asked.
        If the end of a log cannot be found, the log's field `why` has the reason.
        """


class System(Protocol):
    """One messaging system. The registry has one object for each system. This object holds no state of a run."""

    @property
    def name(self) -> str:
        """The system's name, which a topology gives in its field `system`."""

    @property
    def roles(self) -> Mapping[str, RoleTraits]:
        """{role: traits}, in the order in which nodes start. The keys are the names of roles in a topology's file."""

    @property
    def declared_abilities(self) -> frozenset[Ability]:
        """The abilities that the system has to declare, because they have no protocol in `systems/abilities.py`."""

    @property
    def policies(self) -> type[FrozenModel]:
        """The pydantic model of the fields that a cluster has next to `nodes` in a topology's file."""

    @property
    def client_settings(self) -> type[ClientSettings]:
        """The pydantic model of `workload.client` in a scenario."""

    @property
    def packages(self) -> Sequence[str]:
        """The Python packages of the system's clients. Every run records their versions."""

    @property
    def versions(self) -> Sequence[str]:
        """The versions that can be run, at least one. The first one is the default of a scenario."""

    def validate(self, topology: Topology) -> Topology:
        """Return the topology with the defaults of the clusters' policies (the fields next to `nodes`) filled in.

        The roles of the nodes have been checked before. Raises InputError, with the field's path in the topology, if
        the system cannot run the topology.
        """

    def check(self, scenario: Scenario, topology: Topology) -> None:
        """Check that the system can run the scenario on the topology.

        Raises InputError, with the field's path in the scenario, if it cannot.
        """

    def topic(self, workload: Workload) -> str:
        """Return the full name of the workload's topic."""

    @property
    def provisioning(self) -> type[Provisioning]:
        """The class of a run's provisioning, which describes its nodes and their start."""

    @property
    def administration(self) -> type[Administration]:
        """The class of a run's administration, which changes its clusters."""

    @property
    def observation(self) -> type[Observation]:
        """The class of a run's observation, which asks the run's clusters about their state."""

    def clients(self, run: Run, cluster: str, region: str | None = None) -> Clients:
        """Return clients that connect to a cluster from `region`.

        Without a region, they connect directly and not through an emulated link between regions.
        """
