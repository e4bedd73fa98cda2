"""The requests that set a topology's policies on a Pulsar cluster and read them back: racks, tenants, namespaces.

Each policy is defined once, with the requests that set it and those that read it back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from brokerproof.errors import AdminError
from brokerproof.experiment.topology import Cluster, Topology
from brokerproof.experiment.workload import Workload
from brokerproof.systems.pulsar.addressing import BOOKIE_PORT
from brokerproof.systems.pulsar.admin import Admin
from brokerproof.systems.pulsar.answers import NAMES, RACKS, SETTINGS, SWITCH, Rack
from brokerproof.systems.pulsar.policies import BookiePlacement, IsolationPolicy, Namespace, Placement, parse_policies
from brokerproof.systems.pulsar.replication import list_clusters_reached
from brokerproof.systems.pulsar.roles import Role
from brokerproof.systems.pulsar.topic import make_admin_path, make_full_name

_RACKS = "/admin/v2/bookies/racks-info"
# Every message must still be stored at the read-back, even if it was consumed.
_RETENTION = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
# The registration of a cluster: {"serviceUrl": …, "brokerServiceUrl": …} and, across links, {"listenerName": …}.
Registration = Mapping[str, str]


@dataclass(frozen=True)
class Change:
    """An HTTP request that changes a setting. An answer with a status in `accept` counts as success, too."""

    method: str
    path: str
    body: Any
    accept: tuple[int, ...] = ()


@dataclass(frozen=True)
class Value:
    """A value that is read back: its name in error messages, the wanted value, and how it is read from the answer."""

    name: str
    wanted: Any
    read: Callable[[Any], Any] = lambda answer: answer


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One policy of a cluster: the requests that set it, and the values that are read back."""

    changes: Sequence[Change] = ()
    # The path that is read back, and the type of its answer.
    path: str = ""
    expected: TypeAdapter[Any] = SETTINGS
    values: Sequence[Value] = ()


def register(brokers: Admin, registrations: Mapping[str, Registration]) -> None:
    """Register each cluster in `registrations`, {name: registration}, at the cluster that `brokers` belong to.

    A registration has the addresses that other clusters use. Until this call, each cluster has registered only itself,
    with the addresses that its own nodes use. Call this before `apply`, because a tenant's `allowedClusters` can have
    only registered clusters.
    """
    _set(brokers, _registrations(registrations))


def apply(brokers: Admin, cluster_name: str, topology: Topology, hosts: Mapping[str, str], workload: Workload) -> None:
    """Set all policies of a cluster. Raises AdminError if the cluster refuses one."""
    _set(brokers, _policies(cluster_name, topology, hosts, workload))


def check(
    brokers: Admin,
    cluster_name: str,
    topology: Topology,
    hosts: Mapping[str, str],
    workload: Workload,
    registrations: Mapping[str, Registration],
) -> None:
    """Read the registrations and policies back, except those of tenants. Raises AdminError with every wrong value."""
    wrong: list[str] = []
    answers: dict[str, Any] = {}
    for policy in (*_registrations(registrations), *_policies(cluster_name, topology, hosts, workload)):
        for value in policy.values:
            if policy.path not in answers:
                answers[policy.path] = brokers.get(policy.path, policy.expected)
            found = value.read(answers[policy.path])
            if found != value.wanted:
                wrong.append(f"{value.name} is {found!r}, not {value.wanted!r}")
    if wrong:
        raise AdminError(f"the cluster did not take {len(wrong)} setting(s): " + "; ".join(wrong))


def _set(brokers: Admin, policies: Sequence[Policy]) -> None:
    for policy in policies:
        for change in policy.changes:
            brokers.change(change.method, change.path, change.body, accept=change.accept)


def _registrations(registrations: Mapping[str, Registration]) -> list[Policy]:
    return [
        Policy(
            # The second request changes a cluster that is registered already.
            changes=[
                Change("PUT", f"/admin/v2/clusters/{name}", dict(registration), accept=(409,)),
                Change("POST", f"/admin/v2/clusters/{name}", dict(registration)),
            ],
            path=f"/admin/v2/clusters/{name}",
            values=[Value(f"{key} of {name}", value, _key(key)) for key, value in registration.items()],
        )
        for name, registration in registrations.items()
    ]


def _policies(cluster_name: str, topology: Topology, hosts: Mapping[str, str], workload: Workload) -> list[Policy]:
    """Return the policies that the topology and the workload need, in an order in which they can be set."""
    cluster = topology.clusters[cluster_name]
    policies = parse_policies(cluster)
    wanted = [_rack(*row) for row in racks(cluster, policies.placement, hosts)]
    wanted += [
        _tenant(name, list(topology.clusters)) for name in sorted({name.split("/")[0] for name in policies.namespaces})
    ]
    for name, namespace in policies.namespaces.items():
        wanted += _namespace(name, namespace, list_clusters_reached(topology, cluster_name, name))
        if policies.placement.bookies is BookiePlacement.PINNED:
            wanted.append(_affinity(name, policies.placement.pinned_to))
        if namespace.isolation:
            wanted.append(_isolation(cluster_name, name, isolation(name, namespace.isolation, cluster, hosts)))
    if workload.partitions:
        wanted.append(_partitions(workload, workload.partitions))
    return wanted


def _rack(key: str, rack: str, group: str) -> Policy:
    """Return a rack, which is only read back, because the nodes started with it (`PulsarProvisioning.initialize`)."""
    return Policy(
        path=_RACKS,
        expected=RACKS,
        values=[Value(f"rack of {key} in group {group}", rack, lambda answer: _find_rack(answer, group, key))],
    )


