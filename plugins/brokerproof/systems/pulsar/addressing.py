"""How Pulsar's nodes and clients reach nodes of other regions: names, addresses, listeners, routes.

A viewer is a node or a place that connects to nodes of other regions. A place (`Topology.places`) is all clients of a
region, or all brokers of a region as clients of other regions' brokers.

Bookies and metadata stores are reached by name. Every node's hosts file maps a name to the address that this node must
use. Pulsar's client does not read this file, so brokers are reached by address. Each broker has one listener per place,
and a client's lookup request names the listener of its place.

Brokerproof's own admin requests go to each broker's own address, so they work even if a link is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from brokerproof.experiment.topology import Topology, name_clients_place, name_servers_place
from brokerproof.network import Route
from brokerproof.run.directory import Run
from brokerproof.systems.pulsar import metadata_store
from brokerproof.systems.pulsar.replication import list_regions_replicating_to
from brokerproof.systems.pulsar.roles import Role

METADATA_PORT, BOOKIE_PORT, BROKER_PORT = 2181, 3181, 6650
METADATA_ADMIN_PORT, METADATA_METRICS_PORT = 9990, 8000
BOOKIE_HTTP_PORT = 8000
BROKER_HTTP_PORT = 8080
# A broker's port for clients in its own region. The port differs, because two listeners cannot share address and port.
CLIENTS_PORT = 6652

# For clients on this machine: the listener and port of a broker in a container. A port of the machine leads to them.
HOST_LISTENER, HOST_PORT = "host", 6653
_HOST_BINDING = f"{HOST_LISTENER}:pulsar://0.0.0.0:{HOST_PORT}"

# The roles of nodes that are found by name, {role: port for nodes of other regions}. Nodes of one ensemble also use
# `ELECTION_PORT` and `PEER_PORT`.
_NAMED: Mapping[str, int] = {Role.METADATA: METADATA_PORT, Role.BOOKIE: BOOKIE_PORT}


def name_listener(place: str) -> str:
    """Return the name of a broker's listener for a place (a region's clients or brokers): letters, digits and `_`."""
    return place.replace("-", "_")


@dataclass(frozen=True, kw_only=True)
class Addressing:
    """The address of each node, and the addresses at which nodes and clients reach the nodes of other regions."""

    topology: Topology
    addresses: Mapping[str, str]
    # {viewer: {node of another region: address}}. A viewer is a node or a place.
    views: Mapping[str, Mapping[str, str]]
    # {node: the ports of this machine that lead to its service and to its admin REST}
    host_ports: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def from_run(cls, run: Run) -> Addressing:
        """Return the addresses that the run reserved."""
        facts = run.facts
        return cls(topology=run.topology, addresses=facts.addresses, views=facts.views, host_ports=facts.host_ports)

    @cached_property
    def hosts(self) -> Mapping[str, str]:
        """{node: host at which other nodes find it}. The host is the node's address.

        If the topology has links between regions, the host of a bookie or metadata node is the node's name instead.
        """
        if not self.topology.links:
            return self.addresses
        return {
            name: name if node.role in _NAMED else self.addresses[name] for name, node in self.topology.nodes.items()
        }

    def map_hosts(self, viewer: str) -> dict[str, str]:
        """Return {name: address} of all bookies and metadata nodes, for the hosts file of the node `viewer`.

        Empty if the topology has no links between regions.
        """
        return {
            name: self._find_address(viewer, name)
            for name, node in self.topology.nodes.items()
            if self.topology.links and node.role in _NAMED
        }

    def format_service_address(self, broker: str, region: str | None) -> str:
        """Return `ADDRESS:PORT` of a broker for clients in `region`; without a region, the broker's own address."""
        if region is None or region == self.topology.nodes[broker].region:
            return f"{self.addresses[broker]}:{BROKER_PORT}"
        return f"{self._find_address(name_clients_place(region), broker)}:{BROKER_PORT}"

    def join_web_urls(self, cluster: str) -> str:
        """Return the admin URL of a cluster, with all its brokers as hosts."""
        brokers = self.topology.clusters[cluster].names(role=Role.BROKER)
        return "http://" + ",".join(f"{self.addresses[name]}:{BROKER_HTTP_PORT}" for name in brokers)

    def make_registration(self, cluster: str) -> dict[str, str]:
        """Return the data by which other clusters reach this one: its broker service URL and maybe a listener's name.

        The listener's name is needed if the topology has links between regions and another cluster replicates to this
        one. All other clusters get the same data. So topology_rules.py requires that all brokers that replicate to this
        cluster are in one region.
        """
        brokers = self.topology.clusters[cluster].names(role=Role.BROKER)
        regions = list_regions_replicating_to(self.topology, cluster) if self.topology.links else []
        if not regions:
            return {
                "brokerServiceUrl": "pulsar://"
                + ",".join(self.format_service_address(broker, None) for broker in brokers)
            }
        (region,) = regions
        seen = [f"{self._find_address(name_servers_place(region), broker)}:{BROKER_PORT}" for broker in brokers]
        return {
            "brokerServiceUrl": "pulsar://" + ",".join(seen),
            "listenerName": name_listener(name_servers_place(region)),
        }

    def configure_listeners(self, broker: str) -> dict[str, str]:
        """Return the settings with which a broker announces its addresses to clients and other brokers.

        With links between regions, the clients and the brokers of each region get an address of their own. A broker in
        a container also announces an address for clients on this machine.
        """
        if not self.topology.links:
            if broker not in self.host_ports:
                return {}
            return {
                "advertisedListeners": f"internal:pulsar://{self.addresses[broker]}:{BROKER_PORT},"
                + self._advertise_to_host(broker),
                "bindAddresses": _HOST_BINDING,
                "internalListenerName": "internal",
            }
        here = self.topology.nodes[broker].region
        brokers = {
            name_servers_place(region): self._find_address(name_servers_place(region), broker)
            for region in self.topology.regions
        }
        clients = {
            name_clients_place(region): self._find_address(name_clients_place(region), broker)
            for region in self.topology.regions
            if region != here
        }
        seen = [f"{name_listener(place)}:pulsar://{at}:{BROKER_PORT}" for place, at in (brokers | clients).items()]
        bindings = []
        if broker in self.host_ports:
            seen.append(self._advertise_to_host(broker))
            bindings.append(_HOST_BINDING)
        own = f"{name_listener(name_clients_place(here))}:pulsar://{self.addresses[broker]}:{CLIENTS_PORT}"
        return {
            "advertisedListeners": ",".join([*seen, own]),
            "bindAddresses": ",".join([own, *bindings]),
            "internalListenerName": name_listener(name_servers_place(here)),
            "brokerClient_listenerName": name_listener(name_servers_place(here)),
        }

    def publish(self, broker: str) -> dict[int, int]:
        """Return {port of this machine: the broker's port that it leads to}. Empty if no port leads to the broker."""
        if broker not in self.host_ports:
            return {}
        service, admin = self.host_ports[broker]
        return {service: HOST_PORT, admin: BROKER_HTTP_PORT}

    def _advertise_to_host(self, broker: str) -> str:
        return f"{HOST_LISTENER}:pulsar://127.0.0.1:{self.host_ports[broker][0]}"

    def routes(self) -> list[Route]:
        """Return the routes on which nodes and clients reach nodes of other regions through emulated links.

        Empty if the topology has no links between regions.
        """
        return [
            Route(
                viewer=viewer,
                viewer_region=region,
                target=target,
                target_region=self.topology.nodes[target].region,
                listen_address=self.views[viewer][target],
                target_address=self.addresses[target],
                ports=[port],
                redial_s=metadata_store.REDIAL_S if port == metadata_store.PEER_PORT else 0,
            )
            for viewer, region, target, port in self._find_ways()
        ]

    def _find_ways(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield (viewer, viewer's region, target, port) for each connection through a link between regions.

        The viewer (a node, or a region's clients or brokers) connects to this port of the target, a node of another
        region.
        """
        if not self.topology.links:
            return
        nodes = self.topology.nodes
        for viewer, node in nodes.items():
            if node.role == Role.METADATA:
                for target in metadata_store.list_members(self.topology, viewer):
                    if nodes[target].region != node.region:
                        yield viewer, node.region, target, metadata_store.ELECTION_PORT
                        yield viewer, node.region, target, metadata_store.PEER_PORT
                continue
            for target, other in nodes.items():
                if other.region != node.region and other.role in _NAMED:
                    yield viewer, node.region, target, _NAMED[other.role]
        for place, region in self.topology.places.items():
            for target, other in nodes.items():
                if other.role == Role.BROKER and other.region != region:
                    yield place, region, target, BROKER_PORT

    def _find_address(self, viewer: str, name: str) -> str:
        return self.views.get(viewer, {}).get(name, self.addresses[name])
