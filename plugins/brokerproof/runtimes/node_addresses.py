"""The addresses of a run's nodes. They depend on the number of the slot that the run holds (machine/slots.py).

A viewer is a node or a place. A place (`Topology.places`) is a group of processes of one region: its clients, or its
serving nodes (message servers) when they connect as clients to the serving nodes of other regions. If the topology has
links between regions, each viewer sees the nodes of other regions at addresses of its own.

Processes have loopback addresses. For containers, each slot has a range of addresses, with one subnet for each region.
A subnet begins with the addresses of the region's nodes. Then come the addresses at which the region's viewers see
nodes of other regions, and those that Docker's engine gives to other containers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from brokerproof.errors import MachineError
from brokerproof.experiment.topology import Topology
from brokerproof.runtimes.protocols import Addresses

# The second octet of slot 0; 127.0 to 127.9 are left to other programs.
_FIRST_OCTET = 10
# The range of the third octets of addresses for viewers across links. Lower third octets belong to regions.
_FIRST_VIEWER, _LAST_VIEWER = 101, 254
# The prefixes of the networks of a slot, of a region, and of the addresses that the engine chooses itself.
_SLOT_PREFIX, _REGION_PREFIX, _JOINING_PREFIX = 16, 20, 21
# Offsets in a region's subnet: of the first node, the first view, and the first address that the engine chooses itself.
# Offset 1 is the engine's own address.
_FIRST_NODE, _FIRST_VIEW, _FIRST_JOINING = 11, 256, 2048
# The numbers of loopback ports for all slots, for one slot, and for one node. With the default first port, the last
# port is 31,999, below Linux's default range of ephemeral ports.
_HOST_PORTS, _HOST_PORTS_OF_SLOT, _HOST_PORTS_OF_NODE = 11_000, 500, 2
_LAST_PORT = 65_535


def assign_addresses(topology: Topology, slot: int) -> dict[str, str]:
    """Return {node: address}, with addresses `127.<10 + slot>.<region>.<node>`, so that each region is a subnet.

    Raises MachineError if a region has more than 250 nodes.
    """
    assigned: dict[str, str] = {}
    for number, region in enumerate(topology.regions, start=1):
        members = [name for name, node in topology.nodes.items() if node.region == region]
        if len(members) > 250:
            raise MachineError(f"region {region} has {len(members)} nodes; an address range holds 250")
        for place, name in enumerate(members, start=11 if len(members) <= 240 else 1):
            assigned[name] = f"127.{_FIRST_OCTET + slot}.{number}.{place}"
    return assigned


def assign_views(topology: Topology, slot: int) -> dict[str, dict[str, str]]:
    """Return the address at which each viewer sees each node of another region: {viewer: {node: address}}.

    The viewers are all nodes and, for each region, its clients and its serving nodes (message servers) as two groups.
    Each viewer has a subnet of its own, so the target address of a connection shows which viewer made it. The result is
    empty if the topology has no links between regions. Raises MachineError if there are too many nodes or viewers.
    """
    if not topology.links:
        return {}
    regions = _find_regions(topology)
    if len(regions) > _LAST_VIEWER - _FIRST_VIEWER + 1 or len(topology.nodes) > 250:
        raise MachineError(
            f"{len(topology.nodes)} nodes in {len(topology.regions)} regions with links; an address range holds "
            f"{_LAST_VIEWER - _FIRST_VIEWER + 1} nodes and places together"
        )
    return {
        viewer: {
            name: f"127.{_FIRST_OCTET + slot}.{subnet}.{number}"
            for number, (name, node) in enumerate(topology.nodes.items(), start=1)
            if node.region != region
        }
        for subnet, (viewer, region) in enumerate(regions.items(), start=_FIRST_VIEWER)
    }


def _find_regions(topology: Topology) -> dict[str, str]:
    """Return {viewer: its region}. The viewers are all nodes and the groups of processes in `Topology.places`."""
    return {**{name: node.region for name, node in topology.nodes.items()}, **topology.places}


@dataclass(frozen=True)
class Subnet:
    """The subnet of one region."""

    whole: IPv4Network

    @classmethod
    def around(cls, address: str) -> Subnet:
        """Return the subnet that contains a node's address."""
        return cls(IPv4Network((address, _REGION_PREFIX), strict=False))

    @property
    def gateway(self) -> IPv4Address:
        """The engine's own address in the subnet."""
        return self.whole[1]

    @property
    def joining(self) -> IPv4Network:
        """The part of the subnet from which the engine itself chooses addresses."""
        return IPv4Network((self.whole[_FIRST_JOINING], _JOINING_PREFIX))

    def take(self, first: int, count: int, last: int, what: str) -> Iterator[str]:
        """Return `count` addresses, from the offset `first` on. Raises MachineError if they reach the offset `last`."""
        if first + count > last:
            raise MachineError(f"{what}; the network of a region has room for {last - first}")
        return (str(self.whole[first + number]) for number in range(count))


