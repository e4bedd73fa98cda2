"""Which addresses a run's containers get."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest
from brokerproof.checks import load_topology
from brokerproof.errors import MachineError
from brokerproof.experiment.topology import Topology
from brokerproof.runtimes.node_addresses import Subnet, assign_container_addresses
from builders import TOPOLOGIES

SUBNETS, PORT = IPv4Network("10.208.0.0/12"), 21_000


def load(name: str, **nodes: str) -> Topology:
    more = {f"clusters.mycluster.nodes.{node}": {"role": "bookie", "region": region} for node, region in nodes.items()}
    return load_topology(name, TOPOLOGIES, more)


def test_each_region_is_a_network_of_its_own() -> None:
    topology = load("sync_active_passive")
    found = assign_container_addresses(topology, 0, SUBNETS, PORT)
    networks = {name: Subnet.around(address).whole for name, address in found.nodes.items()}
    for name, node in topology.nodes.items():
        for other, another in topology.nodes.items():
            assert (networks[name] == networks[other]) == (node.region == another.region)
    assert len(set(found.nodes.values())) == len(topology.nodes)
    assert found.views == {}


def test_no_address_is_one_that_the_engine_gives_to_whoever_joins() -> None:
    found = assign_container_addresses(load("sync_active_passive_wan"), 3, SUBNETS, PORT)
    views = {address for seen in found.views.values() for address in seen.values()}
    assert views
    for address in {*found.nodes.values(), *views}:
        subnet = Subnet.around(address)
        assert IPv4Address(address) not in subnet.joining
        assert IPv4Address(address) != subnet.gateway


def test_across_links_a_viewer_sees_the_others_in_the_network_of_its_own_region() -> None:
    topology = load("sync_active_passive_wan")
    found = assign_container_addresses(topology, 0, SUBNETS, PORT)
    regions = {**{name: node.region for name, node in topology.nodes.items()}, **topology.places}
    a_node_of = {node.region: found.nodes[name] for name, node in topology.nodes.items()}
    for viewer, seen in found.views.items():
        assert set(seen) == {name for name, node in topology.nodes.items() if node.region != regions[viewer]}
        for address in seen.values():
            assert Subnet.around(address) == Subnet.around(a_node_of[regions[viewer]])
    taken = [*found.nodes.values(), *(address for seen in found.views.values() for address in seen.values())]
    assert len(set(taken)) == len(taken)


def test_two_slots_share_no_address() -> None:
    topology = load("sync_active_passive")
    first, second = (set(assign_container_addresses(topology, slot, SUBNETS, PORT).nodes.values()) for slot in (0, 15))
    assert not first & second


def test_more_slots_than_addresses_are_reported_with_what_to_set() -> None:
    with pytest.raises(MachineError, match=r"slot 16 has no addresses.*BROKERPROOF_CONTAINER_SUBNETS"):
        assign_container_addresses(load("sync_active_passive"), 16, SUBNETS, PORT)


def test_more_nodes_than_a_region_has_room_for_are_reported() -> None:
    many = {f"bookie-{number}": "eu" for number in range(250)}
    with pytest.raises(MachineError, match="region eu has 254 nodes; the network of a region has room for 245"):
        assign_container_addresses(load("sync_active_passive", **many), 0, SUBNETS, PORT)


def test_more_views_than_a_region_has_room_for_are_reported() -> None:
    many = {f"bookie-{region}-x{number}": region for number in range(45) for region in ("eu", "us")}
    with pytest.raises(
        MachineError, match=r"nodes and places of region eu see \d+ nodes of other regions; the network"
    ):
        assign_container_addresses(load("sync_active_passive_wan", **many), 0, SUBNETS, PORT)


def test_each_node_has_ports_of_this_machine_that_no_other_slot_has() -> None:
    topology = load("sync_active_passive")
    ports = [
        port
        for slot in range(16)
        for of_node in assign_container_addresses(topology, slot, SUBNETS, PORT).host_ports.values()
        for port in of_node
    ]
    assert len(set(ports)) == len(ports) == 16 * 2 * len(topology.nodes)
    # Connections get theirs above (ip_local_port_range of Linux).
    assert max(ports) < 32_768


def test_a_topology_with_more_nodes_than_ports_has_none() -> None:
    many = {f"bookie-{region}-x{number}": region for number in range(125) for region in ("eu", "us")}
    assert assign_container_addresses(load("sync_active_passive", **many), 0, SUBNETS, PORT).host_ports == {}


def test_another_first_port_leads_to_other_ports() -> None:
    ports = [
        {port for of_node in found.host_ports.values() for port in of_node}
        for found in (
            assign_container_addresses(load("sync_active_passive"), slot, SUBNETS, first)
            for slot, first in ((0, PORT), (1, PORT), (0, PORT + 1000))
        )
    ]
    assert min(ports[2]) == PORT + 1000
    assert len(set.union(*ports)) == sum(map(len, ports))
    assert assign_container_addresses(load("sync_active_passive"), 15, SUBNETS, 60_000).host_ports == {}
