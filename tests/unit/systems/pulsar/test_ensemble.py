"""A metadata store of several nodes: how they find each other, how others find them, and which of them leads."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from brokerproof.checks import load_scenario, load_topology
from brokerproof.errors import AdminError, InputError
from brokerproof.experiment.topology import Topology
from brokerproof.network import Plan, make_shapes
from brokerproof.run.directory import Run
from brokerproof.runtimes.node_addresses import assign_addresses, assign_views
from brokerproof.runtimes.process_runtime import ProcessRuntime
from brokerproof.runtimes.protocols import NodeSpec
from brokerproof.systems.jvm.software import ImageSoftware
from brokerproof.systems.protocols import Coordinators
from brokerproof.systems.pulsar import nodes
from brokerproof.systems.pulsar.addressing import Addressing
from brokerproof.systems.pulsar.answers import SESSIONS
from brokerproof.systems.pulsar.observation import PulsarObservation

ROOT = Path(__file__).parents[4]
TOPOLOGIES = ROOT / "topologies"
EU, US, WITNESS = "metadata-eu-1", "metadata-us-1", "metadata-witness-1"
NOT_SERVING = {"command": "leader", "error": "This ZooKeeper instance is not currently serving requests"}


def layout_of(topology: Topology, slot: int = 0) -> nodes.Layout:
    return nodes.Layout(
        software=ImageSoftware("image", "/pulsar", lambda image, path: ""),
        addressing=Addressing(
            topology=topology, addresses=assign_addresses(topology, slot), views=assign_views(topology, slot)
        ),
    )


def load(name: str = "sync_ensemble_witness", **overrides: Any) -> Topology:
    return load_topology(name, TOPOLOGIES, overrides)


def across_links() -> Topology:
    return load(links=[{"between": ["eu", "us"], "delay_ms": 5}])


def read_configuration(spec: NodeSpec, file: str = "zookeeper.conf") -> dict[str, str]:
    lines = spec.files[f"conf/{file}"].splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_each_node_knows_all_of_them_and_its_own_number() -> None:
    layout = layout_of(load())
    specs = nodes.make_node_specs(layout, "mycluster")
    at = layout.addresses
    for number, name in enumerate((EU, US, WITNESS), start=1):
        known = read_configuration(specs[name])
        assert {key: value for key, value in known.items() if key.startswith("server.")} == {
            "server.1": f"{at[EU]}:2888:3888",
            "server.2": f"{at[US]}:2888:3888",
            "server.3": f"{at[WITNESS]}:2888:3888",
        }
        assert (known["standaloneEnabled"], known["quorumListenOnAllIPs"]) == ("false", "false")
        assert known["clientPortAddress"] == at[name]
        assert specs[name].files["conf/myid"] == f"{number}\n"


def test_the_ports_that_nodes_find_each_other_at_have_to_be_free() -> None:
    specs = nodes.make_node_specs(layout_of(load()), "mycluster")
    assert specs[EU].ports == (2181, 9990, 8000, 3888, 2888)


def test_a_store_of_one_node_is_as_it_was() -> None:
    spec = nodes.make_node_specs(layout_of(load("sync_active_passive")), "mycluster")["metadata-1"]
    assert not [key for key in read_configuration(spec) if key.startswith(("server.", "standalone", "quorum"))]
    assert "conf/myid" not in spec.files
    assert spec.format is None
    assert spec.ports == (2181, 9990, 8000)


def test_settings_of_the_topology_come_last() -> None:
    layout = layout_of(load(settings={"metadata": {"syncLimit": 3, "standaloneEnabled": True}}))
    known = read_configuration(nodes.make_node_specs(layout, "mycluster")[EU])
    assert (known["syncLimit"], known["standaloneEnabled"]) == ("3", "True")


def test_a_node_gets_its_number_again_where_its_disk_was_wiped(tmp_path: Path) -> None:
    runtime = ProcessRuntime(tmp_path / "nodes")
    whole = nodes.make_node_specs(layout_of(load(), slot=197), "mycluster")[US]
    # What the node would run: it shows what it finds.
    spec = NodeSpec(
        name=whole.name,
        role=whole.role,
        region=whole.region,
        address=whole.address,
        command=("cat", "{node}/data/myid"),
        files=whole.files,
        format=whole.format,
        data=whole.data,
    )
    runtime.prepare(spec)
    for _ in range(2):
        runtime.start(spec)
        runtime.kill(spec.name)
        assert (runtime.directory(spec.name) / "data" / "myid").read_text() == "2\n"
        runtime.wipe(spec)
        assert not list((runtime.directory(spec.name) / "data").iterdir())


def test_bookies_and_brokers_are_told_all_of_them() -> None:
    layout = layout_of(load())
    specs = nodes.make_node_specs(layout, "mycluster")
    each = [f"{layout.addresses[name]}:2181" for name in (EU, US, WITNESS)]
    bookie = read_configuration(specs["bookie-us-1"], "bookkeeper.conf")
    broker = read_configuration(specs["broker-us-1"], "broker.conf")
    assert bookie["zkServers"] == ",".join(each)
    # BookKeeper would end the value at the first comma.
    assert bookie["metadataServiceUri"] == "metadata-store:zk:" + ";".join(each)
    assert broker["metadataStoreUrl"] == broker["configurationMetadataStoreUrl"] == "zk:" + ",".join(each)
    assert f"zk:{','.join(each)}" in nodes.make_initialization(layout, "mycluster").command


def test_a_shared_store_of_three_nodes_has_chroots_behind_the_last_one() -> None:
    more = {f"shared_metadata.metadata-{number}": {"role": "metadata", "region": "witness"} for number in (2, 3)}
    overrides = {**more, "clusters.cluster-us.placement.repair": "region_aware"}
    layout = layout_of(load_topology("geo_replication", TOPOLOGIES, overrides))
    each = [f"{layout.addresses[f'metadata-{number}']}:2181" for number in (1, 2, 3)]
    specs = nodes.make_node_specs(layout, "cluster-us")
    bookie = read_configuration(specs["bookie-us-1"], "bookkeeper.conf")
    broker = read_configuration(specs["broker-us-1"], "broker.conf")
    assert bookie["metadataServiceUri"] == "metadata-store:zk:" + ";".join(each) + "/cluster-us"
    assert broker["metadataStoreUrl"] == "zk:" + ",".join(each) + "/cluster-us"
    assert broker["configurationMetadataStoreUrl"] == "zk:" + ",".join(each)
    shared = nodes.make_shared_metadata_specs(layout)
    assert [spec.files["conf/myid"] for spec in shared.values()] == ["1\n", "2\n", "3\n"]
    assert read_configuration(shared["metadata-2"])["server.3"] == f"{layout.addresses['metadata-3']}:2888:3888"


def test_across_links_they_call_each_other_by_names_that_lead_through_the_link() -> None:
    layout = layout_of(across_links())
    specs = nodes.make_node_specs(layout, "mycluster")
    for name in (EU, US, WITNESS):
        # A node tells the others what stands there for itself: an address would lead them past the link.
        assert read_configuration(specs[name])["server.2"] == f"{US}:2888:3888"
        hosts = [line.split() for line in specs[name].files["conf/hosts"].splitlines()]
        assert hosts[0] == [layout.addresses[name], "{host}"]
        found = {host: address for address, host in hosts}
        assert found[name] == layout.addresses[name]
        for other in {EU, US, WITNESS} - {name}:
            assert found[other] == layout.addressing.views[name][other] != layout.addresses[other]


def test_across_links_each_pair_of_them_has_a_route_for_both_ports() -> None:
    topology = across_links()
    routes = layout_of(topology).addressing.routes()
    between = {
        (route.viewer, route.target, *route.ports): route.redial_s
        for route in routes
        if route.viewer in (EU, US, WITNESS)
    }
    # Only the leader listens at 2888, and a follower may come a moment before.
    assert between == {
        (one, other, port): redial_s
        for one in (EU, US, WITNESS)
        for other in (EU, US, WITNESS)
        for port, redial_s in ((3888, 0), (2888, 0.5))
        if one != other
    }
    assert ("broker-eu-1", US, [2181], 0) in [
        (route.viewer, route.target, route.ports, route.redial_s) for route in routes
    ]
    # No address is listened on twice, and every shape has a route.
    Plan(routes=routes, shapes=make_shapes(topology))


def test_across_links_two_in_one_region_find_each_other_directly() -> None:
    topology = load("sync_ensemble_two_one", links=[{"between": ["eu", "us"]}])
    layout = layout_of(topology)
    routes = {(route.viewer, route.target) for route in layout.addressing.routes()}
    assert ("metadata-eu-1", "metadata-eu-2") not in routes
    assert {("metadata-eu-1", US), ("metadata-eu-2", US), (US, "metadata-eu-1"), (US, "metadata-eu-2")} <= routes
    assert layout.addressing.map_hosts("metadata-eu-1")["metadata-eu-2"] == layout.addresses["metadata-eu-2"]


def test_stores_of_different_clusters_have_nothing_to_say_to_each_other() -> None:
    layout = layout_of(load("side_by_side"))
    stores = [name for name, node in layout.topology.nodes.items() if node.role == "metadata"]
    assert len(stores) == 3
    assert not [route for route in layout.addressing.routes() if route.viewer in stores]


def nodes_of_store(count: int) -> dict[str, Any]:
    more = {f"metadata-{number}": {"role": "metadata", "region": "witness"} for number in range(2, count + 1)}
    return {f"clusters.mycluster.nodes.{name}": node for name, node in more.items()}


@pytest.mark.parametrize("count", [1, 3, 5])
def test_an_odd_number_of_nodes_is_accepted(count: int) -> None:
    assert (
        len(load("sync_active_passive", **nodes_of_store(count)).clusters["mycluster"].names(role="metadata")) == count
    )


@pytest.mark.parametrize(("count", "remedy"), [(2, "give it 1 or 3"), (4, "give it 3 or 5")])
def test_an_even_number_of_nodes_is_refused(count: int, remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        load("sync_active_passive", **nodes_of_store(count))
    assert (caught.value.field, caught.value.remedy) == ("clusters.mycluster.nodes", remedy)
    assert caught.value.problem == (
        f"a metadata store of {count} nodes bears the loss of no more nodes than one of {count - 1}"
    )


def test_an_even_number_of_shared_nodes_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        load("geo_replication", **{"shared_metadata.metadata-2": {"role": "metadata", "region": "eu"}})
    assert caught.value.field == "shared_metadata"


@contextlib.contextmanager
def answers_with(address: str, answers: Mapping[str, Any]) -> Iterator[None]:
    """The AdminServer of a node of the metadata store."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answers[self.path.rsplit("/", 1)[1]]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer((address, 9990), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield
        server.shutdown()
        thread.join()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    scenario, topology = load_scenario(
        ROOT / "dags/scenarios/sync_nominal.yaml", TOPOLOGIES, {"topology": "sync_ensemble_witness"}
    )
    # Addresses of a slot that no run on this machine has, and no other test.
    at = assign_addresses(topology, 196)
    return Run.create(str(tmp_path / "run"), run_id="r", scenario=scenario, topology=topology, addresses=at)


