"""One Pulsar cluster of a run: the requests to its nodes, the nodes that are alive, and the topic's owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TypeVar

from pydantic import TypeAdapter

from brokerproof.errors import AdminError
from brokerproof.experiment.workload import Subscription
from brokerproof.run.directory import Run
from brokerproof.systems.destinations import list_present_partitions
from brokerproof.systems.protocols import Coordinators
from brokerproof.systems.pulsar import answers, metadata_store, topic
from brokerproof.systems.pulsar.addressing import BOOKIE_HTTP_PORT, BROKER_HTTP_PORT, METADATA_ADMIN_PORT, Addressing
from brokerproof.systems.pulsar.admin import Admin
from brokerproof.systems.pulsar.replication import list_clusters_reached
from brokerproof.systems.pulsar.roles import Role

_Answer = TypeVar("_Answer")


class MetadataAdmin:
    """The AdminServers (ZooKeeper's HTTP interface) of a metadata store's nodes."""

    def __init__(self, urls: Mapping[str, str], *, timeout_s: float) -> None:
        """`urls` is {node: URL of its AdminServer}."""
        self._nodes = {name: Admin([url], timeout_s=timeout_s) for name, url in urls.items()}

    def get(self, path: str, expected: TypeAdapter[_Answer]) -> _Answer:
        """Return the first valid answer of the metadata store's nodes in turn. Raises AdminError if there is none."""
        problems: list[str] = []
        for admin in self._nodes.values():
            try:
                return admin.get(path, expected)
            except AdminError as error:
                problems.append(str(error))
        raise AdminError(f"no node of the metadata store serves: {'; '.join(problems)}")

    def find_coordinators(self) -> Coordinators:
        """Return the leader of the metadata store and the leader's followers.

        Raises AdminError unless exactly one node answers that it leads.
        """
        leads: dict[str, bool] = {}
        problems: list[str] = []
        for name, admin in self._nodes.items():
            try:
                leads[name] = admin.get("/commands/leader", answers.LEADERSHIP).is_leader
            except AdminError as error:
                problems.append(str(error))
        leaders = [name for name, leading in leads.items() if leading]
        if len(leaders) > 1:
            # All but one of them have not noticed yet that they lost their followers.
            raise AdminError(f"several nodes of the metadata store answer that they lead: {', '.join(leaders)}")
        if not leaders:
            raise AdminError("; ".join(["no node of the metadata store says that it leads", *problems]))
        return Coordinators(leader=leaders[0], followers=[name for name, leading in leads.items() if not leading])


def make_clusters(run: Run, *, patience_s: float = 10.0) -> dict[str, PulsarCluster]:
    """Return {name: cluster} of a run. Each request waits `patience_s` seconds for a node's answer."""
    return {name: PulsarCluster(run, name, patience_s=patience_s) for name in run.topology.clusters}


class PulsarCluster:
    """One cluster. Requests go to the HTTP APIs of its brokers, bookies and metadata store."""

    def __init__(self, run: Run, name: str, *, patience_s: float) -> None:
        self.run, self.name, self.topology = run, name, run.topology
        self.topic = topic.make_full_name(run.scenario.workload)
        self.addresses: Mapping[str, str] = run.facts.addresses
        hosts = Addressing.from_run(run).hosts
        self._node_at = {host: node for known in (self.addresses, hosts) for node, host in known.items()}
        self.patience_s = patience_s

    @cached_property
    def brokers(self) -> Admin:
        return self._admin(Role.BROKER, BROKER_HTTP_PORT)

    @cached_property
    def bookies(self) -> Admin:
        return self._admin(Role.BOOKIE, BOOKIE_HTTP_PORT)

    @cached_property
    def metadata_store(self) -> MetadataAdmin:
        names = metadata_store.nodes(self.topology, self.name)
        urls = {name: f"http://{self.addresses[name]}:{METADATA_ADMIN_PORT}" for name in names}
        return MetadataAdmin(urls, timeout_s=self.patience_s)

    def _admin(self, role: Role, port: int) -> Admin:
        stores = Counter(self.topology.nodes[name].region for name in metadata_store.nodes(self.topology, self.name))
        # A node that is cut off from the metadata store answers from memory, so the nodes in the region with most of
        # the store's nodes are asked first.
        names = sorted(self.names(role=role), key=lambda name: -stores[self.topology.nodes[name].region])
        return Admin([f"http://{self.addresses[name]}:{port}" for name in names], timeout_s=self.patience_s)

    @property
    def partitions(self) -> list[tuple[int, str]]:
        """(number, admin path) of each partition that there is now. A topic without partitions has the number -1."""
        return self.list_paths(list_present_partitions(self.run))

    def list_paths(self, partitions: Iterable[int]) -> list[tuple[int, str]]:
        """Return (number, admin path) of partitions."""
        path = topic.make_admin_path(self.topic)
        return [(number, path if number < 0 else f"{path}-partition-{number}") for number in partitions]

    @cached_property
    def others(self) -> list[str]:
        """The clusters that this cluster replicates the topic to."""
        return list_clusters_reached(self.topology, self.name, topic.parse_namespace(self.topic))[1:]

    def find_owner(self, path: str | None = None) -> str:
        """Return the broker that owns the partition with the admin path `path`, or by default the first partition.

        The lookup service answers, and assigns the partition if no broker owns it. Raises AdminError if no broker
        answers, or if the owner is no node of the run.
        """
        path = (path or self.partitions[0][1]).replace("/admin/v2/", "/lookup/v2/topic/", 1)
        host = self.brokers.get(path, answers.TOPIC_LOOKUP).broker_host
        if host not in self._node_at:
            raise AdminError(f"GET {path} names the owner {host}, which is no node of this run")
        return self._node_at[host]

    def list_alive_brokers(self) -> list[str]:
        """Return the registered brokers. If no broker answers, the metadata store is asked."""
        try:
            hosts = self.brokers.get(f"/admin/v2/brokers/{self.name}", answers.BROKERS)
        except AdminError:
            hosts = self._list_registered(metadata_store.BROKERS)
        return sorted(self.node_names(hosts))

    def list_alive_bookies(self) -> list[str]:
        """Return the bookies that registered as writable. If no bookie answers, the metadata store is asked."""
        try:
            bookies = self.bookies.get("/api/v1/bookie/list_bookies", answers.BOOKIES, type="rw")
        except AdminError:
            return sorted(self.node_names(self._list_registered(metadata_store.BOOKIES)))
        return sorted(self.node_names(bookies))

    def _list_registered(self, folder: str) -> list[str]:
        """Return the hosts registered in `folder` of the metadata store, read from the store's list of sessions."""
        folder = f"{metadata_store.chroot(self.topology, self.name)}{folder}/"
        sessions = self.metadata_store.get("/commands/dump", answers.SESSIONS).session_id_to_ephemeral_paths.values()
        found = [path.removeprefix(folder) for held in sessions for path in held if path.startswith(folder)]
        try:
            # Read-only bookies are one level further down.
            return [answers.parse_host(name) for name in found if "/" not in name]
        except ValueError as error:
            raise AdminError(f"{folder} in the metadata store holds something else than nodes: {error}") from None

    def count_published(self) -> int:
        """Return the sum of the partitions' `msgInCounter`, without messages replicated to this cluster."""
        stats = [self.brokers.get(path + "/stats", answers.TOPIC_STATS) for _, path in self.partitions]
        replicated = (other.msg_in_count for one in stats for other in one.replication.values())
        return sum(one.msg_in_counter for one in stats) - sum(replicated)

    @cached_property
    def subscriptions(self) -> list[Subscription]:
        """The workload's subscriptions that consume from this cluster, from the start or after they move to it."""
        return [
            one
            for one in self.run.scenario.workload.known_subscriptions
            if self.name in one.list_clusters(self.topology)
        ]

    def names(self, role: Role, region: str | None = None) -> list[str]:
        """Return the cluster's nodes of a role, in a region or in all regions."""
        return self.topology.clusters[self.name].names(role=role, region=region)

    def node_names(self, hosts: Iterable[str]) -> list[str]:
        """Return the names of the nodes with these host names or addresses. An unknown host is returned as it is."""
        return [self._node_at.get(host, host) for host in hosts]