def assign_container_addresses(topology: Topology, slot: int, subnets: IPv4Network, first_port: int) -> Addresses:
    """Return the addresses of a run's containers, and the ports of this machine that lead to the nodes.

    `slot` is the run's slot, `subnets` has the addresses of all slots, and `first_port` is the first port of slot 0.
    Raises MachineError if there are too few addresses.
    """
    ranges = 2 ** (_SLOT_PREFIX - subnets.prefixlen)
    if slot >= ranges:
        raise MachineError(
            f"slot {slot} has no addresses: {subnets} holds {ranges} ranges of 16 bits; set "
            "BROKERPROOF_CONTAINER_SUBNETS to a larger one, or BROKERPROOF_MAX_CLUSTERS to less"
        )
    slot_network = IPv4Network((int(subnets[0]) + (slot << (32 - _SLOT_PREFIX)), _SLOT_PREFIX))
    regions = list(topology.regions)
    free = list(slot_network.subnets(new_prefix=_REGION_PREFIX))
    if len(regions) > len(free):
        raise MachineError(f"the topology has {len(regions)} regions; a slot has networks for {len(free)}")
    networks = {region: Subnet(subnet) for region, subnet in zip(regions, free, strict=False)}
    nodes: dict[str, str] = {}
    for region, network in networks.items():
        members = [name for name, node in topology.nodes.items() if node.region == region]
        room = network.take(_FIRST_NODE, len(members), _FIRST_VIEW, f"region {region} has {len(members)} nodes")
        nodes.update(zip(members, room, strict=True))
    views = _assign_container_views(topology, networks) if topology.links else {}
    return Addresses(nodes=nodes, views=views, host_ports=_assign_host_ports(topology, slot, first_port))


def _assign_host_ports(topology: Topology, slot: int, first_port: int) -> dict[str, list[int]]:
    """Return {node: ports of this machine that lead to the node}.

    The result is empty if there are too few ports, because a scenario can run without them.
    """
    first, count = first_port + slot * _HOST_PORTS_OF_SLOT, len(topology.nodes) * _HOST_PORTS_OF_NODE
    if count > _HOST_PORTS_OF_SLOT or first + count > min(first_port + _HOST_PORTS, _LAST_PORT):
        return {}
    return {
        name: list(range(at, at + _HOST_PORTS_OF_NODE))
        for name, at in zip(topology.nodes, range(first, first + count, _HOST_PORTS_OF_NODE), strict=True)
    }


def _assign_container_views(topology: Topology, networks: Mapping[str, Subnet]) -> dict[str, dict[str, str]]:
    regions = _find_regions(topology)
    views: dict[str, dict[str, str]] = {}
    for region, network in networks.items():
        seen = [name for name, node in topology.nodes.items() if node.region != region]
        viewers = [viewer for viewer, home in regions.items() if home == region]
        count = len(viewers) * len(seen)
        what = f"{len(viewers)} nodes and places of region {region} see {len(seen)} nodes of other regions"
        room = network.take(_FIRST_VIEW, count, _FIRST_JOINING, what)
        for viewer in viewers:
            views[viewer] = {target: next(room) for target in seen}
    return views
