"""The parts of Pulsar that need no cluster."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pulsar
import pytest
from brokerproof.checks import load_scenario, load_topology
from brokerproof.errors import AdminError, InputError
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import Acks, Subscription, Workload
from brokerproof.run.directory import Run
from brokerproof.runtimes.node_addresses import assign_addresses
from brokerproof.systems.pulsar import configuration
from brokerproof.systems.pulsar.answers import SETTINGS
from brokerproof.systems.pulsar.client import PulsarClients
from brokerproof.systems.pulsar.client_settings import PulsarClientSettings
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.policies import parse_policies
from brokerproof.systems.pulsar.provisioning import find_distribution
from brokerproof.systems.pulsar.samplers import parse_bookie_counters
from pydantic import TypeAdapter

TOPOLOGIES = Path(__file__).parents[4] / "topologies"


@pytest.fixture
def topology() -> Topology:
    return load_topology("sync_active_passive", TOPOLOGIES)


class Cluster:
    """Takes each setting and gives it back, except those planted in `forgets`. It has started with its racks."""

    def __init__(self, topology: Topology, *forgets: str) -> None:
        self.forgets = forgets
        cluster = topology.clusters["mycluster"]
        racks = configuration.group_racks(cluster, parse_policies(cluster).placement, assign_addresses(topology, 0))
        self.values: dict[str, Any] = {
            "/admin/v2/bookies/racks-info": {
                group: {key: rack for key, rack in grouped.items() if key not in forgets}
                for group, grouped in racks.items()
            }
        }

    def change(self, method: str, path: str, body: Any = None, *, accept: Any = ()) -> None:
        if any(part in path for part in self.forgets):
            return
        if isinstance(body, dict) and "replication_clusters" in body:
            self.values[f"{path}/replication"] = body["replication_clusters"]
        else:
            self.values[path] = body

    def get(self, path: str, expected: TypeAdapter[Any]) -> Any:
        return expected.validate_json(json.dumps(self.values.get(path, {})))


def test_what_was_set_is_read_back(topology: Topology) -> None:
    cluster, workload = Cluster(topology), Workload(namespace="mytenant/eu")
    at = assign_addresses(topology, 0)
    configuration.apply(cluster, "mycluster", topology, at, workload)  # type: ignore[arg-type]
    configuration.check(cluster, "mycluster", topology, at, workload, {})  # type: ignore[arg-type]
    # Without the rate, Pulsar would store a position whenever it moves.
    assert cluster.values["/admin/v2/namespaces/mytenant/eu/persistence"]["managedLedgerMaxMarkDeleteRate"] == 1.0


@pytest.mark.parametrize(
    ("forgotten", "named"),
    [
        ("127.10.2.13:0", "rack of 127.10.2.13:0"),
        ("mytenant/us/retention", "retention of mytenant/us"),
        ("mytenant/eu/persistence", "persistence of mytenant/eu"),
        ("namespaceIsolationPolicies/mytenant-eu", "isolation policy mytenant-eu"),
    ],
)
def test_a_setting_that_did_not_take_is_named(topology: Topology, forgotten: str, named: str) -> None:
    cluster, workload = Cluster(topology, forgotten), Workload(namespace="mytenant/eu")
    at = assign_addresses(topology, 0)
    configuration.apply(cluster, "mycluster", topology, at, workload)  # type: ignore[arg-type]
    with pytest.raises(AdminError, match=named):
        configuration.check(cluster, "mycluster", topology, at, workload, {})  # type: ignore[arg-type]


def test_namespaces_whose_names_differ_only_in_the_place_of_the_slash_have_isolation_policies_of_their_own(
    topology: Topology,
) -> None:
    policies = topology.clusters["mycluster"].policies
    same = policies["namespaces"]["mytenant/eu"]
    other = {**same, "isolation": {**same["isolation"], "primary": "us", "secondary": "eu"}}
    changed = {"namespaces": {"my-tenant/eu": same, "my/tenant-eu": other}}
    nodes = topology.clusters["mycluster"].nodes
    two = topology.model_copy(
        update={"clusters": {"mycluster": type(topology.clusters["mycluster"])(nodes=nodes, **{**policies, **changed})}}
    )
    cluster, workload = Cluster(two), Workload(namespace="my-tenant/eu")
    at = assign_addresses(two, 0)
    configuration.apply(cluster, "mycluster", two, at, workload)  # type: ignore[arg-type]
    configuration.check(cluster, "mycluster", two, at, workload, {})  # type: ignore[arg-type]
    isolated = [body["namespaces"] for path, body in cluster.values.items() if "namespaceIsolationPolicies" in path]
    assert sorted(isolated) == [["my-tenant/eu"], ["my/tenant-eu"]]


class Requests(Cluster):
    """Keeps the order of what is asked too."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self.changed: list[str] = []
        self.asked: list[str] = []

    def change(self, method: str, path: str, body: Any = None, *, accept: Any = ()) -> None:
        self.changed.append(f"{method} {path}")
        super().change(method, path, body, accept=accept)

    def get(self, path: str, expected: TypeAdapter[Any]) -> Any:
        self.asked.append(path)
        return {"partitions": 3} if path.endswith("/partitions") else super().get(path, expected)


