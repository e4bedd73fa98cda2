"""Removes what earlier runs left in a kept cluster. Otherwise its repair has more to copy than that of a new one.

Earlier runs have other tenants. A health check of a broker makes a topic too. If two brokers make the first schema of a
topic at the same time, the ledger of one of them belongs to nothing, and Pulsar never deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from brokerproof import clock
from brokerproof.errors import AdminError
from brokerproof.experiment.numbers import join_names
from brokerproof.experiment.topology import Topology
from brokerproof.systems.pulsar.admin import Admin
from brokerproof.systems.pulsar.answers import BROKER_NAMES, LEDGERS, NAMES, NAMESPACES
from brokerproof.systems.pulsar.cluster import PulsarCluster
from brokerproof.systems.pulsar.policies import parse_policies
from brokerproof.systems.pulsar.topic import SCHEMES, make_admin_path

# Pulsar's own tenants.
_SYSTEM_TENANTS = {"public", "pulsar"}
_REMOVAL_S = 20.0
_GONE = (404,)
# The answers to deleting a namespace that is gone, or that several clusters replicate.
_KEPT_OR_GONE = (404, 412)
# A bookie answers so if it cannot delete a ledger, also if the ledger is gone.
_NOT_DELETED = (500,)


def remove_leftovers(clusters: Mapping[str, PulsarCluster], topology: Topology) -> None:
    """Delete the topics of health checks, and all topics, namespaces and ledgers of tenants other than the topology's.

    A cluster that replicates a topic would make it again in the other cluster, so this is forbidden first. Pulsar
    deletes a namespace's own topics with the namespace. It keeps a namespace that several clusters replicate.

    Raises AdminError if a request fails, and DeadlineError if something is still there after a while.
    """
    namespaces = {name: _list_other_namespaces(each, topology) for name, each in clusters.items()}
    places = [(clusters[cluster].brokers, each) for cluster, found in namespaces.items() for each in found]
    for brokers, namespace in places:
        forbidden = {"allowAutoTopicCreation": False}
        brokers.change("POST", f"/admin/v2/namespaces/{namespace}/autoTopicCreation", forbidden)
    # Brokers may learn late what is forbidden, so this is repeated until no topic comes back.
    clock.wait_until(
        lambda: not sum(_remove_topics(*place) for place in places),
        timeout_s=_REMOVAL_S,
        what="the topics of earlier runs to be gone",
        every_s=0.5,
    )
    for brokers, namespace in places:
        brokers.change("DELETE", f"/admin/v2/namespaces/{namespace}", accept=_KEPT_OR_GONE)
    for name, cluster in clusters.items():
        checked = _remove_topics_of_health_checks(cluster)
        gone = {*namespaces[name]}.difference(_list_other_namespaces(cluster, topology))
        remove_ledgers(cluster, [*checked, *sorted(gone)])


def _list_other_namespaces(cluster: PulsarCluster, topology: Topology) -> list[str]:
    own = {name.split("/")[0] for name in parse_policies(topology.clusters[cluster.name]).namespaces}
    tenants: list[str] = cluster.brokers.get("/admin/v2/tenants", NAMES)
    if not {*tenants} >= _SYSTEM_TENANTS:
        raise AdminError(f"{cluster.name} does not list the tenants {join_names(sorted(_SYSTEM_TENANTS))}")
    others = sorted({*tenants} - own - _SYSTEM_TENANTS)
    return [name for tenant in others for name in cluster.brokers.get(f"/admin/v2/namespaces/{tenant}", NAMESPACES)]


def _remove_topics(brokers: Admin, namespace: str) -> int:
    """Delete all topics of a namespace, and return how many there were."""
    count = 0
    # The partitions of a partitioned topic are listed too. They are deleted with it.
    for kind, end in (("/partitioned", "/partitions"), ("", "")):
        listed = [brokers.get(f"/admin/v2/{scheme}/{namespace}{kind}", NAMES) for scheme in SCHEMES]
        for name in dict.fromkeys(chain.from_iterable(listed)):
            count += 1
            brokers.change("DELETE", f"{make_admin_path(name)}{end}?force=true", accept=_GONE)
    return count


def _remove_topics_of_health_checks(cluster: PulsarCluster) -> list[str]:
    """Delete each broker's topic of health checks, and return the brokers, which are part of these topics' names."""
    brokers: list[str] = cluster.brokers.get(f"/admin/v2/brokers/{cluster.name}", BROKER_NAMES)
    for broker in brokers:
        path = f"/admin/persistent/pulsar/{cluster.name}/{broker}/healthcheck?force=true"
        cluster.brokers.change("DELETE", path, accept=_GONE)
    return brokers


def remove_ledgers(cluster: PulsarCluster, owners: Sequence[str]) -> None:
    """Wait until no ledger belongs to one of `owners`: namespaces, or brokers with their health checks.

    A ledger that stays for half a second is deleted. Raises DeadlineError if one is still there after a while.
    """
    seen: set[int] = set()

    def are_gone() -> bool:
        listed: dict[int, str] = cluster.bookies.get("/api/v1/ledger/list/", LEDGERS, print_metadata="true")
        # The metadata names a topic, or the topic of a schema.
        left = {ledger for ledger, metadata in listed.items() if any(f"{owner}/" in metadata for owner in owners)}
        for ledger in left & seen:
            cluster.bookies.change("DELETE", f"/api/v1/ledger/delete/?ledger_id={ledger}", accept=_NOT_DELETED)
        seen.update(left)
        return not left

    clock.wait_until(are_gone, timeout_s=_REMOVAL_S, what="the ledgers of earlier runs to be gone", every_s=0.5)
