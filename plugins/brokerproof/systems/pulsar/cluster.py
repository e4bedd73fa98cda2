"""What one Pulsar cluster of a run says about itself: its nodes, the topic's owner, entries, backlogs, replication."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any
from urllib.parse import urlparse

import httpx

from brokerproof import clock
from brokerproof.errors import AdminError
from brokerproof.experiment.workload import Subscription
from brokerproof.run.directory import Run
from brokerproof.run.observations import Metric, Sample, Source, list_value, topic_source
from brokerproof.run.records import ReplicationDrain, SubscriptionDrain
from brokerproof.systems import destinations
from brokerproof.systems.clients import Position
from brokerproof.systems.protocols import Log, SegmentCopies
from brokerproof.systems.pulsar import metadata_store, topic
from brokerproof.systems.pulsar.addressing import (
    BOOKIE_HTTP_PORT,
    BROKER_HTTP_PORT,
    METADATA_ADMIN_PORT,
    Addressing,
)
from brokerproof.systems.pulsar.admin import Admin
from brokerproof.systems.pulsar.bookie_metrics import bookie_counters
from brokerproof.systems.pulsar.policies import storing_regions
from brokerproof.systems.pulsar.replication import clusters_reached
from brokerproof.systems.pulsar.roles import Role

# The cursor of a replicator is called so, with the other cluster's name behind it (`replicatorPrefix` in broker.conf).
_REPLICATOR = "pulsar.repl."
# One round of them is taken a second, and none while nothing is published.
_MOST_MARKERS = 1000


def clusters_of(run: Run, *, patience_s: float = 10.0) -> dict[str, PulsarCluster]:
    """Every cluster of a run, by name; a node's answer is waited for `patience_s` seconds."""
    return {name: PulsarCluster(run, name, patience_s=patience_s) for name in run.topology.clusters}