def leads(is_leader: bool) -> dict[str, Any]:
    """As ZooKeeper 3.9.4 answers."""
    return {"is_leader": is_leader, "leader_id": 2, "leader_ip": "", "command": "leader", "error": None}


@contextlib.contextmanager
def store_of(run: Run, **answers: Any) -> Iterator[PulsarObservation]:
    """What observes a run whose nodes of the metadata store answer `leader` so; those not named are away."""
    with contextlib.ExitStack() as servers:
        for region, answer in answers.items():
            address = run.facts.addresses[f"metadata-{region}-1"]
            servers.enter_context(answers_with(address, {"leader": answer, "dump": answer}))
        yield PulsarObservation(run, patience_s=2)


def test_the_leader_and_its_followers_are_told(run: Run) -> None:
    with store_of(run, eu=leads(False), us=leads(True), witness=leads(False)) as observation:
        assert observation.find_coordinators() == Coordinators(leader=US, followers=[EU, WITNESS])


def test_who_is_away_or_does_not_serve_follows_nobody(run: Run) -> None:
    with store_of(run, eu=NOT_SERVING, us=leads(True)) as observation:
        assert observation.find_coordinators("mycluster") == Coordinators(leader=US, followers=[])


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({}, "no node of the metadata store says that it leads; .*got no answer"),
        (dict.fromkeys(("eu", "us"), leads(False)), "no node of the metadata store says that it leads"),
        (dict.fromkeys(("eu", "us"), NOT_SERVING), "not currently serving requests"),
        # One that was frozen, until it notices.
        (dict.fromkeys(("eu", "us"), leads(True)), f"answer that they lead: {EU}, {US}"),
        ({"eu": {**leads(True), "is_leader": "true"}}, "Input should be a valid boolean in `is_leader`"),
        ({"eu": {"is_leader": True}}, "Field required in `error`"),
        ({"eu": ["leader"]}, "answered something else than expected"),
    ],
)
def test_nothing_else_is_taken_for_a_leader(run: Run, answers: dict[str, Any], sentence: str) -> None:
    with store_of(run, **answers) as observation, pytest.raises(AdminError, match=sentence):
        observation.find_coordinators()


def test_sessions_are_asked_of_a_node_that_serves(run: Run) -> None:
    dump = {"session_id_to_ephemeral_paths": {"1": ["/a"]}, "command": "dump", "error": None}
    with store_of(run, eu=NOT_SERVING, us=dump) as observation:
        found = observation.home.metadata_store.get("/commands/dump", SESSIONS)
    assert found.session_id_to_ephemeral_paths == {"1": ["/a"]}


def test_where_no_node_serves_nobody_is_reported_dead(run: Run) -> None:
    with store_of(run, eu=NOT_SERVING) as observation, pytest.raises(AdminError, match=r"serves: .*not curr"):
        observation.list_alive()
