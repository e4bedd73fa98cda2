"""The Pulsar driver: a topology's nodes and policies, and what its clusters say about themselves together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any

import httpx

from brokerproof.experiment.topology import BookiePlacement, Role
from brokerproof.machine.java import java_home
from brokerproof.network.routes import Route
from brokerproof.run.directory import Run
from brokerproof.run.observations import Sample
from brokerproof.runtimes.protocols import NodeSpec
from brokerproof.systems.clients import Position
from brokerproof.systems.pulsar import class_data_archive, metadata_store, nodes, policies
from brokerproof.systems.pulsar.addressing import Sight
from brokerproof.systems.pulsar.cluster import PulsarCluster
from brokerproof.systems.pulsar.distribution import distribution


class PulsarDriver:
    """Pulsar for one run."""

    def __init__(self, run: Run, *, patience_s: float = 10.0) -> None:
        self.run = run
        self.topology = run.topology
        self.addresses: Mapping[str, str] = run.facts["addresses"]
        self._sight = Sight.of(run)
        self.clusters = {name: PulsarCluster(run, name, patience_s=patience_s) for name in self.topology.clusters}
        self._http = httpx.Client(timeout=httpx.Timeout(min(5.0, patience_s), connect=1.0), trust_env=False)

    @cached_property
    def layout(self) -> nodes.Layout:
        """Fetches the distribution if the cache lacks it."""
        return nodes.Layout(
            distribution=distribution(self.run.scenario.version),
            java=java_home() / "bin" / "java",
            sight=self._sight,
        )

    @cached_property
    def home(self) -> PulsarCluster:
        """The cluster that the topic is published to; with several, the first."""
        return self.clusters[self._homes[0]]

    @property
    def _homes(self) -> list[str]:
        return self.run.scenario.workload.homes(self.topology)

    @cached_property
    def holding(self) -> list[PulsarCluster]:
        """The clusters that the topic is in: those published to, and those replicated to."""
        return [self.clusters[name] for name in self.run.scenario.workload.reached(self.topology)]

    # The nodes' life

    def specs(self) -> Mapping[str, NodeSpec]:
        """Every node of the topology, by name."""
        return nodes.shared_metadata_specs(self.layout) | {
            name: spec
            for cluster in self.topology.clusters
            for name, spec in nodes.node_specs(self.layout, cluster).items()
        }

    def routes(self) -> list[Route]:
        """Of nodes by name, and of brokers and clients by listener."""
        return self._sight.routes()

    def start_order(self) -> list[list[str]]:
        """Metadata stores, then bookies, then brokers."""
        return [
            [name for name, node in self.topology.nodes.items() if node.role is role]
            for role in (Role.METADATA, Role.BOOKIE, Role.BROKER)
        ]

    def initialize(self) -> list[tuple[str, ...]]:
        """Each writes one cluster's metadata. Not at once: in a shared store they change the same namespaces."""
        return [nodes.initialize_command(self.layout, name) for name in self.topology.clusters]

    def initialized(self) -> None:
        """What bookies that start side by side would race for is there before the first of them starts."""
        for name in self.topology.clusters:
            metadata_store.lay_out(self.layout.metadata_url(name, self.addresses))

    def healthy(self, spec: NodeSpec) -> bool:
        """GET of the node's health endpoint answers 200."""
        return self._answers(spec.health_url)

    def ready(self, spec: NodeSpec) -> bool:
        """GET of the node's ready endpoint, if it has one, or else of its health endpoint, answers 200."""
        return self._answers(spec.ready_url or spec.health_url)

    def learn(self, pids: Mapping[str, int]) -> None:
        """Class data archives of the roles that lack one."""
        for role in Role:
            kept = class_data_archive.archive(
                role,
                java=self.layout.java,
                version=self.layout.distribution.version,
                heap_mb=self.topology.heap_mb[role],
            )
            node = next((name for name in pids if self.topology.nodes[name].role is role), None)
            if node is not None and not kept.exists():
                class_data_archive.dump(kept, java=self.layout.java, pid=pids[node])

    def _answers(self, url: str) -> bool:
        try:
            return self._http.get(url).status_code == 200
        except httpx.TransportError:
            return False

    # Policies

    def configure(self) -> list[str]:
        """Clusters to each other, racks, tenants, namespaces, isolation.

        Brokers restart where they have to know their own region, because they look it up once.
        """
        for cluster in self.clusters.values():
            policies.register(cluster.brokers, self._registrations)
        for name, cluster in self.clusters.items():
            policies.apply(cluster.brokers, name, self.topology, self._sight.hosts, self.run.scenario.workload)
        return [
            broker
            for cluster in self.topology.clusters.values()
            if cluster.placement.bookies is not BookiePlacement.ANY
            for broker in cluster.names(role=Role.BROKER)
        ]

    def check_configuration(self) -> None:
        """Everything that `configure` set, read back from every cluster."""
        workload = self.run.scenario.workload
        for name, cluster in self.clusters.items():
            policies.check(cluster.brokers, name, self.topology, self._sight.hosts, workload, self._registrations)

    @property
    def _registrations(self) -> dict[str, dict[str, str]]:
        return {
            name: {"serviceUrl": self.layout.web_urls(cluster), **self._sight.registration(name)}
            for name, cluster in self.topology.clusters.items()
        }

    # What the clusters say

    def owner(self, cluster: str | None = None) -> str | None:
        """From the lookup service, which may assign the topic if nobody owns it."""
        return self._one(cluster).owner()

    def holders(self, cluster: str | None = None) -> list[str]:
        """The last segment's ensemble of the topic's open ledger."""
        return self._one(cluster).holders()

    def alive(self) -> dict[str, list[str]]:
        """Brokers as they registered themselves; bookies that registered as writable."""
        clusters = self.clusters.values()
        return {
            "brokers": [name for cluster in clusters for name in cluster.alive_brokers()],
            "bookies": [name for cluster in clusters for name in cluster.alive_bookies()],
        }

    def samplers(self) -> Mapping[str, Callable[[], list[Sample]]]:
        """One for each thing that can be slow or dead by itself; with several clusters, `CLUSTER/…`."""
        return {
            (f"{name}/{what}" if len(self.clusters) > 1 else what): sampler
            for name, cluster in self.clusters.items()
            for what, sampler in cluster.samplers().items()
        }

    def under_replicated(self) -> int:
        """Count of the ledgers that auto-recovery's metadata lists."""
        return sum(cluster.under_replicated() for cluster in self.clusters.values())

    def published(self) -> int:
        """From the brokers' counters, over clusters and partitions."""
        return sum(self.clusters[name].published() for name in self._homes)

    def ledgers(self, moment: str, without: Collection[str] = ()) -> list[dict[str, Any]]:
        """One row per ensemble segment, from BookKeeper's metadata."""
        return [row for cluster in self.holding if cluster.name not in without for row in cluster.ledgers(moment)]

    def drained(self) -> list[dict[str, Any]]:
        """From each cursor: nothing left before the last confirmed entry, and nothing unacknowledged."""
        return [row for cluster in self.holding for row in cluster.drained()]

    def replicated(self) -> list[dict[str, Any]]:
        """From each replicator's cursor, whether it is at the last confirmed entry."""
        return [row for name in self._homes for row in self.clusters[name].replicated()]

    def acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
        """For each partition, up to where everything is acknowledged: the cursor's mark-delete position."""
        return self.clusters[cluster].acknowledged(subscription)

    def logs(self) -> list[dict[str, Any]]:
        """The partitions with the position of the last confirmed entry, null for an empty log."""
        return [row for cluster in self.holding for row in cluster.logs()]

    def reassign(self, cluster: str | None = None) -> None:
        """Unload the bundles that the partitions are in: to unload a topic alone leaves it with its owner."""
        self._one(cluster).reassign()

    def unload(self, cluster: str) -> None:
        """Close the topic, so that what follows is read from bookies and not from a broker's cache."""
        self.clusters[cluster].unload()

    def _one(self, cluster: str | None) -> PulsarCluster:
        return self.home if cluster is None else self.clusters[cluster]
