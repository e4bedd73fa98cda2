"""Who sees whom where: nothing of another region is seen directly, and nothing of the own one through the link."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.checks import load_topology
from brokerproof.errors import InputError, MachineError
from brokerproof.experiment.topology import Topology
from brokerproof.machine.files import FULL_SHARE
from brokerproof.network import Plan, make_shapes
from brokerproof.runtimes.node_addresses import assign_addresses, assign_views
from brokerproof.systems.jvm.software import ImageSoftware
from brokerproof.systems.pulsar import nodes
from brokerproof.systems.pulsar.addressing import Addressing

TOPOLOGIES = Path(__file__).parents[4] / "topologies"


def addressing_of(topology: Topology, slot: int = 0) -> Addressing:
    return Addressing(topology=topology, addresses=assign_addresses(topology, slot), views=assign_views(topology, slot))


@pytest.fixture
def wan() -> Addressing:
    return addressing_of(load_topology("sync_active_passive_wan", TOPOLOGIES))


def advertised(addressing: Addressing, broker: str) -> dict[str, str]:
    entries = addressing.configure_listeners(broker)["advertisedListeners"].split(",")
    return {name: url.removeprefix("//") for name, _, url in (entry.split(":", 2) for entry in entries)}


def test_a_topology_without_links_is_as_it_was() -> None:
    addressing = addressing_of(load_topology("sync_active_passive", TOPOLOGIES))
    assert addressing.hosts == addressing.addresses
    assert addressing.routes() == []
    assert addressing.configure_listeners("broker-eu-1") == {}
    assert addressing.map_hosts("broker-eu-1") == {}
    assert addressing.views == {}


def test_a_node_finds_its_own_region_directly_and_others_through_the_link(wan: Addressing) -> None:
    named = wan.map_hosts("broker-eu-1")
    assert set(named) == {"metadata-1", "bookie-eu-1", "bookie-eu-2", "bookie-us-1", "bookie-us-2"}
    for name, address in named.items():
        direct = wan.topology.nodes[name].region == "eu"
        assert (address == wan.addresses[name]) is direct, name


def test_each_node_has_addresses_of_its_own_for_the_others(wan: Addressing) -> None:
    nodes = list(wan.topology.nodes)
    seen = [wan.map_hosts(viewer)["bookie-us-1"] for viewer in nodes if wan.topology.nodes[viewer].region != "us"]
    assert len(set(seen)) == len(seen)


def test_all_that_is_named_in_other_regions_has_a_route(wan: Addressing) -> None:
    routes = {(route.listen_address, route.target, route.ports[0]) for route in wan.routes()}
    for viewer, node in wan.topology.nodes.items():
        for name, address in wan.map_hosts(viewer).items():
            other = wan.topology.nodes[name]
            if node.role != "metadata" and other.region != node.region:
                assert (address, name, {"bookie": 3181, "metadata": 2181}[other.role]) in routes


def test_a_broker_says_another_address_to_every_place_that_looks_at_it(wan: Addressing) -> None:
    listeners = advertised(wan, "broker-eu-1")
    assert set(listeners) == {f"{who}_{region}" for who in ("servers", "clients") for region in ("eu", "us", "witness")}
    # Pulsar refuses two listeners at one address and port.
    assert len(set(listeners.values())) == len(listeners)
    own = wan.addresses["broker-eu-1"]
    assert {name for name, at in listeners.items() if at.startswith(f"{own}:")} == {"servers_eu", "clients_eu"}
    routes = {(route.viewer, f"{route.listen_address}:6650") for route in wan.routes() if route.target == "broker-eu-1"}
    assert {(name.replace("_", "-"), at) for name, at in listeners.items() if not at.startswith(f"{own}:")} == routes


def test_clients_find_brokers_of_their_own_region_directly(wan: Addressing) -> None:
    own = wan.addresses["broker-eu-1"]
    assert (
        wan.format_service_address("broker-eu-1", None)
        == wan.format_service_address("broker-eu-1", "eu")
        == f"{own}:6650"
    )
    assert wan.format_service_address("broker-eu-1", "us") == advertised(wan, "broker-eu-1")["clients_us"]


def test_the_link_takes_the_routes_and_the_shapes(wan: Addressing) -> None:
    plan = Plan(routes=wan.routes(), shapes=make_shapes(wan.topology))
    assert {(shape.sender, shape.receiver, shape.delay_ms) for shape in plan.shapes} == {
        ("eu", "us", 5),
        ("us", "eu", 5),
    }
    assert {route.viewer_region != route.target_region for route in plan.routes} == {True}


def test_no_two_slots_share_a_view(wan: Addressing) -> None:
    def seen(slot: int) -> set[str]:
        return {address for each in assign_views(wan.topology, slot).values() for address in each.values()}

    assert not seen(0) & seen(1)
    assert not seen(0) & set(assign_addresses(wan.topology, 0).values())


def test_bookies_are_known_by_name_and_brokers_by_address(wan: Addressing) -> None:
    assert wan.hosts["bookie-us-1"] == "bookie-us-1"
    assert wan.hosts["broker-us-1"] == wan.addresses["broker-us-1"]


def test_more_viewers_than_addresses_is_reported(wan: Addressing) -> None:
    nodes = {f"clusters.mycluster.nodes.bookie-{number}": {"role": "bookie", "region": "eu"} for number in range(150)}
    with pytest.raises(MachineError, match="an address range holds 154"):
        assign_views(load_topology("sync_active_passive_wan", TOPOLOGIES, nodes), 0)


def layout_of(addressing: Addressing) -> nodes.Layout:
    return nodes.Layout(software=ImageSoftware("image", "/pulsar", lambda image, path: ""), addressing=addressing)


def test_every_node_knows_where_to_find_the_others(wan: Addressing) -> None:
    specs = nodes.make_node_specs(layout_of(wan), "mycluster")
    hosts = [line.split() for line in specs["bookie-eu-1"].files["conf/hosts"].splitlines()]
    # The own address is looked up backwards too, and the machine's name has to be the first found.
    assert hosts[0] == [wan.addresses["bookie-eu-1"], "{host}"]
    assert {name: address for address, name in hosts[1:]} == {"localhost": "127.0.0.1", **wan.map_hosts("bookie-eu-1")}
    assert "advertisedAddress=bookie-eu-1\n" in specs["bookie-eu-1"].files["conf/bookkeeper.conf"]
    assert "zkServers=metadata-1:2181\n" in specs["bookie-eu-1"].files["conf/bookkeeper.conf"]
    # As shipped, a bookie serves reads only on a disk that is 95 % full.
    assert f"diskUsageThreshold={FULL_SHARE}\n" in specs["bookie-eu-1"].files["conf/bookkeeper.conf"]
    broker = specs["broker-eu-1"].files["conf/broker.conf"]
    assert "metadataStoreUrl=zk:metadata-1:2181\n" in broker
    assert f"advertisedAddress={wan.addresses['broker-eu-1']}\n" in broker
    assert "internalListenerName=servers_eu\n" in broker


def test_what_runs_beside_the_nodes_is_given_addresses(wan: Addressing) -> None:
    command = nodes.make_initialization(layout_of(wan), "mycluster").command
    assert f"zk:{wan.addresses['metadata-1']}:2181" in command
    assert not any("metadata-1" in part for part in command)


def test_without_links_a_node_knows_nothing_of_the_others() -> None:
    addressing = addressing_of(load_topology("sync_active_passive", TOPOLOGIES))
    spec = nodes.make_node_specs(layout_of(addressing), "mycluster")["broker-eu-1"]
    address = addressing.addresses["broker-eu-1"]
    assert spec.files["conf/hosts"] == f"{address} {{host}}\n127.0.0.1 localhost\n"
    assert "advertisedListeners" not in spec.files["conf/broker.conf"]
    assert spec.ports == (6650, 8080)


def test_another_cluster_is_registered_as_it_is_seen_across_the_link() -> None:
    topology = load_topology("geo_replication_wan", TOPOLOGIES)
    addressing = Addressing(topology=topology, addresses=assign_addresses(topology, 0), views=assign_views(topology, 0))

    seen = addressing.make_registration("cluster-us")

    assert seen["listenerName"] == "servers_eu"
    wanted = [f"{addressing.views['servers-eu'][name]}:6650" for name in ("broker-us-1", "broker-us-2")]
    assert seen["brokerServiceUrl"] == "pulsar://" + ",".join(wanted)


def test_without_links_a_cluster_is_registered_where_it_listens() -> None:
    topology = load_topology("geo_replication", TOPOLOGIES)
    at = assign_addresses(topology, 0)

    seen = Addressing(topology=topology, addresses=at, views={}).make_registration("cluster-us")

    assert seen == {"brokerServiceUrl": f"pulsar://{at['broker-us-1']}:6650,{at['broker-us-2']}:6650"}


def test_clusters_whose_brokers_are_in_two_regions_do_not_replicate_across_links() -> None:
    with pytest.raises(InputError, match=r"clusters.cluster-eu: is replicated with across links from brokers in eu"):
        load_topology("active_active", TOPOLOGIES, {"links": [{"between": ["eu", "us"], "delay_ms": 5}]})


@pytest.mark.parametrize(
    ("name", "internal"), [("sync_active_passive", "internal"), ("sync_active_passive_wan", "servers_eu")]
)
def test_a_broker_that_is_not_at_an_address_of_this_machine_has_a_listener_for_it(name: str, internal: str) -> None:
    topology = load_topology(name, TOPOLOGIES)
    plain = addressing_of(topology)
    ports = {"broker-eu-1": [21_000, 21_001]}
    published = Addressing(topology=topology, addresses=plain.addresses, views=plain.views, host_ports=ports)
    specs = nodes.make_node_specs(layout_of(published), "mycluster")
    configuration = dict(
        line.split("=", 1) for line in specs["broker-eu-1"].files["conf/broker.conf"].splitlines() if "=" in line
    )
    advertised = configuration["advertisedListeners"].split(",")
    assert "host:pulsar://127.0.0.1:21000" in advertised
    # The cluster knows the broker by the listener for brokers of its own region.
    assert configuration["internalListenerName"] == internal
    assert any(each.startswith(f"{internal}:pulsar://{plain.addresses['broker-eu-1']}:") for each in advertised)
    assert "host:pulsar://0.0.0.0:6653" in configuration["bindAddresses"].split(",")
    assert configuration["bindAddress"] == "0.0.0.0"
    assert specs["broker-eu-1"].published == {21_000: 6653, 21_001: 8080}
    assert specs["broker-eu-2"].published == {}
    assert "host:" not in specs["broker-eu-2"].files["conf/broker.conf"]
