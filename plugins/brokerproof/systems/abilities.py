"""The protocols of abilities that only some messaging systems have, and functions that find a system's abilities.

A protocol belongs to one part of a system: to the `System` object itself, or to its provisioning, administration or
observation. The system has the ability if this part has the protocol's methods. The core tests this with
`isinstance`, or with `require` if the scenario was already checked for the ability.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from brokerproof.errors import RunError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import Workload
from brokerproof.machine.finding import Finding
from brokerproof.network import Route
from brokerproof.run.records import ReplicationDrain
from brokerproof.systems.clients import Position
from brokerproof.systems.protocols import Coordinators, SegmentCopies, System

T = TypeVar("T")


@runtime_checkable
class HasImages(Protocol):
    """A system whose nodes can be started from container images."""

    def list_images(self, version: str) -> list[str]:
        """Return the images that a version's nodes need, each as NAME:TAG."""


@runtime_checkable
class FetchesVersions(Protocol):
    """A system whose versions have to be fetched before their first run."""

    def fetch(self, version: str, say: Callable[[str], None]) -> None:
        """Fetch all files that the nodes of a version need. `say` is called with a sentence before a slow fetch.

        Raises InputError for an unknown version, MachineError if a file cannot be fetched.
        """


@runtime_checkable
class ExaminesMachine(Protocol):
    """A system that can check whether this machine meets the system's own requirements."""

    def examine(self, version: str) -> list[Finding]:
        """Return one finding for each requirement of a version: whether this machine meets it. Changes nothing."""


@runtime_checkable
class SeparatesRuns(Protocol):
    """A system whose clusters several runs can use in turn, because each run has topics of its own."""

    def separate(self, scenario: Scenario, topology: Topology, use: int) -> tuple[Scenario, Topology]:
        """Return both with names for the run's topics that no other run of the cluster has.

        `use` is the number of the run on its cluster, from 1.
        """


@runtime_checkable
class ReplicatesClusters(Protocol):
    """A system that can replicate messages from one cluster to another."""

    def list_reached(self, topology: Topology, home: str, topic: str) -> list[str]:
        """Return the clusters that must store every message published to `topic` in cluster `home`; `home` is first."""


@runtime_checkable
class RoutesLinks(Protocol):
    """A provisioning whose nodes and clients can connect through the emulated links between regions."""

    def routes(self) -> list[Route]:
        """Return the routes by which nodes and clients reach other regions. Empty if the topology has no links."""


@runtime_checkable
class LearnsFromNodes(Protocol):
    """A provisioning that can save data of running nodes, so that nodes start faster in later runs."""

    def learn(self, pids: Mapping[str, int]) -> None:
        """Save data of running nodes, for faster starts in later runs. `pids` is {node: process id}."""


@runtime_checkable
class ReassignsTopics(Protocol):
    """An administration that can take a topic from its owner."""

    def reassign(self, cluster: str | None = None) -> None:
        """Take the topic from its owner, so that the cluster chooses an owner again.

        `cluster` defaults to the first cluster that is published to.
        """


@runtime_checkable
class SplitsGroups(Protocol):
    """An administration of a system that gives topics to owners in groups, and that can split such a group."""

    def find_groups(self, cluster: str | None = None) -> list[str]:
        """Return the names of the groups that hold partitions of the topic. Each group has one owner."""

    def split(self, cluster: str | None = None) -> None:
        """Split each group that holds a partition of the topic, and take the parts from their owner.

        `cluster` defaults to the first cluster that is published to.
        """


@runtime_checkable
class GrowsTopics(Protocol):
    """An administration that can give the topic more partitions under load."""

    def grow(self) -> None:
        """Give the topic the partitions of the workload's `grows_to`, in each cluster that is published to."""

    def has_grown(self) -> bool:
        """Return whether the topic has all these partitions, each with the subscriptions of the first one.

        Raises AdminError if one of them is not served.
        """


@runtime_checkable
class RemovesTopics(Protocol):
    """An administration that can remove what earlier runs stored, so that a kept cluster has no more to repair."""

    def remove_other_topics(self) -> None:
        """Delete all topics that are not of this run. Raises AdminError or DeadlineError if a topic stays."""


@runtime_checkable
class ReadsFromDisk(Protocol):
    """An administration that can empty the cache from which a cluster serves reads."""

    def unload(self, cluster: str) -> None:
        """Make the next reader of the topic in a cluster read from disks and not from a cache."""


# The methods of the observations below raise the errors of `Observation`'s methods and share its default of `cluster`.


