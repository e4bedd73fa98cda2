"""What a topology lays over a Pulsar cluster: racks, tenants, namespaces, isolation. Set, then read back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from brokerproof.errors import AdminError
from brokerproof.experiment.scenario import Workload
from brokerproof.experiment.topology import BookiePlacement, Cluster, IsolationPolicy, Namespace, Role, Topology
from brokerproof.systems.pulsar.addressing import BOOKIE_PORT
from brokerproof.systems.pulsar.admin import Admin

_RACKS = "/admin/v2/bookies/racks-info"
# Everything has to be there when it is read back, whatever was consumed.
_RETENTION = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}


# What a cluster is registered with: {"serviceUrl": …, "brokerServiceUrl": …} and, across links, {"listenerName": …}.
Registration = Mapping[str, str]


def register(brokers: Admin, registrations: Mapping[str, Registration]) -> None:
    """Make clusters known, by name, to the cluster that `brokers` belong to.

    Each registered itself when it was made, as it sees itself; how the others see it is said here.
    Apart from `apply`, because a tenant can be allowed only clusters that are known.
    """
    for name, registration in registrations.items():
        brokers.change("PUT", f"/admin/v2/clusters/{name}", dict(registration), accept=(409,))
        brokers.change("POST", f"/admin/v2/clusters/{name}", dict(registration))


def apply(brokers: Admin, cluster_name: str, topology: Topology, hosts: Mapping[str, str], workload: Workload) -> None:
    """Set everything. Raises AdminError where the cluster refuses something."""
    cluster = topology.clusters[cluster_name]
    for key, rack, group in racks(cluster, hosts):
        brokers.change("POST", f"{_RACKS}/{key}?group={group}", {"rack": rack, "hostname": key})
    for tenant in sorted({name.split("/")[0] for name in cluster.namespaces}):
        body = {"adminRoles": [], "allowedClusters": list(topology.clusters)}
        brokers.change("PUT", f"/admin/v2/tenants/{tenant}", body, accept=(409,))
    for name, namespace in cluster.namespaces.items():
        at = f"/admin/v2/namespaces/{name}"
        clusters = topology.reached(cluster_name, name)
        brokers.change("PUT", at, {"replication_clusters": clusters}, accept=(409,))
        brokers.change("POST", f"{at}/retention", _RETENTION)
        brokers.change("POST", f"{at}/persistence", _persistence(namespace))
        brokers.change("POST", f"{at}/deduplication", namespace.deduplication)
        if cluster.placement.bookies is BookiePlacement.PINNED:
            affinity = {"bookkeeperAffinityGroupPrimary": cluster.placement.pinned_to}
            brokers.change("POST", f"{at}/persistence/bookieAffinity", affinity)
        if namespace.isolation:
            brokers.change(
                "POST",
                f"/admin/v2/clusters/{cluster_name}/namespaceIsolationPolicies/{_policy_name(name)}",
                isolation(name, namespace.isolation, cluster, hosts),
            )
    topic = f"/admin/v2/persistent/{workload.namespace}/{workload.topic}"
    if workload.partitions:
        brokers.change("PUT", f"{topic}/partitions", workload.partitions, accept=(409,))


def check(
    brokers: Admin,
    cluster_name: str,
    topology: Topology,
    hosts: Mapping[str, str],
    workload: Workload,
    registrations: Mapping[str, Registration],
) -> None:
    """Read everything back. Raises AdminError naming every setting that did not take."""
    cluster = topology.clusters[cluster_name]
    wrong: list[str] = []

    def compare(what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            wrong.append(f"{what} is {found!r}, not {wanted!r}")

    for name, registration in registrations.items():
        found = brokers.get(f"/admin/v2/clusters/{name}")
        for key, value in registration.items():
            compare(f"{key} of {name}", found.get(key), value)
    found_racks = brokers.get(_RACKS)
    for key, rack, group in racks(cluster, hosts):
        compare(f"rack of {key} in group {group}", found_racks.get(group, {}).get(key, {}).get("rack"), rack)
    for name, namespace in cluster.namespaces.items():
        at = f"/admin/v2/namespaces/{name}"
        compare(
            f"clusters of {name}",
            sorted(brokers.get(f"{at}/replication")),
            sorted(topology.reached(cluster_name, name)),
        )
        compare(f"retention of {name}", brokers.get(f"{at}/retention"), _RETENTION)
        found = brokers.get(f"{at}/persistence")
        compare(
            f"persistence of {name}", {key: found.get(key) for key in _persistence(namespace)}, _persistence(namespace)
        )
        compare(f"deduplication of {name}", bool(brokers.get(f"{at}/deduplication")), namespace.deduplication)
        if cluster.placement.bookies is BookiePlacement.PINNED:
            affinity = brokers.get(f"{at}/persistence/bookieAffinity")
            compare(
                f"bookie affinity of {name}",
                affinity.get("bookkeeperAffinityGroupPrimary"),
                cluster.placement.pinned_to,
            )
        if namespace.isolation:
            policy = f"/admin/v2/clusters/{cluster_name}/namespaceIsolationPolicies/{_policy_name(name)}"
            wanted = isolation(name, namespace.isolation, cluster, hosts)
            found = brokers.get(policy)
            for key, value in wanted.items():
                compare(f"isolation policy {_policy_name(name)}, {key}", found.get(key), value)
    if workload.partitions:
        found = brokers.get(f"/admin/v2/persistent/{workload.namespace}/{workload.topic}/partitions")
        compare(f"partitions of {workload.topic}", found.get("partitions"), workload.partitions)
    if wrong:
        raise AdminError(f"the cluster did not take {len(wrong)} setting(s): " + "; ".join(wrong))


def racks(cluster: Cluster, hosts: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(key, rack, group) of every bookie and broker.

    A broker is looked up by its host alone, under the port 0 that BookKeeper gives to the local node
    (`BookieSocketAddress.createDummyBookieIdForHostname`). With pinned copies a region's bookies form a group of its
    name, which namespaces are bound to.
    """
    pinned = cluster.placement.bookies is BookiePlacement.PINNED
    rows = []
    for name, node in cluster.nodes.items():
        if node.role is Role.METADATA:
            continue
        port = BOOKIE_PORT if node.role is Role.BOOKIE else 0
        # Without region awareness Pulsar refuses a rack's name that has two parts.
        rack = f"/{node.region}-{node.rack}" if pinned else f"/{node.region}/{node.rack}"
        rows.append((f"{hosts[name]}:{port}", rack, node.region if pinned else "default"))
    return rows


def isolation(name: str, policy: IsolationPolicy, cluster: Cluster, hosts: Mapping[str, str]) -> dict[str, Any]:
    """The body of a namespace isolation policy: brokers of a region by their addresses."""

    def brokers_of(region: str | None) -> list[str]:
        if region is None:
            return []
        return [re.escape(hosts[broker]) for broker in cluster.names(role=Role.BROKER, region=region)]

    return {
        "namespaces": [name],
        "primary": brokers_of(policy.primary),
        "secondary": brokers_of(policy.secondary),
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": str(policy.min_limit), "usage_threshold": str(policy.usage_threshold)},
        },
    }


def _persistence(namespace: Namespace) -> dict[str, int]:
    return {
        "bookkeeperEnsemble": namespace.persistence.ensemble,
        "bookkeeperWriteQuorum": namespace.persistence.write_quorum,
        "bookkeeperAckQuorum": namespace.persistence.ack_quorum,
    }


def _policy_name(namespace: str) -> str:
    return namespace.replace("/", "-")
