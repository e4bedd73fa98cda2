"""The protocols of things that only some messaging systems can do, and the abilities that a system has.

A part of a system has an ability if it has the methods of its protocol. So the core asks with `isinstance`, or with
`require` if the scenario was checked for the ability.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol, TypeVar, runtime_checkable

from brokerproof.errors import RunError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.topology import Topology
from brokerproof.machine.finding import Finding
from brokerproof.network import Route
from brokerproof.run.records import ReplicationDrain
from brokerproof.systems.clients import Position
from brokerproof.systems.protocols import Coordinators, SegmentCopies, System

T = TypeVar("T")


@runtime_checkable
class HasImages(Protocol):
    """A system whose nodes can be started from images."""

    def list_images(self, version: str) -> list[str]:
        """Return the images of a version's nodes, by name and tag."""


@runtime_checkable
class FetchesVersions(Protocol):
    """A system whose versions have to be fetched before their first run."""

    def fetch(self, version: str, say: Callable[[str], None]) -> None:
        """Fetch all files that the nodes of a version need. If a fetch is slow, `say` gets a sentence before it.

        Raises InputError for an unknown version, MachineError if a file cannot be fetched.
        """


@runtime_checkable
class ExaminesMachine(Protocol):
    """A system that needs more of this machine than Brokerproof itself does."""

    def examine(self, version: str) -> list[Finding]:
        """Return a finding for each thing that a version needs of this machine. Changes nothing."""


@runtime_checkable
class ReplicatesClusters(Protocol):
    """A system that can replicate messages from one cluster to another."""

    def list_reached(self, topology: Topology, home: str, topic: str) -> list[str]:
        """Return the clusters whose logs must hold the messages published to a topic in `home`, `home` first."""


@runtime_checkable
class RoutesLinks(Protocol):
    """A provisioning whose nodes and clients can use links between regions."""

    def routes(self) -> list[Route]:
        """Return the routes between regions that nodes and clients use. Empty if the topology has no links."""


@runtime_checkable
class LearnsFromNodes(Protocol):
    """A provisioning that makes later starts of nodes faster."""

    def learn(self, pids: Mapping[str, int]) -> None:
        """Keep data of running nodes, {name: pid}, that makes later starts of such nodes faster."""


@runtime_checkable
class ReassignsTopics(Protocol):
    """An administration that can take a topic from its owner."""

    def reassign(self, cluster: str | None = None) -> None:
        """Take the topic from its owner, so that the cluster chooses an owner again.

        `cluster` defaults to the first cluster that is published to.
        """


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
        """Return the copies of every segment of the topic, in every cluster that is not in `without`."""

    def find_parts(self, cluster: str, partition: int) -> list[tuple[Position, Position]]:
        """Return (first position, position behind the last entry) of each part of a log, in order.

        All entries of a part have their copies on the same nodes.
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
        """Return the node that leads the coordinating nodes of a cluster, and its followers.

        Raises AdminError unless exactly one leads.
        """


@runtime_checkable
class ConfirmsAcks(Protocol):
    """An observation that knows up to which position a subscription has acknowledged."""

    def find_acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
        """Return {partition: position}. The cluster knows that every message before the position is acknowledged."""


@runtime_checkable
class ObservesReplication(Protocol):
    """An observation that knows whether messages still have to be sent to another cluster."""

    def find_replication_drains(self) -> list[ReplicationDrain]:
        """Return whether replication has drained, for each (sender, receiver) of the topic.

        If a sender does not answer, its replication counts as not drained.
        """


# {ability: the protocol that shows it}. A system declares all other abilities.
PROTOCOLS: Mapping[Ability, type] = {
    Ability.IMAGES: HasImages,
    Ability.REPLICATION: ReplicatesClusters,
    Ability.LINKS: RoutesLinks,
    Ability.REASSIGNMENT: ReassignsTopics,
    Ability.COPIES: LocatesCopies,
    Ability.UNDER_REPLICATION: CountsMissingCopies,
    Ability.COORDINATORS: FindsCoordinators,
    Ability.CONFIRMED_ACKS: ConfirmsAcks,
}


def find_abilities(system: System) -> frozenset[Ability]:
    """Return the abilities that a system declares, and those whose protocol the system or one of its parts implements.

    A declaration does not count for an ability that has a protocol.
    """
    parts = (type(system), system.provisioning, system.administration, system.observation)
    found = {ability for ability, protocol in PROTOCOLS.items() if any(issubclass(part, protocol) for part in parts)}
    return frozenset(found | (system.declared_abilities - PROTOCOLS.keys()))


def require(part: object, protocol: type[T]) -> T:
    """Return `part`, typed as the protocol. Raises RunError if the part does not implement the protocol."""
    if not isinstance(part, protocol):
        raise RunError(
            f"{type(part).__name__} does not implement {protocol.__name__}, which this run needs; "
            "use a scenario without it, or a system that implements it"
        )
    return part