def test_tenants_come_first_then_namespaces_and_every_policy_is_asked_for_once(topology: Topology) -> None:
    cluster, workload = Requests(topology), Workload(namespace="mytenant/eu", partitions=4)
    at = assign_addresses(topology, 0)
    configuration.apply(cluster, "mycluster", topology, at, workload)  # type: ignore[arg-type]
    kinds = [path.split("/")[3] for path in cluster.changed]
    assert list(dict.fromkeys(kinds)) == ["tenants", "namespaces", "clusters", "persistent"]
    eu = [path.removeprefix("PUT ").removeprefix("POST ") for path in cluster.changed if "mytenant/eu" in path]
    namespace = "/admin/v2/namespaces/mytenant/eu"
    assert eu[:4] == [namespace, *(f"{namespace}/{name}" for name in ("retention", "persistence", "deduplication"))]
    with pytest.raises(AdminError, match=r"1 setting.*partitions of orders is 3, not 4"):
        configuration.check(cluster, "mycluster", topology, at, workload, {})  # type: ignore[arg-type]
    assert len(cluster.asked) == len(set(cluster.asked))


def test_a_subscription_gets_the_messages_that_were_published_before_it_existed(topology: Topology) -> None:
    """The load may begin before the consumers have subscribed: the topic keeps all messages, and they begin there."""
    cluster, workload = Cluster(topology), Workload(namespace="mytenant/eu")
    configuration.apply(cluster, "mycluster", topology, assign_addresses(topology, 0), workload)  # type: ignore[arg-type]
    retention = cluster.values["/admin/v2/namespaces/mytenant/eu/retention"]
    assert retention == {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    given: dict[str, Any] = {}
    clients = PulsarClients.__new__(PulsarClients)
    inner = SimpleNamespace(acknowledge=None)
    client = SimpleNamespace(subscribe=lambda *_, **options: given.update(options) or SimpleNamespace(_consumer=inner))
    vars(clients).update(_topic="t", _cluster="mycluster", _client=client, _settings=PulsarClientSettings())
    clients.consumer(Subscription(name="s"), "s-c0")
    assert given["initial_position"] is pulsar.InitialPosition.Earliest


@pytest.mark.parametrize(
    ("acks", "way"),
    [(None, "acknowledge"), (Acks.INDIVIDUAL, "acknowledge"), (Acks.CUMULATIVE, "acknowledge_cumulative")],
)
@pytest.mark.parametrize("batch_index_acks", [None, True])
def test_a_consumer_acknowledges_as_the_scenario_says(
    acks: Acks | None, way: str, batch_index_acks: bool | None
) -> None:
    given: dict[str, Any] = {}
    acked: list[tuple[str, object]] = []
    inner = SimpleNamespace(
        acknowledge=lambda message: acked.append(("acknowledge", message)),
        acknowledge_cumulative=lambda message: acked.append(("acknowledge_cumulative", message)),
    )
    clients = PulsarClients.__new__(PulsarClients)
    client = SimpleNamespace(subscribe=lambda *_, **options: given.update(options) or SimpleNamespace(_consumer=inner))
    settings = PulsarClientSettings(batch_index_acks=batch_index_acks)
    vars(clients).update(_topic="t", _cluster="mycluster", _client=client, _settings=settings)
    clients.consumer(Subscription(name="s", acks=acks), "s-c0").acknowledge("m")
    assert acked == [(way, "m")]
    assert given["batch_index_ack_enabled"] is bool(batch_index_acks)


@pytest.mark.parametrize(("delay_ms", "given"), [(None, {}), (0, {"delay": 0}), (2000, {"delay": 2000})])
def test_a_negative_ack_is_delayed_as_the_scenario_says(delay_ms: int | None, given: dict[str, int]) -> None:
    options: dict[str, Any] = {}
    refused: list[str] = []
    own = SimpleNamespace(_consumer=SimpleNamespace(acknowledge=None, negative_acknowledge=refused.append))
    clients = PulsarClients.__new__(PulsarClients)
    client = SimpleNamespace(subscribe=lambda *_, **found: options.update(found) or own)
    settings = PulsarClientSettings(redelivery_delay_ms=delay_ms)
    vars(clients).update(_topic="t", _cluster="mycluster", _client=client, _settings=settings)
    clients.consumer(Subscription(name="s"), "s-c0").refuse("message")
    name = "negative_ack_redelivery_delay_ms"
    assert ({"delay": options[name]} if name in options else {}) == given
    assert refused == ["message"]


def test_a_region_is_a_subnet_and_slots_do_not_overlap(topology: Topology) -> None:
    first, second = assign_addresses(topology, 0), assign_addresses(topology, 1)
    assert len(set(first.values()) | set(second.values())) == 2 * len(topology.nodes)
    subnets = {topology.nodes[name].region: address.rsplit(".", 1)[0] for name, address in first.items()}
    assert len(set(subnets.values())) == 3
    assert first.keys() == topology.nodes.keys()
    for name, address in first.items():
        assert address.startswith(subnets[topology.nodes[name].region])


@contextlib.contextmanager
def answers_with(address: str, name: str) -> Iterator[None]:
    """A broker's REST, which answers everything with the broker's name."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"answered_by": name}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer((address, 8080), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("store", "asked"), [("us", "broker-us-1"), ("eu", "broker-eu-1"), ("witness", "broker-eu-1")])
def test_those_beside_the_metadata_store_are_asked_first(tmp_path: Path, store: str, asked: str) -> None:
    scenario, topology = load_scenario(
        TOPOLOGIES.parent / "dags" / "scenarios" / "sync_nominal.yaml",
        TOPOLOGIES,
        {"overrides": {"clusters.mycluster.nodes.metadata-1.region": store}},
    )
    # Addresses of a slot that no run on this machine has.
    at = assign_addresses(topology, 199)
    run = Run.create(str(tmp_path / "run"), run_id="r", scenario=scenario, topology=topology, addresses=at)
    brokers = [name for name, node in topology.nodes.items() if node.role == "broker"]
    with contextlib.ExitStack() as servers:
        for name in brokers:
            servers.enter_context(answers_with(at[name], name))
        found = PulsarObservation(run).home.brokers.get("/admin/v2/brokers/leaderBroker", SETTINGS)
    assert found == {"answered_by": asked}
    assert len(brokers) == 4


def test_a_bookies_counters_are_read_from_its_metrics() -> None:
    page = (
        'bookie_WRITE_BYTES 18937\nbookie_READ_BYTES{x="y"} 5.95E2\nbookie_READ_BYTES_total 7\njournal_WRITE_BYTES 9\n'
    )
    assert parse_bookie_counters(page) == {"bytes_written": 18937, "bytes_read": 595}


@pytest.mark.parametrize(
    ("page", "why"),
    [
        ("", "do not hold bookie_WRITE_BYTES"),
        ("<html>Service Unavailable</html>", "do not hold bookie_WRITE_BYTES"),
        ("bookie_WRITE_BYTES 1\n", "do not hold bookie_READ_BYTES"),
        *(
            (f"bookie_WRITE_BYTES {value}\nbookie_READ_BYTES 1\n", f"is `{value}`, which is no count")
            for value in ("NaN", "+Inf", "-1", "many", "0x10")
        ),
    ],
)
def test_a_page_without_a_bookies_counters_is_no_count(page: str, why: str) -> None:
    with pytest.raises(AdminError, match=re.escape(why)):
        parse_bookie_counters(page)


def test_a_version_without_a_checksum_is_refused() -> None:
    with pytest.raises(InputError, match="no checksum of Pulsar 9"):
        find_distribution("9.9.9")
