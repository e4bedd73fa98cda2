"""The observation of Pulsar's clusters. Each method asks one cluster, or all clusters, about their state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property

from brokerproof.errors import AdminError
from brokerproof.run.directory import Run
from brokerproof.run.observations import Sample
from brokerproof.run.records import Behind, ReplicationDrain, SubscriptionDrain
from brokerproof.systems.clients import Position
from brokerproof.systems.destinations import list_clusters_reached
from brokerproof.systems.protocols import Coordinators, SegmentCopies, TopicLog
from brokerproof.systems.pulsar.answers import TOPIC_INTERNALS, TOPIC_STATS, EntryPosition, SubscriptionStats
from brokerproof.systems.pulsar.cluster import PulsarCluster, make_clusters
from brokerproof.systems.pulsar.copies import count_under_replicated, find_copies, find_holders, find_parts
from brokerproof.systems.pulsar.roles import Role
from brokerproof.systems.pulsar.samplers import ClusterSamplers

# The prefix of a replicator's cursor, before the other cluster's name (`replicatorPrefix` in broker.conf).
_REPLICATOR = "pulsar.repl."


def find_subscription_drains(cluster: PulsarCluster) -> list[SubscriptionDrain]:
    """Return, for each partition and subscription, whether the subscription has drained: its precise backlog is 0.

    A subscription that moves between clusters is included only in its last cluster. If the cluster does not answer, a
    subscription counts as not drained, and `why` has the reason.
    """
    drains: list[SubscriptionDrain] = []
    subscriptions = [
        one.name for one in cluster.subscriptions if one.list_clusters(cluster.topology)[-1] == cluster.name
    ]
    for number, path in cluster.partitions if subscriptions else []:
        found: dict[str, SubscriptionStats] = {}
        end: Behind | None = None
        try:
            if cluster.run.scenario.workload.is_stored:
                # The end is read before the backlog. Otherwise it could include messages that the backlog does not
                # count.
                ledger, entry = cluster.brokers.get(path + "/internalStats", TOPIC_INTERNALS).last_confirmed_entry
                end = ledger, entry + 1
            found = cluster.brokers.get(path + "/stats", TOPIC_STATS, getPreciseBacklog="true").subscriptions
            why = "the subscription is not there"
        except AdminError as error:
            why = str(error)
        for name in subscriptions:
            backlog = found[name].msg_backlog if name in found else None
            drains.append(
                SubscriptionDrain(
                    cluster=cluster.name,
                    topic=cluster.topic,
                    partition=number,
                    subscription=name,
                    drained=backlog == 0,
                    backlog=backlog,
                    end=end,
                    why=why if backlog is None else f"precise backlog {backlog}",
                )
            )
    return drains


def find_replication_drains(cluster: PulsarCluster) -> list[ReplicationDrain]:
    """Return, for each other cluster, whether replication of the topic to it has drained.

    It has drained if each partition's replicator has its cursor at the last confirmed entry, and the backlog is 0. The
    cursor passes an entry once the other cluster has acknowledged it. The backlog alone is not enough, because Pulsar
    estimates it (`getNumberOfEntriesInBacklog(false)`), even with `getPreciseBacklog`.
    """
    drains = []
    for other in cluster.others:
        backlog: int | None = None
        ends: dict[int, Behind] = {}
        behind: list[str] = []
        try:
            replicators: list[int] = []
            for number, path in cluster.partitions:
                where = f"partition {number}" if number >= 0 else "the topic"
                inside = cluster.brokers.get(path + "/internalStats", TOPIC_INTERNALS)
                ends[number] = inside.last_confirmed_entry.ledger, inside.last_confirmed_entry.entry + 1
                cursor = inside.cursors.get(_REPLICATOR + other)
                if cursor is None:
                    behind.append(f"{where} has no replicator")
                elif cursor.mark_delete_position < inside.last_confirmed_entry:
                    at, end = cursor.mark_delete_position, inside.last_confirmed_entry
                    behind.append(f"the replicator of {where} is at {at} of {end}")
                stats = cluster.brokers.get(path + "/stats", TOPIC_STATS).replication.get(other)
                replicators.append(stats.replication_backlog if stats else 0)
            backlog = sum(replicators)
        except AdminError as error:
            behind.append(str(error))
        drains.append(
            ReplicationDrain(
                topic=cluster.topic,
                sender=cluster.name,
                receiver=other,
                drained=not behind and backlog == 0,
                backlog=backlog,
                ends=ends,
                why="; ".join(behind) or f"every replicator at the end of its log, backlog {backlog}",
            )
        )
    return drains


def find_acknowledged(cluster: PulsarCluster, subscription: str) -> dict[int, Position]:
    """Return {partition: position}, read from the subscription's cursor in each partition.

    Every entry before the position is acknowledged. Partitions without the cursor are left out.
    """
    found: dict[int, Position] = {}
    for number, path in cluster.partitions:
        cursor = cluster.brokers.get(path + "/internalStats", TOPIC_INTERNALS).cursors.get(subscription)
        if cursor is not None:
            ledger, entry = cursor.mark_delete_position
            found[number] = Position(ledger, entry + 1)
    return found


# The search for the last message gives up after this many markers. Pulsar writes one round of markers a second, and
# only while messages are published.
_MOST_MARKERS = 1000


def find_logs(cluster: PulsarCluster) -> list[TopicLog]:
    """Return the log of every partition. A log's end is the position after the last entry that readers get.

    An empty log has no end. If no broker answers as expected, `why` has the reason.
    """
    found: list[TopicLog] = []
    for number, path in cluster.partitions:
        try:
            last = _last_message(cluster, path)
        except AdminError as error:
            found.append(TopicLog(cluster=cluster.name, partition=number, why=str(error)))
        else:
            end = None if last is None else Position(last.ledger, last.entry + 1)
            found.append(TopicLog(cluster=cluster.name, partition=number, end=end))
    return found


def _last_message(cluster: PulsarCluster, path: str) -> EntryPosition | None:
    """Return the position of the last confirmed entry that is a message; None if there is none.

    Entries with the state of replicated subscriptions (markers) are skipped, because readers do not get them
    (`AbstractBaseDispatcher.filterEntriesForConsumer`). Raises AdminError if the answers do not show the position.
    """
    inside = cluster.brokers.get(path + "/internalStats", TOPIC_INTERNALS)
    holds_markers = any(one.replicated for one in cluster.run.scenario.workload.subscriptions)
    entries = {each.ledger_id: each.entries for each in inside.ledgers}
    ledger, entry = inside.last_confirmed_entry
    for _ in range(_MOST_MARKERS):
        while entry < 0:
            earlier = [each for each in entries if each < ledger]
            if not earlier:
                return None
            ledger = max(earlier)
            entry = entries[ledger] - 1
        last = EntryPosition(ledger, entry)
        if not (holds_markers and _is_marker(cluster, path, last)):
            return last
        entry -= 1
    raise AdminError(f"the log of {path} ends with more than {_MOST_MARKERS} markers and no message")


def _is_marker(cluster: PulsarCluster, path: str, position: EntryPosition) -> bool:
    headers = cluster.brokers.get_headers(f"{path}/ledger/{position.ledger}/entry/{position.entry}")
    # A message has no marker's header, so an answer without the entry would look like a message
    # (`PersistentTopicsBase`).
    if headers.get("X-Pulsar-Message-ID") != str(position):
        raise AdminError(f"the broker was asked for entry {position} of {path} and answered with another one")
    return "X-Pulsar-marker-type" in headers


class PulsarObservation:
    def __init__(self, run: Run, *, patience_s: float = 10.0) -> None:
        self.run, self.topology = run, run.topology
        self.clusters = make_clusters(run, patience_s=patience_s)

    @cached_property
    def home(self) -> PulsarCluster:
        """The first cluster that the topic is published to."""
        return self.clusters[self._homes[0]]

    @property
    def _homes(self) -> list[str]:
        return self.run.scenario.workload.list_homes(self.topology)

    @cached_property
    def holding(self) -> list[PulsarCluster]:
        """The clusters that hold the topic: those with producers, and those that replication must reach."""
        return [self.clusters[name] for name in list_clusters_reached(self.topology, self.run.scenario.workload)]

    @property
    def _log_clusters(self) -> list[PulsarCluster]:
        """The clusters in which the topic has logs: none if it stores no messages."""
        return self.holding if self.run.scenario.workload.is_stored else []

    def find_owner(self, cluster: str | None = None) -> str | None:
        """Return the broker that owns the topic, never None: the lookup service assigns a topic that has no owner."""
        return self._find_cluster(cluster).find_owner()

    def find_holders(self, cluster: str | None = None) -> list[str]:
        return find_holders(self._find_cluster(cluster))

    def find_coordinators(self, cluster: str | None = None) -> Coordinators:
        return self._find_cluster(cluster).metadata_store.find_coordinators()

    def list_alive(self) -> dict[str, list[str]]:
        clusters = self.clusters.values()
        return {
            Role.BROKER: [name for cluster in clusters for name in cluster.list_alive_brokers()],
            Role.BOOKIE: [name for cluster in clusters for name in cluster.list_alive_bookies()],
        }

    def samplers(self) -> Mapping[str, Callable[[], list[Sample]]]:
        """Return {name: function that takes samples}, one for each part of a cluster that can fail on its own.

        If the run has several clusters, the names begin with `CLUSTER/`.
        """
        return {
            (f"{name}/{what}" if len(self.clusters) > 1 else what): sampler
            for name, cluster in self.clusters.items()
            for what, sampler in ClusterSamplers(cluster).list_samplers().items()
        }

    def count_under_replicated(self) -> int:
        return sum(count_under_replicated(cluster) for cluster in self.clusters.values())

    def count_published(self) -> int:
        return sum(self.clusters[name].count_published() for name in self._homes)

    def find_copies(self, without: Collection[str] = ()) -> list[SegmentCopies]:
        return [each for cluster in self._log_clusters if cluster.name not in without for each in find_copies(cluster)]

    def find_parts(self, cluster: str, partition: int) -> list[tuple[Position, Position]]:
        return find_parts(self.clusters[cluster], partition)

    def find_subscription_drains(self) -> list[SubscriptionDrain]:
        return [drain for cluster in self.holding for drain in find_subscription_drains(cluster)]

    def find_replication_drains(self) -> list[ReplicationDrain]:
        return [drain for name in self._homes for drain in find_replication_drains(self.clusters[name])]

    def find_acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
        return find_acknowledged(self.clusters[cluster], subscription)

    def find_logs(self, cluster: str | None = None) -> list[TopicLog]:
        return [log for each in self._log_clusters if cluster in (None, each.name) for log in find_logs(each)]

    def _find_cluster(self, cluster: str | None) -> PulsarCluster:
        return self.home if cluster is None else self.clusters[cluster]
