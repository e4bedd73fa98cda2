"""The Pulsar driver: a topology's nodes, its policies, and what the cluster says about itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any
from urllib.parse import urlparse

import httpx

from brokerproof import clock
from brokerproof.drivers.base import Sample
from brokerproof.drivers.clients import Position
from brokerproof.drivers.pulsar import class_data, nodes, policies
from brokerproof.drivers.pulsar.admin import Admin
from brokerproof.drivers.pulsar.distribution import distribution
from brokerproof.drivers.pulsar.metrics import bookie_counters
from brokerproof.drivers.pulsar.sight import Sight
from brokerproof.errors import AdminError
from brokerproof.java import java_home
from brokerproof.link.routes import Route
from brokerproof.run import Run
from brokerproof.runtimes.base import NodeSpec
from brokerproof.topology import Cluster, Role


class PulsarDriver:
    """Pulsar for one run."""

    def __init__(self, run: Run, *, patience_s: float = 10.0) -> None:
        self.run = run
        self._patience_s = patience_s
        self.topology = run.topology
        self.addresses: Mapping[str, str] = run.facts["addresses"]
        self._sight = Sight.of(run)
        self._node_at = {host: name for hosts in (self.addresses, self._sight.hosts) for name, host in hosts.items()}
        self._http = httpx.Client(timeout=httpx.Timeout(min(5.0, patience_s), connect=1.0), trust_env=False)

    @cached_property
    def layout(self) -> nodes.Layout:
        """Fetches the distribution if the cache lacks it."""
        return nodes.Layout(
            distribution=distribution(self.run.scenario.version),
            java=java_home() / "bin" / "java",
            sight=self._sight,
        )

    @cached_property
    def home(self) -> str:
        """The cluster that the topic is published to; with several, the first."""
        return (self.run.scenario.workload.produce_on or list(self.topology.clusters))[0]

    @cached_property
    def cluster(self) -> Cluster:
        """The home cluster."""
        return self.topology.clusters[self.home]

    @cached_property
    def brokers(self) -> Admin:
        """Admin REST of the home cluster's brokers."""
        return self._admin(Role.BROKER, nodes.BROKER_HTTP_PORT)

    @cached_property
    def bookies(self) -> Admin:
        """HTTP API of the home cluster's bookies."""
        return self._admin(Role.BOOKIE, nodes.BOOKIE_HTTP_PORT)

    def _admin(self, role: Role, port: int) -> Admin:
        stores = {self.topology.nodes[name].region for name in self.cluster.names(role=Role.METADATA)}
        # A node that is cut off from the metadata store answers from memory, so those beside it are asked first.
        names = sorted(self.cluster.names(role=role), key=lambda name: self.topology.nodes[name].region not in stores)
        return Admin([f"http://{self.addresses[name]}:{port}" for name in names], timeout_s=self._patience_s)

    # The nodes' life

    def specs(self) -> Mapping[str, NodeSpec]:
        """Every node of the topology, by name."""
        return {
            name: spec
            for cluster in self.topology.clusters
            for name, spec in nodes.node_specs(self.layout, cluster).items()
        }

    def routes(self) -> list[Route]:
        """Of nodes by name, and of brokers and clients by listener."""
        return self._sight.routes()

    def start_order(self) -> list[list[str]]:
        """Metadata stores, then bookies, then brokers."""
        return [
            [name for name, node in self.topology.nodes.items() if node.role is role]
            for role in (Role.METADATA, Role.BOOKIE, Role.BROKER)
        ]

    def initialize(self) -> tuple[str, ...]:
        """Writes the cluster's metadata."""
        return nodes.initialize_command(self.layout, self.home)

    def healthy(self, spec: NodeSpec) -> bool:
        """GET of the node's health endpoint answers 200."""
        return self._answers(spec.health_url)

    def ready(self, spec: NodeSpec) -> bool:
        """GET of the node's ready endpoint, if it has one, or else of its health endpoint, answers 200."""
        return self._answers(spec.ready_url or spec.health_url)

    def learn(self, pids: Mapping[str, int]) -> None:
        """Class data archives of the roles that lack one."""
        for role in Role:
            kept = class_data.archive(
                role,
                java=self.layout.java,
                version=self.layout.distribution.version,
                heap_mb=self.topology.heap_mb[role],
            )
            node = next((name for name in pids if self.topology.nodes[name].role is role), None)
            if node is not None and not kept.exists():
                class_data.dump(kept, java=self.layout.java, pid=pids[node])

    def _answers(self, url: str) -> bool:
        try:
            return self._http.get(url).status_code == 200
        except httpx.TransportError:
            return False

    # Policies

    def configure(self) -> list[str]:
        """Racks, tenants, namespaces, isolation; brokers restart because they look their own region up once."""
        policies.apply(self.brokers, self.home, self.topology, self._sight.hosts, self.run.scenario.workload)
        return self.cluster.names(role=Role.BROKER)

    def check_configuration(self) -> None:
        """Everything that `configure` set, read back."""
        policies.check(self.brokers, self.home, self.topology, self._sight.hosts, self.run.scenario.workload)

    # What the cluster says

    @cached_property
    def _topic_path(self) -> str:
        return "/admin/v2/persistent/" + self.run.scenario.topic.removeprefix("persistent://")

    @cached_property
    def partitions(self) -> list[tuple[int, str]]:
        """(number, admin path) of each partition; number -1 for a topic without."""
        count = self.run.scenario.workload.partitions
        if count == 0:
            return [(-1, self._topic_path)]
        return [(number, f"{self._topic_path}-partition-{number}") for number in range(count)]

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
        metadata = self._ledger_metadata(int(ledgers[-1]["ledgerId"]))
        return [self._node_at[address] for address in _ensembles(metadata)[-1][1]]

    def alive(self) -> dict[str, list[str]]:
        """Brokers as they registered themselves; bookies that registered as writable."""
        brokers = self.brokers.get(f"/admin/v2/brokers/{self.home}")
        return {
            "brokers": sorted(self._names(broker.rsplit(":", 1)[0] for broker in brokers)),
            "bookies": self._writable_bookies(),
        }

    def _writable_bookies(self) -> list[str]:
        listed = self.bookies.get("/api/v1/bookie/list_bookies", type="rw")
        return sorted(self._names(bookie.rsplit(":", 1)[0] for bookie in listed))

    def under_replicated(self) -> int | None:
        """Count of the ledgers that auto-recovery's metadata lists."""
        listed = self.bookies.find("/api/v1/autorecovery/list_under_replicated_ledger")
        return 0 if listed is None else len(listed)

    def published(self) -> int:
        """Sum of the partitions' msgInCounter."""
        return sum(self.brokers.get(path + "/stats")["msgInCounter"] for _, path in self.partitions)

    def samplers(self) -> Mapping[str, Callable[[], list[Sample]]]:
        """One for each thing that can be slow or dead by itself."""
        return {
            "brokers": self._sample_cluster_brokers,
            "bookies": self._sample_cluster_bookies,
            "repair": self._sample_repair,
            "owner": self._sample_owner,
            "topic": self._sample_topic,
            **{name: partial(self._sample_bookie, name) for name in self.cluster.names(role=Role.BOOKIE)},
        }

    def _sample_cluster_brokers(self) -> list[Sample]:
        brokers = self.brokers.get(f"/admin/v2/brokers/{self.home}")
        names = sorted(self._names(broker.rsplit(":", 1)[0] for broker in brokers))
        return [_sample(f"cluster:{self.home}", "alive_brokers", json.dumps(names))]

    def _sample_cluster_bookies(self) -> list[Sample]:
        return [_sample(f"cluster:{self.home}", "alive_bookies", json.dumps(self._writable_bookies()))]

    def _sample_repair(self) -> list[Sample]:
        return [_sample(f"cluster:{self.home}", "under_replicated_ledgers", str(self.under_replicated()))]

    def _sample_owner(self) -> list[Sample]:
        return [_sample(f"topic:{self.run.scenario.topic}", "owner", self.owner() or "")]

    def _sample_topic(self) -> list[Sample]:
        source = f"topic:{self.run.scenario.topic}"
        stats = [self.brokers.get(path + "/stats") for _, path in self.partitions]
        rows = [_sample(source, "published", str(sum(one["msgInCounter"] for one in stats)))]
        for subscription in self.run.scenario.workload.subscriptions:
            found = [
                one["subscriptions"][subscription.name] for one in stats if subscription.name in one["subscriptions"]
            ]
            if found:
                rows.append(
                    _sample(source, f"backlog:{subscription.name}", str(sum(one["msgBacklog"] for one in found)))
                )
                rows.append(
                    _sample(source, f"delivered:{subscription.name}", str(sum(one["msgOutCounter"] for one in found)))
                )
        return rows

    def _sample_bookie(self, name: str) -> list[Sample]:
        text = self._http.get(f"http://{self.addresses[name]}:{nodes.BOOKIE_HTTP_PORT}/metrics").text
        at = clock.now_us()
        return [
            Sample(at=at, source=f"bookie:{name}", metric=metric, value=str(value))
            for metric, value in bookie_counters(text).items()
        ]

    # Where entries are

    def ledgers(self, moment: str) -> list[dict[str, Any]]:
        """One row per ensemble segment, from BookKeeper's metadata."""
        at = clock.now_us()
        writable = set(self._writable_bookies())
        required = [
            region
            for region in self.cluster.regions
            if writable.intersection(self.cluster.names(role=Role.BOOKIE, region=region))
        ]
        rows: list[dict[str, Any]] = []
        for number, path in self.partitions:
            for ledger in self.brokers.get(path + "/internalStats")["ledgers"]:
                metadata = self._ledger_metadata(int(ledger["ledgerId"]))
                for first_entry, addresses in _ensembles(metadata):
                    bookies = [self._node_at.get(address, address) for address in addresses]
                    rows.append(
                        {
                            "run_id": self.run.run_id,
                            "cluster": self.home,
                            "topic": self.run.scenario.topic,
                            "partition": number,
                            "at": at,
                            "moment": moment,
                            "ledger_id": int(ledger["ledgerId"]),
                            "first_entry": first_entry,
                            "state": str(metadata.get("state")),
                            "bookies": bookies,
                            "regions": sorted(
                                {self.topology.nodes[name].region for name in bookies if name in self.topology.nodes}
                            ),
                            "regions_required": required,
                        }
                    )
        return rows

    def _ledger_metadata(self, ledger: int) -> dict[str, Any]:
        found = self.bookies.get("/api/v1/ledger/metadata/", ledger_id=ledger)
        return found[str(ledger)]

    # Drains

    def drained(self) -> list[dict[str, Any]]:
        """From each cursor: nothing left before the last confirmed entry, and nothing unacknowledged."""
        rows: list[dict[str, Any]] = []
        for number, path in self.partitions:
            stats = self.brokers.get(path + "/stats", getPreciseBacklog="true")
            for subscription in self.run.scenario.workload.subscriptions:
                found = stats["subscriptions"].get(subscription.name)
                backlog = None if found is None else int(found["msgBacklog"])
                rows.append(
                    {
                        "cluster": self.home,
                        "topic": self.run.scenario.topic,
                        "partition": number,
                        "subscription": subscription.name,
                        "drained": backlog == 0,
                        "backlog": backlog,
                        "why": "the subscription is not there" if found is None else f"precise backlog {backlog}",
                    }
                )
        return rows

    def acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
        """For each partition, up to where everything is acknowledged: the cursor's mark-delete position."""
        found: dict[int, Position] = {}
        for number, path in self.partitions:
            cursor = self.brokers.get(path + "/internalStats")["cursors"].get(subscription)
            if cursor is not None:
                ledger, entry = cursor["markDeletePosition"].split(":")
                found[number] = Position(int(ledger), int(entry), None)
        return found

    def logs(self) -> list[dict[str, Any]]:
        """The partitions with the position of the last confirmed entry, null for an empty log."""
        rows: list[dict[str, Any]] = []
        for number, path in self.partitions:
            ledger, entry = self.brokers.get(path + "/internalStats")["lastConfirmedEntry"].split(":")
            last = None if int(entry) < 0 else [int(ledger), int(entry)]
            rows.append({"cluster": self.home, "partition": number, "last_confirmed": last})
        return rows

    def reassign(self) -> None:
        """Unload the bundles that the partitions are in: to unload a topic alone leaves it with its owner."""
        for _, path in self.partitions:
            bundle = self.brokers.get(path.replace("/admin/v2/", "/lookup/v2/topic/", 1) + "/bundle")
            self.brokers.change("PUT", f"/admin/v2/namespaces/{self.run.scenario.workload.namespace}/{bundle}/unload")

    def unload(self) -> None:
        """Close the topic, so that what follows is read from bookies and not from a broker's cache."""
        for _, path in self.partitions:
            self.brokers.change("PUT", path + "/unload")

    def _names(self, addresses: Iterable[str]) -> list[str]:
        return [self._node_at.get(address, address) for address in addresses]


def _sample(source: str, metric: str, value: str) -> Sample:
    return Sample(at=clock.now_us(), source=source, metric=metric, value=value)


def _ensembles(metadata: Mapping[str, Any]) -> list[tuple[int, list[str]]]:
    """(first entry, bookies' addresses) of each segment, in order."""
    segments = metadata.get("allEnsembles") or metadata["ensembles"]
    return sorted((int(first), [_host(bookie) for bookie in bookies]) for first, bookies in segments.items())


def _host(bookie: Any) -> str:
    """The address of `ADDRESS:PORT`, which is an object with an `id` in some versions of the API."""
    return str(bookie["id"] if isinstance(bookie, dict) else bookie).rsplit(":", 1)[0]