class PulsarCluster:
    """One cluster, asked over its own brokers' and bookies' REST."""

    def __init__(self, run: Run, name: str, *, patience_s: float) -> None:
        self.run, self.name, self.topology = run, name, run.topology
        self.cluster = self.topology.clusters[name]
        self.topic = topic.full_name(run.scenario.workload)
        self._addresses: Mapping[str, str] = run.facts["addresses"]
        hosts = Addressing.of(run).hosts
        self._node_at = {host: node for known in (self._addresses, hosts) for node, host in known.items()}
        self._patience_s = patience_s
        self._http = httpx.Client(timeout=httpx.Timeout(min(5.0, patience_s), connect=1.0), trust_env=False)

    @cached_property
    def brokers(self) -> Admin:
        """Admin REST of the brokers."""
        return self._admin(Role.BROKER, BROKER_HTTP_PORT)

    @cached_property
    def bookies(self) -> Admin:
        """HTTP API of the bookies."""
        return self._admin(Role.BOOKIE, BOOKIE_HTTP_PORT)

    @cached_property
    def metadata_store(self) -> Admin:
        """AdminServer of the metadata store's nodes."""
        names = metadata_store.nodes(self.topology, self.name)
        urls = [f"http://{self._addresses[name]}:{METADATA_ADMIN_PORT}" for name in names]
        return Admin(urls, timeout_s=self._patience_s)

    def _admin(self, role: Role, port: int) -> Admin:
        stores = {self.topology.nodes[name].region for name in metadata_store.nodes(self.topology, self.name)}
        # A node that is cut off from the metadata store answers from memory, so those beside it are asked first.
        names = sorted(self.cluster.names(role=role), key=lambda name: self.topology.nodes[name].region not in stores)
        return Admin([f"http://{self._addresses[name]}:{port}" for name in names], timeout_s=self._patience_s)

    @cached_property
    def partitions(self) -> list[tuple[int, str]]:
        """(number, admin path) of each partition; number -1 for a topic without."""
        path = topic.admin_path(self.topic)
        count = self.run.scenario.workload.partitions
        if count == 0:
            return [(-1, path)]
        return [(number, f"{path}-partition-{number}") for number in range(count)]

    @cached_property
    def others(self) -> list[str]:
        """The clusters that the topic is replicated to from here."""
        return clusters_reached(self.topology, self.name, topic.namespace_of(self.topic))[1:]

    # Who is there

    def owner(self) -> str | None:
        """From the lookup service, which may assign the topic if nobody owns it."""
        path = self.partitions[0][1].replace("/admin/v2/", "/lookup/v2/topic/", 1)
        try:
            found = self.brokers.get(path)
        except AdminError:
            return None
        return self._node_at.get(urlparse(found["brokerUrl"]).hostname or "")

    def holders(self) -> list[str]:
        """The last segment's ensemble of the topic's open ledger."""
        ledgers = self.brokers.get(self.partitions[0][1] + "/internalStats")["ledgers"]
        segments = _ensembles(self._ledger_metadata(int(ledgers[-1]["ledgerId"])))
        return [self._node_at[address] for address in segments[-1][1]]

    def alive_brokers(self) -> list[str]:
        """Brokers as they registered themselves; where none of them answers, the metadata store is asked."""
        try:
            listed = self.brokers.get(f"/admin/v2/brokers/{self.name}")
        except AdminError:
            listed = self._registered(metadata_store.BROKERS)
        return sorted(self._names(broker.rsplit(":", 1)[0] for broker in listed))

    def alive_bookies(self) -> list[str]:
        """Bookies that registered as writable; where none of them answers, the metadata store is asked."""
        try:
            listed = self.bookies.get("/api/v1/bookie/list_bookies", type="rw")
        except AdminError:
            listed = self._registered(metadata_store.BOOKIES)
        return sorted(self._names(bookie.rsplit(":", 1)[0] for bookie in listed))

    def _registered(self, folder: str) -> list[str]:
        """What sessions hold in a folder of the metadata store, which lists all that they hold: it is asked last."""
        folder = f"{metadata_store.chroot(self.topology, self.name)}{folder}/"
        sessions = self.metadata_store.get("/commands/dump")["session_id_to_ephemeral_paths"].values()
        found = [path.removeprefix(folder) for held in sessions for path in held if path.startswith(folder)]
        # One level further down are those that serve reads only.
        return [name for name in found if "/" not in name]

    def under_replicated(self) -> int:
        """Count of the ledgers that auto-recovery's metadata lists."""
        listed = self.bookies.find("/api/v1/autorecovery/list_under_replicated_ledger")
        return 0 if listed is None else len(listed)

    def published(self) -> int:
        """Sum of the partitions' msgInCounter, without what was replicated to here, which it counts too."""
        stats = [self.brokers.get(path + "/stats") for _, path in self.partitions]
        replicated = (other["msgInCount"] for one in stats for other in one["replication"].values())
        return sum(one["msgInCounter"] for one in stats) - sum(replicated)

    # Samples

    def samplers(self) -> Mapping[str, Callable[[], list[Sample]]]:
        """One for each thing that can be slow or dead by itself."""
        here = self.name in destinations.clusters_reached(self.topology, self.run.scenario.workload)
        return {
            "brokers": self._sample_brokers,
            "bookies": self._sample_bookies,
            "repair": self._sample_repair,
            **({"owner": self._sample_owner, "topic": self._sample_topic} if here else {}),
            **{name: partial(self._sample_bookie, name) for name in self.cluster.names(role=Role.BOOKIE)},
        }

    @property
    def _topic_source(self) -> str:
        return topic_source(self.topic, self.name if len(self.topology.clusters) > 1 else None)

    def _sample_cluster(self, metric: str, value: str) -> list[Sample]:
        return [_sample(Source.CLUSTER.of(self.name), metric, value)]

    def _sample_brokers(self) -> list[Sample]:
        return self._sample_cluster(Metric.ALIVE.of(Role.BROKER), list_value(self.alive_brokers()))

    def _sample_bookies(self) -> list[Sample]:
        return self._sample_cluster(Metric.ALIVE.of(Role.BOOKIE), list_value(self.alive_bookies()))

    def _sample_repair(self) -> list[Sample]:
        return self._sample_cluster(Metric.UNDER_REPLICATED, str(self.under_replicated()))

    def _sample_owner(self) -> list[Sample]:
        return [_sample(self._topic_source, Metric.OWNER, self.owner() or "")]

    def _sample_topic(self) -> list[Sample]:
        source = self._topic_source
        stats = [self.brokers.get(path + "/stats") for _, path in self.partitions]
        rows = [_sample(source, Metric.PUBLISHED, str(sum(one["msgInCounter"] for one in stats)))]
        for name in [one.name for one in self._subscriptions()]:
            found = [one["subscriptions"][name] for one in stats if name in one["subscriptions"]]
            if found:
                rows.append(_sample(source, Metric.BACKLOG.of(name), str(sum(one["msgBacklog"] for one in found))))
                rows.append(_sample(source, Metric.DELIVERED.of(name), str(sum(one["msgOutCounter"] for one in found))))
        for other in self.others:
            found = [one["replication"][other] for one in stats if other in one["replication"]]
            if found:
                way = f"{self.name}>{other}"
                backlog = sum(one["replicationBacklog"] for one in found)
                delay_s = max(one["replicationDelayInSeconds"] for one in found)
                rows.append(_sample(source, Metric.REPLICATION_BACKLOG.of(way), str(backlog)))
                rows.append(_sample(source, Metric.REPLICATION_DELAY_S.of(way), str(delay_s)))
        return rows

    def _sample_bookie(self, name: str) -> list[Sample]:
        text = self._http.get(f"http://{self._addresses[name]}:{BOOKIE_HTTP_PORT}/metrics").text
        at = clock.now_us()
        return [
            Sample(at=at, source=Source.NODE.of(name), metric=metric, value=str(value))
            for metric, value in bookie_counters(text).items()
        ]

    # Where entries are

    def copies(self) -> list[SegmentCopies]:
        """One for each ensemble segment, from BookKeeper's metadata."""
        writable = set(self.alive_bookies())
        required = [
            region
            for region in storing_regions(self.cluster)
            if writable.intersection(self.cluster.names(role=Role.BOOKIE, region=region))
        ]
        found: list[SegmentCopies] = []
        for number, path in self.partitions:
            for ledger in self.brokers.get(path + "/internalStats")["ledgers"]:
                known = self._ledger_metadata(int(ledger["ledgerId"]))
                for first_entry, addresses in _ensembles(known):
                    bookies = [self._node_at.get(address, address) for address in addresses]
                    found.append(
                        SegmentCopies(
                            cluster=self.name,
                            partition=number,
                            segment=int(ledger["ledgerId"]),
                            first_offset=first_entry,
                            state=str(known.get("state")),
                            holders=bookies,
                            in_sync=bookies,
                            regions_required=required,
                        )
                    )
        return found

    def _ledger_metadata(self, ledger: int) -> dict[str, Any]:
        found = self.bookies.get("/api/v1/ledger/metadata/", ledger_id=ledger)
        return found[str(ledger)]

    # Drains

    def drained(self) -> list[SubscriptionDrain]:
        """From each cursor: nothing left before the last confirmed entry, and nothing unacknowledged."""
        drains: list[SubscriptionDrain] = []
        subscriptions = [one.name for one in self._subscriptions() if one.places(self.topology)[-1] == self.name]
        for number, path in self.partitions if subscriptions else []:
            try:
                found = self.brokers.get(path + "/stats", getPreciseBacklog="true")["subscriptions"]
                why = "the subscription is not there"
            except AdminError as error:
                found, why = {}, str(error)
            for name in subscriptions:
                backlog = int(found[name]["msgBacklog"]) if name in found else None
                drains.append(
                    SubscriptionDrain(
                        cluster=self.name,
                        topic=self.topic,
                        partition=number,
                        subscription=name,
                        drained=backlog == 0,
                        backlog=backlog,
                        why=why if backlog is None else f"precise backlog {backlog}",
                    )
                )
        return drains

    def replicated(self) -> list[ReplicationDrain]:
        """To each other cluster: whether the replicators' cursors are at the last confirmed entry of every partition.

        A cursor passes an entry when the other cluster has acknowledged it. The stats' own `replicationBacklog` is
        not enough: it is an estimate (`getNumberOfEntriesInBacklog(false)`), `getPreciseBacklog` or not.
        """
        drains = []
        for other in self.others:
            backlog, behind = 0, []
            try:
                for number, path in self.partitions:
                    where = f"partition {number}" if number >= 0 else "the topic"
                    inside = self.brokers.get(path + "/internalStats")
                    cursor = inside["cursors"].get(_REPLICATOR + other)
                    if cursor is None:
                        behind.append(f"{where} has no replicator")
                    elif _position(cursor["markDeletePosition"]) < _position(inside["lastConfirmedEntry"]):
                        at, end = cursor["markDeletePosition"], inside["lastConfirmedEntry"]
                        behind.append(f"the replicator of {where} is at {at} of {end}")
                    stats = self.brokers.get(path + "/stats")["replication"].get(other)
                    backlog += int(stats["replicationBacklog"]) if stats else 0
            except AdminError as error:
                behind.append(str(error))
            drains.append(
                ReplicationDrain(
                    topic=self.topic,
                    sender=self.name,
                    receiver=other,
                    drained=not behind and backlog == 0,
                    backlog=backlog,
                    why="; ".join(behind) or f"every replicator at the end of its log, backlog {backlog}",
                )
            )
        return drains

    def acknowledged(self, subscription: str) -> dict[int, Position]:
        """For each partition, what is behind the cursor's mark-delete position."""
        found: dict[int, Position] = {}
        for number, path in self.partitions:
            cursor = self.brokers.get(path + "/internalStats")["cursors"].get(subscription)
            if cursor is not None:
                ledger, entry = _position(cursor["markDeletePosition"])
                found[number] = Position(ledger, entry + 1)
        return found

    def logs(self) -> list[Log]:
        """The partitions with the position behind the last confirmed entry that readers get."""
        found: list[Log] = []
        for number, path in self.partitions:
            try:
                last = self._last_message(path)
            except AdminError as error:
                found.append(Log(cluster=self.name, partition=number, why=str(error)))
            else:
                end = None if last is None else Position(last[0], last[1] + 1)
                found.append(Log(cluster=self.name, partition=number, end=end))
        return found

    def _last_message(self, path: str) -> tuple[int, int] | None:
        """(ledger, entry) of the last confirmed entry that is no marker.

        The state of replicated subscriptions is kept in the topic's log, as entries that no reader gets
        (`AbstractBaseDispatcher.filterEntriesForConsumer`).
        """
        inside = self.brokers.get(path + "/internalStats")
        ledger, entry = _position(inside["lastConfirmedEntry"])
        if not any(one.replicated for one in self.run.scenario.workload.subscriptions):
            return None if entry < 0 else (ledger, entry)
        entries = {int(each["ledgerId"]): int(each["entries"]) for each in inside["ledgers"]}
        for _ in range(_MOST_MARKERS):
            while entry < 0:
                earlier = [each for each in entries if each < ledger]
                if not earlier:
                    return None
                ledger = max(earlier)
                entry = entries[ledger] - 1
            if self.brokers.header(f"{path}/ledger/{ledger}/entry/{entry}", "X-Pulsar-marker-type") is None:
                return ledger, entry
            entry -= 1
        raise AdminError(f"the log of {path} ends with more than {_MOST_MARKERS} markers and no message")

    def reassign(self) -> None:
        """Unload the bundles that the partitions are in: to unload a topic alone leaves it with its owner."""
        for _, path in self.partitions:
            bundle = self.brokers.get(path.replace("/admin/v2/", "/lookup/v2/topic/", 1) + "/bundle")
            self.brokers.change("PUT", f"/admin/v2/namespaces/{topic.namespace_of(self.topic)}/{bundle}/unload")

    def unload(self) -> None:
        """Close the topic, so that what follows is read from bookies and not from a broker's cache."""
        for _, path in self.partitions:
            self.brokers.change("PUT", path + "/unload")

    def _subscriptions(self) -> list[Subscription]:
        """The workload's subscriptions that are on this cluster at some time."""
        return [one for one in self.run.scenario.workload.subscriptions if self.name in one.places(self.topology)]

    def _names(self, addresses: Iterable[str]) -> list[str]:
        return [self._node_at.get(address, address) for address in addresses]


def _sample(source: str, metric: str, value: str) -> Sample:
    return Sample(at=clock.now_us(), source=source, metric=str(metric), value=value)


def _position(text: str) -> tuple[int, int]:
    """(ledger, entry) of `LEDGER:ENTRY`."""
    ledger, entry = text.split(":")
    return int(ledger), int(entry)


def _ensembles(metadata: Mapping[str, Any]) -> list[tuple[int, list[str]]]:
    """(first entry, bookies' addresses) of each segment, in order."""
    segments = metadata.get("allEnsembles") or metadata["ensembles"]
    return sorted((int(first), [_host(bookie) for bookie in bookies]) for first, bookies in segments.items())


def _host(bookie: Any) -> str:
    """The address of `ADDRESS:PORT`, which is an object with an `id` in some versions of the API."""
    return str(bookie["id"] if isinstance(bookie, dict) else bookie).rsplit(":", 1)[0]
