"""The rules that a topology must follow so that Pulsar can run it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokerproof.errors import InputError
from brokerproof.experiment.topology import Cluster, Topology
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.systems.pulsar.metadata_store import list_stores
from brokerproof.systems.pulsar.policies import ClusterPolicies, list_regions_with, parse_policies
from brokerproof.systems.pulsar.replication import list_clusters_reached, list_regions_replicating_to
from brokerproof.systems.pulsar.roles import Role

# The prefix of the URLs of metadata stores, without its colon.
_STORE_PREFIX = "zk"


def validate(topology: Topology) -> Topology:
    """Return the topology with the defaults of its policies filled in.

    Raises InputError, with the field's path in the topology, if Pulsar cannot run it.
    """
    policies: dict[str, ClusterPolicies] = {}
    for name, cluster in topology.clusters.items():
        at = f"clusters.{name}"
        try:
            policies[name] = parse_policies(cluster)
            _check_placement(cluster, policies[name])
            _check_namespaces(cluster, policies[name])
        except InputError as error:
            raise InputError(error.problem, field=f"{at}.{error.field}", remedy=error.remedy) from None
    complete = topology.model_copy(
        update={
            "clusters": {
                name: Cluster.model_validate({"nodes": cluster.nodes, **policies[name].model_dump(mode="json")})
                for name, cluster in topology.clusters.items()
            }
        }
    )
    for name in policies:
        _check_replication(complete, policies, name)
    if topology.links:
        _check_names_across_links(complete)
        _check_listeners_across_links(complete)
    _check_ensembles(complete)
    return complete


def _check_placement(cluster: Cluster, policies: ClusterPolicies) -> None:
    if policies.placement.pinned_to is not None:
        _check_region(cluster, Role.BOOKIE, policies.placement.pinned_to, "placement.pinned_to")


def _check_namespaces(cluster: Cluster, policies: ClusterPolicies) -> None:
    bookies = cluster.names(role=Role.BOOKIE, region=policies.placement.pinned_to)
    for name, namespace in policies.namespaces.items():
        at = f"namespaces.{name}"
        if name.count("/") != 1:
            raise InputError("is no namespace", field=at, remedy="write `tenant/namespace`")
        if namespace.persistence.ensemble > len(bookies):
            raise InputError(
                f"impossible quorum: an ensemble of {namespace.persistence.ensemble} with {len(bookies)} bookies",
                field=f"{at}.persistence.ensemble",
                remedy="lower it or add bookies",
            )
        if namespace.isolation:
            _check_region(cluster, Role.BROKER, namespace.isolation.primary, f"{at}.isolation.primary")
            if namespace.isolation.secondary is not None:
                _check_region(cluster, Role.BROKER, namespace.isolation.secondary, f"{at}.isolation.secondary")


def _check_region(cluster: Cluster, role: Role, region: str, field: str) -> None:
    """Raises InputError if the cluster has no node with this role in this region."""
    regions = list_regions_with(role, cluster)
    if region not in regions:
        raise InputError(f"no {role} is in region `{region}`", field=field, remedy=suggest_name(region, regions))


def _check_replication(topology: Topology, policies: Mapping[str, ClusterPolicies], cluster: str) -> None:
    """Raises InputError if a cluster that a namespace is replicated to does not exist or lacks the namespace.

    In a shared metadata store, a namespace exists only once. So InputError is also raised if two clusters that share a
    store describe the namespace differently.
    """
    for name, here in policies[cluster].namespaces.items():
        at = f"clusters.{cluster}.namespaces.{name}.replicated_to"
        for other in here.replicated_to:
            if other not in topology.clusters:
                raise InputError(
                    f"no cluster is called `{other}`", field=at, remedy=suggest_name(other, topology.clusters)
                )
            there = policies[other].namespaces.get(name)
            if there is None:
                raise InputError(
                    f"`{other}` has no namespace `{name}`", field=at, remedy=f"add it to clusters.{other}.namespaces"
                )
            of_each_cluster: dict[str, Any] = {"isolation": None, "replicated_to": []}
            different = here.model_copy(update=of_each_cluster) != there.model_copy(update=of_each_cluster)
            reached_from_both = [set(list_clusters_reached(topology, each, name)) for each in (cluster, other)]
            if topology.shared_metadata and (different or reached_from_both[0] != reached_from_both[1]):
                raise InputError(
                    f"`{name}` is one namespace in the shared metadata store, and `{other}` describes it differently",
                    field=at,
                    remedy="give both the same clusters, persistence and deduplication",
                )


def _check_names_across_links(topology: Topology) -> None:
    for name, node in topology.nodes.items():
        if name == _STORE_PREFIX and node.role == Role.METADATA:
            # Pulsar removes the prefix from `zk:zk:2181` twice.
            raise InputError(
                "is what Pulsar's URLs of metadata stores begin with",
                field=topology.node_fields[name],
                remedy="rename it `metadata`",
            )


def _check_ensembles(topology: Topology) -> None:
    """Raises InputError for a metadata store with an even number of nodes. ZooKeeper itself only warns."""
    for at, members in list_stores(topology).items():
        count = len(members)
        if count and count % 2 == 0:
            raise InputError(
                f"a metadata store of {count} nodes bears the loss of no more nodes than one of {count - 1}",
                field=at,
                remedy=f"give it {count - 1} or {count + 1}",
            )


def _check_listeners_across_links(topology: Topology) -> None:
    for cluster in topology.clusters:
        regions = list_regions_replicating_to(topology, cluster)
        if len(regions) > 1:
            raise InputError(
                f"is replicated with across links from brokers in {' and '.join(regions)}, and Pulsar knows "
                "another cluster by one listener only",
                field=f"clusters.{cluster}",
                remedy="leave out `links`, or put the brokers of each cluster into one region",
            )