@runtime_checkable
class LocatesCopies(Protocol):
    """An observation that knows which nodes hold the copies of a topic's log."""

    def find_holders(self, cluster: str | None = None) -> list[str]:
        """Return the nodes that store the newest messages of the topic."""

    def find_copies(self, without: Collection[str] = ()) -> list[SegmentCopies]:
        """Return the nodes that hold each segment of the topic's logs, in every cluster except those in `without`."""

    def find_parts(self, cluster: str, partition: int) -> list[tuple[Position, Position]]:
        """Return the parts of a partition's log in order, each as (first position, position after its last entry).

        All entries of one part have their copies on the same nodes.
        """


@runtime_checkable
class CountsMissingCopies(Protocol):
    """An observation that knows how many segments lack a copy."""

    def count_under_replicated(self) -> int:
        """Return how many segments lack a copy, in all clusters."""


@runtime_checkable
class FindsCoordinators(Protocol):
    """An observation that can find the leader of a cluster's coordinating nodes."""

    def find_coordinators(self, cluster: str | None = None) -> Coordinators:
        """Return the leader of a cluster's coordinating nodes, and the followers of this leader.

        Raises AdminError unless exactly one node answers that it leads.
        """


@runtime_checkable
class ConfirmsAcks(Protocol):
    """An observation that knows up to which position a subscription has acknowledged."""

    def find_acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
        """Return {partition: position}: the cluster has confirmed the acks of all messages before the position.

        A partition is left out if it does not have the subscription in this cluster.
        """


@runtime_checkable
class ObservesReplication(Protocol):
    """An observation that knows whether messages still have to be sent to another cluster."""

    def find_replication_drains(self) -> list[ReplicationDrain]:
        """Return, for each pair (sender, receiver) of the topic's clusters, whether no message is left to send.

        If the sender does not answer, the replication counts as not drained.
        """


@runtime_checkable
class NumberedProducer(Protocol):
    """A producer of a system with deduplication, which stores the number of each producer's last message."""

    def find_last_seq(self) -> int:
        """Return the seq of the last message of this producer's name that the system had stored; -1 if it has none."""


@runtime_checkable
class NegativelyAcknowledges(Protocol):
    """A consumer of a system that delivers a message again which was answered negatively."""

    def refuse(self, message: Any) -> None:
        """Answer a message negatively without waiting, so that its subscription gets it again later."""


# {ability: the protocol that shows it}. A system declares all other abilities.
PROTOCOLS: Mapping[Ability, type] = {
    Ability.IMAGES: HasImages,
    Ability.REPLICATION: ReplicatesClusters,
    Ability.LINKS: RoutesLinks,
    Ability.REASSIGNMENT: ReassignsTopics,
    Ability.SPLITS: SplitsGroups,
    Ability.GROWTH: GrowsTopics,
    Ability.COPIES: LocatesCopies,
    Ability.UNDER_REPLICATION: CountsMissingCopies,
    Ability.COORDINATORS: FindsCoordinators,
    Ability.CONFIRMED_ACKS: ConfirmsAcks,
}


def find_abilities(system: System) -> frozenset[Ability]:
    """Return the abilities of a system.

    The system has an ability in `PROTOCOLS` if it implements the ability's protocol itself, or if its provisioning,
    administration or observation does. It has any other ability if it declares the ability. Every system can store
    messages.
    """
    parts = (type(system), system.provisioning, system.administration, system.observation)
    found = {ability for ability, protocol in PROTOCOLS.items() if any(issubclass(part, protocol) for part in parts)}
    return frozenset({Ability.STORAGE} | found | (system.declared_abilities - PROTOCOLS.keys()))


def find_workload_abilities(system: System, workload: Workload) -> frozenset[Ability]:
    """Return the abilities of a system that a workload can use. A topic that stores no messages lacks some of them."""
    return frozenset(each for each in find_abilities(system) if workload.is_stored or not each.needs_storage)


def explain_lack(system: System, workload: Workload, ability: Ability) -> str:
    """Return why a workload cannot use an ability on a system; empty if it can."""
    if ability in find_workload_abilities(system, workload):
        return ""
    has_it = ability in find_abilities(system)
    return "the topic stores no messages" if has_it else f"{system.name} cannot {ability.meaning}"


def require(part: object, protocol: type[T]) -> T:
    """Return `part`, a part of a system, typed as `protocol`.

    Raises RunError if the part does not implement the protocol.
    """
    if not isinstance(part, protocol):
        raise RunError(
            f"{type(part).__name__} does not implement {protocol.__name__}, which this run needs; "
            "use a scenario without it, or a system that implements it"
        )
    return part
