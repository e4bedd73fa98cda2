"""What Brokerproof asks of a messaging system's driver: the one seam between the core and each system."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from brokerproof.network.routes import Route
from brokerproof.run.observations import Sample
from brokerproof.runtimes.protocols import NodeSpec
from brokerproof.systems.clients import Position


class Driver(Protocol):
    """All that is particular to one messaging system."""

    def specs(self) -> Mapping[str, NodeSpec]:
        """Every node of the topology, by name."""

    def routes(self) -> list[Route]:
        """Every way from one region to another that the system's nodes and clients take; none without links."""

    def start_order(self) -> list[list[str]]:
        """Nodes in groups: each group starts, in parallel, when the one before is healthy."""

    def initialize(self) -> list[tuple[str, ...]]:
        """The programs that have to run once, one after the other, between the first group and the second."""

    def initialized(self) -> None:
        """What has to be done once after those programs and before the second group. Raises NodeError."""

    def healthy(self, spec: NodeSpec) -> bool:
        """Whether the node itself says that it is healthy."""

    def ready(self, spec: NodeSpec) -> bool:
        """Whether the node serves; what is waited for until the cluster is configured."""

    def learn(self, pids: Mapping[str, int]) -> None:
        """Keep what makes the next start of such nodes faster, from nodes that run (name: pid)."""

    def configure(self) -> list[str]:
        """Set everything that the topology asks for. Returns the nodes that have to restart for it.

        Raises AdminError where the cluster refuses something.
        """

    def check_configuration(self) -> None:
        """Read everything back that `configure` set. Raises AdminError naming what did not take."""

    def owner(self, cluster: str | None = None) -> str | None:
        """The node that owns the topic now (the first partition of a partitioned one), in a cluster or in the first
        that is published to."""

    def holders(self, cluster: str | None = None) -> list[str]:
        """The nodes that the newest entries of the topic go to now, in a cluster or in the first that is published
        to."""

    def alive(self) -> dict[str, list[str]]:
        """Nodes that the cluster itself lists as alive, by role."""

    def samplers(self) -> Mapping[str, Callable[[], list[Sample]]]:
        """Functions that each take one observation; asked side by side, so that none waits for another.

        They raise where nobody answers, which is recorded as such.
        """

    def under_replicated(self) -> int:
        """Ledgers waiting for another copy, in all clusters. Raises AdminError where one does not answer."""

    def ledgers(self, moment: str, without: Collection[str] = ()) -> list[dict[str, Any]]:
        """Rows of the `ledgers` table: where every segment of the topic is now, in every cluster but those `without`.

        Raises AdminError where one of the others does not answer.
        """

    def published(self) -> int:
        """Messages that the topic's owners took in from producers since they own it, in all clusters published to.

        A counter that starts again with each owner.
        """

    def drained(self) -> list[dict[str, Any]]:
        """For each partition and subscription: cluster, topic, partition, subscription, drained, backlog, why.

        A subscription that moves counts where it goes. A cluster that does not answer is not drained, and why says so.
        """

    def replicated(self) -> list[dict[str, Any]]:
        """For each way that the topic is replicated: topic, from, to, drained, backlog, why.

        `drained` where everything that is in the log of `from` is in that of `to`; False where nobody could be asked.
        """

    def acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
        """For each partition, the position up to which the cluster holds everything acknowledged."""

    def logs(self) -> list[dict[str, Any]]:
        """For each log that has to be read back: cluster, partition, last_confirmed ([ledger, entry] or None), why.

        `why` says why the log cannot be read, or nothing.
        """

    def reassign(self, cluster: str | None = None) -> None:
        """Take the topic of a cluster, the home one by default, from its owner, so that one is chosen anew."""

    def unload(self, cluster: str) -> None:
        """Close the topic in a cluster, so that it is read from disks next and not from a cache."""
