"""Replication between clusters of Pulsar, from the policies of their namespaces."""

from __future__ import annotations

from brokerproof.experiment.topology import Topology
from brokerproof.systems.pulsar.policies import parse_policies
from brokerproof.systems.pulsar.roles import Role


def list_clusters_reached(topology: Topology, home: str, namespace: str) -> list[str]:
    """Return the clusters that must store every message published to `namespace` in cluster `home`; `home` is first."""
    policies = parse_policies(topology.clusters[home]).namespaces.get(namespace)
    return list(dict.fromkeys([home, *(policies.replicated_to if policies else [])]))


def list_regions_replicating_to(topology: Topology, cluster: str) -> list[str]:
    """Return the regions of the brokers of all other clusters that replicate a namespace to `cluster`."""
    return list(
        dict.fromkeys(
            node.region
            for name, other in topology.clusters.items()
            if name != cluster
            and any(cluster in list_clusters_reached(topology, name, each) for each in parse_policies(other).namespaces)
            for node in other.nodes.values()
            if node.role == Role.BROKER
        )
    )
