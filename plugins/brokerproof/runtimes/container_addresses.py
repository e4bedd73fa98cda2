"""The addresses of a run's containers, from the number of the slot that the run holds (machine/slots.py).

Each slot has a range of addresses, with one subnet for each region. A subnet holds, in this order: the addresses of the
region's nodes, the addresses at which viewers in the region see nodes of other regions, and the addresses that the
engine gives to other containers. A viewer is a node or a place: the clients, or the serving nodes, of a region.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from brokerproof.errors import MachineError
from brokerproof.experiment.topology import Topology
from brokerproof.runtimes.protocols import Addresses

_SLOT_PREFIX, _REGION_PREFIX, _JOINING_PREFIX = 16, 20, 21
# Offsets in a region's subnet; offset 1 is the engine's own address.
_FIRST_NODE = 11
_FIRST_VIEW = 256
# The numbers of loopback ports for all slots, for one slot, and for one node. With the default first port, the last
# port is 31,999, below Linux's default range of ephemeral ports.
_HOST_PORTS, _HOST_PORTS_OF_SLOT, _HOST_PORTS_OF_NODE = 11_000, 500, 2
_LAST_PORT = 65_535
# The offset of the first address that the engine chooses itself.
_FIRST_JOINING = 2048


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
    """Return the addresses of a run that holds `slot`, and its nodes' ports of this machine.

    `subnets` has the addresses of all slots, `first_port` is the first port of slot 0. Raises MachineError if there are
    too few addresses.
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
    views = _assign_views(topology, networks) if topology.links else {}
    return Addresses(nodes=nodes, views=views, host_ports=_assign_host_ports(topology, slot, first_port))


def _assign_host_ports(topology: Topology, slot: int, first_port: int) -> dict[str, list[int]]:
    """Return {node: its ports of this machine}; empty if there are too few, because a scenario can run without them."""
    first, count = first_port + slot * _HOST_PORTS_OF_SLOT, len(topology.nodes) * _HOST_PORTS_OF_NODE
    if count > _HOST_PORTS_OF_SLOT or first + count > min(first_port + _HOST_PORTS, _LAST_PORT):
        return {}
    return {
        name: list(range(at, at + _HOST_PORTS_OF_NODE))
        for name, at in zip(topology.nodes, range(first, first + count, _HOST_PORTS_OF_NODE), strict=True)
    }


def _assign_views(topology: Topology, networks: Mapping[str, Subnet]) -> dict[str, dict[str, str]]:
    regions = {**{name: node.region for name, node in topology.nodes.items()}, **topology.places}
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
