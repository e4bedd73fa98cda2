"""The administration of Pulsar's clusters: it sets the topology's policies on them and unloads the topic."""

from __future__ import annotations

from brokerproof.run.directory import Run
from brokerproof.systems.pulsar import configuration
from brokerproof.systems.pulsar.addressing import Addressing
from brokerproof.systems.pulsar.answers import BUNDLE
from brokerproof.systems.pulsar.cluster import PulsarCluster, make_clusters
from brokerproof.systems.pulsar.policies import BookiePlacement, parse_policies
from brokerproof.systems.pulsar.roles import Role
from brokerproof.systems.pulsar.topic import parse_namespace


class PulsarAdministration:
    def __init__(self, run: Run) -> None:
        self.run, self.topology = run, run.topology
        self.clusters = make_clusters(run)
        self._addressing = Addressing.from_run(run)

    def configure(self) -> list[str]:
        """Register the clusters with each other, then set racks, tenants, namespaces, isolation and partitions.

        Returns the brokers of each cluster whose placement uses regions. They must restart, because a broker looks up
        its own region only once.
        """
        for cluster in self.clusters.values():
            configuration.register(cluster.brokers, self._registrations)
        for name, cluster in self.clusters.items():
            configuration.apply(
                cluster.brokers, name, self.topology, self._addressing.hosts, self.run.scenario.workload
            )
        return [
            broker
            for cluster in self.topology.clusters.values()
            if parse_policies(cluster).placement.bookies is not BookiePlacement.ANY
            for broker in cluster.names(role=Role.BROKER)
        ]

    def check_configuration(self) -> None:
        workload = self.run.scenario.workload
        for name, cluster in self.clusters.items():
            configuration.check(
                cluster.brokers, name, self.topology, self._addressing.hosts, workload, self._registrations
            )

    def reassign(self, cluster: str | None = None) -> None:
        """Unload the bundles that hold the topic's partitions.

        Unloading only the topic would leave it with its owner.
        """
        found = self._find_cluster(cluster)
        namespace = parse_namespace(found.topic)
        for _, path in found.partitions:
            bundle = found.brokers.get_text(path.replace("/admin/v2/", "/lookup/v2/topic/", 1) + "/bundle", BUNDLE)
            found.brokers.change("PUT", f"/admin/v2/namespaces/{namespace}/{bundle}/unload")

    def unload(self, cluster: str) -> None:
        """Close the topic in a cluster, so that the next reads come from bookies and not from a broker's cache."""
        found = self.clusters[cluster]
        for _, path in found.partitions:
            found.brokers.change("PUT", path + "/unload")

    def _find_cluster(self, cluster: str | None) -> PulsarCluster:
        return self.clusters[cluster or self.run.scenario.workload.list_homes(self.topology)[0]]

    @property
    def _registrations(self) -> dict[str, dict[str, str]]:
        return {
            name: {"serviceUrl": self._addressing.join_web_urls(name), **self._addressing.make_registration(name)}
            for name in self.topology.clusters
        }
