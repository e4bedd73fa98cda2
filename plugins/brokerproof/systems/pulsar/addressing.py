"""How nodes of Pulsar and its clients see nodes of other regions: names, addresses, listeners, routes.

Bookies and metadata stores are called by their names, which every node's own hosts file maps to what it has to use.
Brokers are called by addresses, because Pulsar's client resolves through Netty, which reads no hosts file of the JVM's:
each broker has a listener for every place that looks from a region, and a lookup names the listener that it asks for.
Admin requests are the platform's own. They reach every broker at its own address, also where one is passed on to
another, so that a cut link does not blind whoever measures it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from brokerproof.experiment.topology import Topology, name_brokers_place, name_clients_place
from brokerproof.network import Route
from brokerproof.run.directory import Run
from brokerproof.systems.pulsar.replication import regions_replicating_to
from brokerproof.systems.pulsar.roles import Role

METADATA_PORT, BOOKIE_PORT, BROKER_PORT = 2181, 3181, 6650
METADATA_ADMIN_PORT, METADATA_METRICS_PORT = 9990, 8000
BOOKIE_HTTP_PORT = 8000
BROKER_HTTP_PORT = 8080
# Where a broker listens for clients in its own region, because no two listeners may have one address and port.
CLIENTS_PORT = 6652

# Found by name, at the one port that other regions need.
_NAMED: Mapping[str, int] = {Role.METADATA: METADATA_PORT, Role.BOOKIE: BOOKIE_PORT}


def name_listener(place: str) -> str:
    """The name of the listener for a place; `bindAddresses` takes only letters, digits and `_` in it."""
    return place.replace("-", "_")


@dataclass(frozen=True, kw_only=True)
class Addressing:
    """Who sees whom where: the address of each node, and by viewer that of each node of another region."""

    topology: Topology
    addresses: Mapping[str, str]
    views: Mapping[str, Mapping[str, str]]

    @classmethod
    def from_run(cls, run: Run) -> Addressing:
        """As a run was reserved."""
        return cls(topology=run.topology, addresses=run.facts.addresses, views=run.facts.views)

    @cached_property
    def hosts(self) -> Mapping[str, str]:
        """By which host each node is known in the cluster."""
        if not self.topology.links:
            return self.addresses
        return {
            name: name if node.role in _NAMED else self.addresses[name] for name, node in self.topology.nodes.items()
        }

    def map_hosts(self, viewer: str) -> dict[str, str]:
        """What a node's hosts file says of the others: {host name: address}."""
        return {
            name: self._find_address(viewer, name)
            for name, node in self.topology.nodes.items()
            if self.topology.links and node.role in _NAMED
        }

    def format_service_address(self, broker: str, region: str | None) -> str:
        """Where clients in a region, or beside the cluster, find a broker: `ADDRESS:PORT`."""
        if region is None or region == self.topology.nodes[broker].region:
            return f"{self.addresses[broker]}:{BROKER_PORT}"
        return f"{self._find_address(name_clients_place(region), broker)}:{BROKER_PORT}"

    def join_web_urls(self, cluster: str) -> str:
        """The admin URL of a cluster's brokers, all hosts in one."""
        brokers = self.topology.clusters[cluster].names(role=Role.BROKER)
        return "http://" + ",".join(f"{self.addresses[name]}:{BROKER_HTTP_PORT}" for name in brokers)

    def make_registration(self, cluster: str) -> dict[str, str]:
        """With what a cluster is registered, for brokers of the others: its broker service URL and, across links, the
        listener to ask for. It is one for all of them, so topology_rules.py wants them in one region.
        """
        brokers = self.topology.clusters[cluster].names(role=Role.BROKER)
        regions = regions_replicating_to(self.topology, cluster) if self.topology.links else []
        if not regions:
            return {
                "brokerServiceUrl": "pulsar://"
                + ",".join(self.format_service_address(broker, None) for broker in brokers)
            }
        (region,) = regions
        seen = [f"{self._find_address(name_brokers_place(region), broker)}:{BROKER_PORT}" for broker in brokers]
        return {
            "brokerServiceUrl": "pulsar://" + ",".join(seen),
            "listenerName": name_listener(name_brokers_place(region)),
        }

    def configure_listeners(self, broker: str) -> dict[str, str]:
        """The configuration by which a broker says where it is, depending on who asks."""
        if not self.topology.links:
            return {}
        here = self.topology.nodes[broker].region
        brokers = {
            name_brokers_place(region): self._find_address(name_brokers_place(region), broker)
            for region in self.topology.regions
        }
        clients = {
            name_clients_place(region): self._find_address(name_clients_place(region), broker)
            for region in self.topology.regions
            if region != here
        }
        seen = [f"{name_listener(place)}:pulsar://{at}:{BROKER_PORT}" for place, at in (brokers | clients).items()]
        own = f"{name_listener(name_clients_place(here))}:pulsar://{self.addresses[broker]}:{CLIENTS_PORT}"
        return {
            "advertisedListeners": ",".join([*seen, own]),
            "bindAddresses": own,
            "internalListenerName": name_listener(name_brokers_place(here)),
            "brokerClient_listenerName": name_listener(name_brokers_place(here)),
        }

    def routes(self) -> list[Route]:
        """Every way from one region to another."""
        return [
            Route(
                viewer=viewer,
                viewer_region=region,
                target=target,
                target_region=self.topology.nodes[target].region,
                listen_address=self.views[viewer][target],
                target_address=self.addresses[target],
                ports=[port],
            )
            for viewer, region, target, port in self._find_ways()
        ]

    def _find_ways(self) -> Iterator[tuple[str, str, str, int]]:
        """(viewer, its region, target, port)."""
        if not self.topology.links:
            return
        nodes = self.topology.nodes
        for viewer, node in nodes.items():
            for target, other in nodes.items():
                if node.role != Role.METADATA and other.region != node.region and other.role in _NAMED:
                    yield viewer, node.region, target, _NAMED[other.role]
        for place, region in self.topology.places.items():
            for target, other in nodes.items():
                if other.role == Role.BROKER and other.region != region:
                    yield place, region, target, BROKER_PORT

    def _find_address(self, viewer: str, name: str) -> str:
        return self.views.get(viewer, {}).get(name, self.addresses[name])
