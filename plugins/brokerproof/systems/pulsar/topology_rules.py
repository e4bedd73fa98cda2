"""The rules that a topology must follow so that Pulsar can run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from brokerproof.errors import InputError, Mistakes
from brokerproof.experiment.topology import Cluster, Topology
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.systems.pulsar.metadata_store import list_stores
from brokerproof.systems.pulsar.policies import ClusterPolicies, list_regions_with, parse_policies
from brokerproof.systems.pulsar.replication import list_regions_replicating_to
from brokerproof.systems.pulsar.roles import Role

# The prefix of the URLs of metadata stores, without its colon.
_STORE_PREFIX = "zk"


def validate(topology: Topology) -> Topology:
    """Return the topology with the defaults of its policies filled in.

    Raises InputError, with the field's path in the topology, if Pulsar cannot run it.
    """
    policies: dict[str, ClusterPolicies] = {}
    mistakes = Mistakes()
    for name, cluster in topology.clusters.items():
        with mistakes.collect(below=f"clusters.{name}"):
            policies[name] = parse_policies(cluster)
            found = chain(
                _list_placement_mistakes(cluster, policies[name]), _list_namespace_mistakes(cluster, policies[name])
            )
            Mistakes(found).raise_all()
    mistakes.found += _list_ensemble_mistakes(topology)
    mistakes.raise_all()
    complete = topology.model_copy(
        update={
            "clusters": {
                name: Cluster.model_validate({"nodes": cluster.nodes, **policies[name].model_dump(mode="json")})
                for name, cluster in topology.clusters.items()
            }
        }
    )
    Mistakes(
        chain(
            _list_replication_mistakes(complete, policies),
            _list_mistakes_across_links(complete) if topology.links else (),
        )
    ).raise_all()
    return complete


def _list_placement_mistakes(cluster: Cluster, policies: ClusterPolicies) -> list[InputError]:
    return _find_no_such_node(cluster, Role.BOOKIE, policies.placement.pinned_to, "placement.pinned_to")


def _list_namespace_mistakes(cluster: Cluster, policies: ClusterPolicies) -> Iterator[InputError]:
    pinned_to = policies.placement.pinned_to
    # A bookie on standby takes no copy before a fault starts it.
    names = cluster.names(role=Role.BOOKIE, region=pinned_to)
    bookies = [name for name in names if not cluster.nodes[name].standby]
    for name, namespace in policies.namespaces.items():
        at = f"namespaces.{name}"
        if name.count("/") != 1:
            yield InputError("is no namespace", field=at, remedy="write `tenant/namespace`")
        # If no bookie is where the copies are pinned to, that alone is the mistake.
        if namespace.persistence.ensemble > len(bookies) and (bookies or pinned_to is None):
            yield InputError(
                f"impossible quorum: an ensemble of {namespace.persistence.ensemble} with {len(bookies)} bookies",
                field=f"{at}.persistence.ensemble",
                remedy="lower it or add bookies" + (" that are not on standby" if len(bookies) < len(names) else ""),
            )
        for which in ("primary", "secondary") if namespace.isolation else ():
            region = getattr(namespace.isolation, which)
            yield from _find_no_such_node(cluster, Role.BROKER, region, f"{at}.isolation.{which}")


def _find_no_such_node(cluster: Cluster, role: Role, region: str | None, field: str) -> list[InputError]:
    """Return an error if the cluster has no node with this role in this region. None is no region."""
    regions = list_regions_with(role, cluster)
    if region is None or region in regions:
        return []
    return [InputError(f"no {role} is in region `{region}`", field=field, remedy=suggest_name(region, regions))]


def _list_replication_mistakes(topology: Topology, policies: Mapping[str, ClusterPolicies]) -> Iterator[InputError]:
    """Yield an error if a cluster that a namespace is replicated to does not exist or lacks the namespace.

    In a shared metadata store, a namespace exists only once. So an error is also yielded if two clusters that share a
    store describe the namespace differently. Two clusters that contradict each other get one error, not one for each.
    """
    contradicting: set[frozenset[str]] = set()
    for cluster, name in ((cluster, name) for cluster, each in policies.items() for name in each.namespaces):
        here, at = policies[cluster].namespaces[name], f"clusters.{cluster}.namespaces.{name}.replicated_to"
        unknown = [other for other in here.replicated_to if other not in topology.clusters]
        for other in unknown:
            contradicting |= {frozenset({cluster, each}) for each in topology.clusters}
            yield InputError(f"no cluster is called `{other}`", field=at, remedy=suggest_name(other, topology.clusters))
        for other in here.replicated_to:
            if other in unknown or frozenset({cluster, other}) in contradicting:
                continue
            there = policies[other].namespaces.get(name)
            of_each_cluster: dict[str, Any] = {"isolation": None, "replicated_to": []}
            if there is None:
                contradicting.add(frozenset({cluster, other}))
                yield InputError(
                    f"`{other}` has no namespace `{name}`", field=at, remedy=f"add it to clusters.{other}.namespaces"
                )
            elif topology.shared_metadata and (
                here.model_copy(update=of_each_cluster) != there.model_copy(update=of_each_cluster)
                or {cluster, *here.replicated_to} != {other, *there.replicated_to}
            ):
                contradicting.add(frozenset({cluster, other}))
                yield InputError(
                    f"`{name}` is one namespace in the shared metadata store, and `{other}` describes it differently",
                    field=at,
                    remedy="give both the same clusters, persistence and deduplication",
                )


def _list_ensemble_mistakes(topology: Topology) -> Iterator[InputError]:
    """Yield an error for each metadata store with an even number of nodes. ZooKeeper itself only warns."""
    for at, members in list_stores(topology).items():
        count = len(members)
        if count and count % 2 == 0:
            yield InputError(
                f"a metadata store of {count} nodes bears the loss of no more nodes than one of {count - 1}",
                field=at,
                remedy=f"give it {count - 1} or {count + 1}",
            )


def _list_mistakes_across_links(topology: Topology) -> Iterator[InputError]:
    for name, node in topology.nodes.items():
        if name == _STORE_PREFIX and node.role == Role.METADATA:
            # Pulsar removes the prefix from `zk:zk:2181` twice.
            yield InputError(
                "is what Pulsar's URLs of metadata stores begin with",
                field=topology.node_fields[name],
                remedy="rename it `metadata`",
            )
    for cluster in topology.clusters:
        regions = list_regions_replicating_to(topology, cluster)
        if len(regions) > 1:
            yield InputError(
                f"is replicated with across links from brokers in {' and '.join(regions)}, and Pulsar knows "
                "another cluster by one listener only",
                field=f"clusters.{cluster}",
                remedy="leave out `links`, or put the brokers of each cluster into one region",
            )