def _find_rack(racks: Mapping[str, Mapping[str, Rack]], group: str, key: str) -> str | None:
    found = racks.get(group, {}).get(key)
    return None if found is None else found.rack


def _tenant(name: str, clusters: list[str]) -> Policy:
    """Return the policy of a tenant, which is not read back.

    Pulsar refuses a namespace of the tenant on any cluster that is not in the tenant's `allowedClusters`.
    """
    body = {"adminRoles": [], "allowedClusters": clusters}
    return Policy(changes=[Change("PUT", f"/admin/v2/tenants/{name}", body, accept=(409,))])


def _namespace(name: str, namespace: Namespace, clusters: list[str]) -> list[Policy]:
    at = f"/admin/v2/namespaces/{name}"
    persistence = {
        "bookkeeperEnsemble": namespace.persistence.ensemble,
        "bookkeeperWriteQuorum": namespace.persistence.write_quorum,
        "bookkeeperAckQuorum": namespace.persistence.ack_quorum,
        "managedLedgerMaxMarkDeleteRate": namespace.persistence.mark_delete_rate,
    }

    def read_persistence(answer: Any) -> dict[str, Any]:
        return {key: _key(key)(answer) for key in persistence}

    return [
        Policy(
            changes=[Change("PUT", at, {"replication_clusters": clusters}, accept=(409,))],
            path=f"{at}/replication",
            expected=NAMES,
            values=[Value(f"clusters of {name}", sorted(clusters), sorted)],
        ),
        _setting(f"{at}/retention", _RETENTION, [Value(f"retention of {name}", _RETENTION)]),
        _setting(f"{at}/persistence", persistence, [Value(f"persistence of {name}", persistence, read_persistence)]),
        _setting(
            f"{at}/deduplication",
            namespace.deduplication,
            [Value(f"deduplication of {name}", namespace.deduplication, bool)],
            expected=SWITCH,
        ),
    ]


def _setting(path: str, body: Any, values: Sequence[Value], expected: TypeAdapter[Any] = SETTINGS) -> Policy:
    """Return a policy that is set and read back at the same path."""
    return Policy(changes=[Change("POST", path, body)], path=path, expected=expected, values=values)


def _affinity(namespace: str, group: str | None) -> Policy:
    key, path = "bookkeeperAffinityGroupPrimary", f"/admin/v2/namespaces/{namespace}/persistence/bookieAffinity"
    return _setting(path, {key: group}, [Value(f"bookie affinity of {namespace}", group, _key(key))])


def _isolation(cluster_name: str, namespace: str, wanted: Mapping[str, Any]) -> Policy:
    name = _name_isolation_policy(namespace)
    path = f"/admin/v2/clusters/{cluster_name}/namespaceIsolationPolicies/{name}"
    values = [Value(f"isolation policy {name}, {key}", value, _key(key)) for key, value in wanted.items()]
    return _setting(path, wanted, values)


def _name_isolation_policy(namespace: str) -> str:
    """Return the name of a namespace's isolation policy, which cannot contain `/`.

    The namespaces `a-b/c` and `a/b-c` would get the same name, so a digest is added if a namespace contains `-`.
    """
    digest = f"-{hashlib.sha256(namespace.encode()).hexdigest()[:8]}" if "-" in namespace else ""
    return namespace.replace("/", "-") + digest


def _partitions(workload: Workload, count: int) -> Policy:
    path = f"{make_admin_path(make_full_name(workload))}/partitions"
    return Policy(
        changes=[Change("PUT", path, count, accept=(409,))],
        path=path,
        values=[Value(f"partitions of {workload.topic}", count, _key("partitions"))],
    )


def _key(key: str) -> Callable[[Any], Any]:
    return lambda answer: (answer or {}).get(key)


def racks(cluster: Cluster, placement: Placement, hosts: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return (key, rack, group) of every bookie and broker. The key is `HOST:PORT`, with port 0 for a broker.

    BookKeeper's client looks up a broker's own rack with port 0 (`BookieSocketAddress.createDummyBookieIdForHostname`).
    If the placement pins all copies to one region, the group is the node's region, otherwise `default`.
    """
    pinned = placement.bookies is BookiePlacement.PINNED
    rows = []
    for name, node in cluster.nodes.items():
        if node.role == Role.METADATA:
            continue
        port = BOOKIE_PORT if node.role == Role.BOOKIE else 0
        # Without region awareness, Pulsar refuses a rack's name with two parts.
        rack = f"/{node.region}-{node.rack}" if pinned else f"/{node.region}/{node.rack}"
        rows.append((f"{hosts[name]}:{port}", rack, node.region if pinned else "default"))
    return rows


def group_racks(
    cluster: Cluster, placement: Placement, hosts: Mapping[str, str]
) -> dict[str, dict[str, dict[str, str]]]:
    """Return {group: {key: rack and host}} of every bookie and broker, as Pulsar stores racks in a metadata store."""
    groups: dict[str, dict[str, dict[str, str]]] = {}
    for key, rack, group in racks(cluster, placement, hosts):
        groups.setdefault(group, {})[key] = {"rack": rack, "hostname": key}
    return groups


def isolation(name: str, policy: IsolationPolicy, cluster: Cluster, hosts: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of a namespace isolation policy, which names the brokers of a region by their addresses."""

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
