"""Faults of the link against a real link between the addresses of a topology: what they stop, and what shows it."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from brokerproof.checks import load_topology
from brokerproof.clock import wait_until
from brokerproof.errors import InputError, NodeError, RunError
from brokerproof.experiment.fault import Fault
from brokerproof.experiment.topology import Topology
from brokerproof.faults.kind import Surroundings
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.machine.processes import end_processes, find_marked_processes
from brokerproof.network import LinkClient, Plan, Route, make_shapes, sample_links, start_link_process
from brokerproof.runtimes.node_addresses import assign_addresses, assign_views
from brokerproof.systems.pulsar.addressing import BOOKIE_PORT, BROKER_PORT, METADATA_PORT, Addressing
from brokerproof.systems.pulsar.system import PULSAR

TOPOLOGIES = Path(__file__).parents[3] / "topologies"
PATIENCE_S = 10.0


@dataclass(frozen=True)
class Spec:
    """As much of a node as faults of the link look at."""

    name: str
    role: str
    region: str
    health_source = "its health check"


class Nodes:
    """A system and a runtime in one: every node lives, is listed and healthy, but for those that a test takes out."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.ill: set[str] = set()
        self.unlisted: set[str] = set()
        self.dead: set[str] = set()

    def is_healthy(self, spec: Spec) -> bool:
        return spec.name not in self.ill

    def is_alive(self, name: str) -> bool:
        return name not in self.dead

    def list_alive(self) -> dict[str, list[str]]:
        return {"all": sorted(self.topology.nodes.keys() - self.dead - self.unlisted)}

    def start(self, spec: Spec) -> None:
        assert spec.name in self.dead
        self.dead.discard(spec.name)
        self.unlisted.discard(spec.name)


class Wan:
    """The link of `sync_active_passive_wan`, with nothing behind it but what a test listens as."""

    def __init__(self, run: Path, topology: Topology) -> None:
        self.run, self.topology = run, topology
        # Slots that no real run has.
        slot = 120 + os.getpid() % 100
        self.addresses = assign_addresses(topology, slot)
        self.addressing = Addressing(topology=topology, addresses=self.addresses, views=assign_views(topology, slot))
        self.link: LinkClient = start_link_process(
            run / "nodes", Plan(routes=self.addressing.routes(), shapes=make_shapes(topology))
        )
        self.nodes = Nodes(topology)
        self.sockets: list[socket.socket] = []

    def around(
        self,
        kind: str,
        targets: dict[str, Any],
        link: dict[str, Any] | None = None,
        kept_down: frozenset[str] = frozenset(),
    ) -> Surroundings:
        fault = Fault.model_validate({"name": "f", "kind": kind, "targets": targets, "link": link})
        specs = {name: Spec(name, node.role, node.region) for name, node in self.topology.nodes.items()}
        return Surroundings(
            provisioning=self.nodes,  # type: ignore[arg-type]
            administration=self.nodes,  # type: ignore[arg-type]
            observation=self.nodes,  # type: ignore[arg-type]
            runtime=self.nodes,  # type: ignore[arg-type]
            specs=specs,  # type: ignore[arg-type]
            roles=PULSAR.roles,
            link=self.link,
            fault=fault,
            kept_down=kept_down,
        )

    def connect(self, viewer: str, target: str, port: int) -> tuple[socket.socket, socket.socket]:
        """Both ends of a connection from a viewer to a target in another region, over which bytes have gone."""
        with socket.create_server((self.addresses[target], port)) as server:
            near = socket.create_connection((self.addressing.views[viewer][target], port), timeout=PATIENCE_S)
            server.settimeout(PATIENCE_S)
            far, _ = server.accept()
        for end in (near, far):
            end.settimeout(PATIENCE_S)
            self.sockets.append(end)
        assert crosses(near, far)
        assert crosses(far, near)
        return near, far

    def close(self) -> None:
        end_processes(find_marked_processes(self.run))
        for each in self.sockets:
            each.close()


def crosses(sender: socket.socket, receiver: socket.socket, *, within_s: float = PATIENCE_S) -> bool:
    sender.sendall(b"x")
    receiver.settimeout(within_s)
    try:
        return receiver.recv(1) == b"x"
    except TimeoutError:
        return False
    finally:
        receiver.settimeout(PATIENCE_S)


@pytest.fixture
def wan(tmp_path: Path) -> Iterator[Wan]:
    wan = Wan(tmp_path, load_topology("sync_active_passive_wan", TOPOLOGIES, {"links.0.delay_ms": 1}))
    yield wan
    wan.close()


def seen(around: Surroundings, targets: list[str]) -> dict[str, Any]:
    kind = FAULT_KINDS[around.fault.kind]
    said = wait_until(
        lambda: kind.find_evidence(around, targets), timeout_s=PATIENCE_S, what="the effect", every_s=0.01
    )
    return json.loads(said)


def region(wan: Wan, name: str) -> list[str]:
    return [node for node, content in wan.topology.nodes.items() if content.region == name]


def test_a_partitioned_region_is_seen_cut_off_and_seen_joined_again(wan: Wan) -> None:
    kind, targets = FAULT_KINDS["partition"], region(wan, "eu")
    around = wan.around("partition", {"region": "eu"})
    to_us = wan.connect("broker-eu-1", "bookie-us-1", BOOKIE_PORT)
    to_witness = wan.connect("bookie-eu-1", "metadata-1", METADATA_PORT)
    clients = wan.connect("clients-us", "broker-eu-1", BROKER_PORT)
    spared = wan.connect("bookie-us-1", "metadata-1", METADATA_PORT)
    assert kind.find_evidence(around, targets) is None
    kind.inject(around, targets)
    effect = seen(around, targets)
    assert effect["in_force"] == {"both_ways": True, "cut": True}
    assert effect["connections"] == 3
    assert effect["bytes_crossed"] == 0
    assert ":" in effect["no_answer_from"]
    for near, far in (to_us, to_witness, clients):
        assert not crosses(near, far, within_s=0.2)
    assert crosses(*spared)
    assert kind.find_recovery(around, targets) is None
    kind.heal(around, targets)
    assert "answer_from" in json.loads(kind.find_recovery(around, targets) or "{}")
    for near, far in (to_us, to_witness, clients):
        assert far.recv(1) == b"x"
        assert crosses(far, near)


class Leaky:
    """A link over which bytes cross, whatever it says."""

    def __init__(self, link: LinkClient) -> None:
        self._link = link
        self._crossed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def count_bytes(self, *_: object, **__: object) -> int:
        self._crossed += 1
        return self._crossed


def test_a_cut_that_lets_bytes_through_is_no_effect(wan: Wan) -> None:
    around = replace(wan.around("partition", {"region": "eu"}), link=Leaky(wan.link))
    FAULT_KINDS["partition"].inject(around, region(wan, "eu"))
    assert FAULT_KINDS["partition"].find_evidence(around, region(wan, "eu")) is None


class Deaf:
    """A link that answers requests, and listens at none of the addresses of its routes."""

    def __init__(self, link: LinkClient) -> None:
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def routes(self) -> list[Route]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        return [
            route.model_copy(update={"listen_address": "127.0.0.1", "ports": [port]}) for route in self._link.routes()
        ]


def test_a_refused_connection_proves_neither_a_cut_nor_its_end(wan: Wan) -> None:
    around, targets = wan.around("partition", {"region": "eu"}), region(wan, "eu")
    kind, deaf = FAULT_KINDS["partition"], replace(around, link=Deaf(wan.link))
    kind.inject(around, targets)
    assert seen(around, targets)
    with pytest.raises(NodeError, match="nothing listens at 127"):
        kind.find_evidence(deaf, targets)
    kind.heal(around, targets)
    assert kind.find_recovery(around, targets)
    with pytest.raises(NodeError, match="nothing listens at 127"):
        kind.find_recovery(deaf, targets)


def test_a_partition_one_way_lets_the_other_way_through(wan: Wan) -> None:
    near, far = wan.connect("broker-eu-1", "bookie-us-1", BOOKIE_PORT)
    around = wan.around("partition", {"region": "eu"}, {"direction": "to_targets"})
    FAULT_KINDS["partition"].inject(around, region(wan, "eu"))
    assert seen(around, region(wan, "eu"))["in_force"] == {"both_ways": False, "cut": True}
    assert crosses(near, far)
    assert not crosses(far, near, within_s=0.2)
    FAULT_KINDS["partition"].heal(around, region(wan, "eu"))
    assert near.recv(1) == b"x"


def test_a_partition_from_one_region_spares_the_others(wan: Wan) -> None:
    to_us = wan.connect("broker-eu-1", "bookie-us-1", BOOKIE_PORT)
    to_witness = wan.connect("broker-eu-1", "metadata-1", METADATA_PORT)
    around = wan.around("partition", {"region": "eu"}, {"regions": ["us"]})
    FAULT_KINDS["partition"].inject(around, region(wan, "eu"))
    seen(around, region(wan, "eu"))
    assert crosses(*to_witness)
    assert not crosses(*to_us, within_s=0.2)


@pytest.mark.parametrize(
    ("targets", "cut", "spared"),
    [
        (
            ["broker-eu-1"],
            [("broker-eu-1", "bookie-us-1"), ("servers-us", "broker-eu-1")],
            ("broker-eu-2", "bookie-us-1"),
        ),
        (["bookie-us-1"], [("broker-eu-1", "bookie-us-1")], ("broker-eu-1", "bookie-us-2")),
        (["broker-eu-1", "broker-eu-2"], [("servers-eu", "broker-us-1")], ("clients-eu", "broker-us-1")),
    ],
    ids=["a broker", "a bookie", "the brokers of a region, without its clients"],
)
def test_a_role_or_a_node_is_cut_off_alone(
    wan: Wan, targets: list[str], cut: list[tuple[str, str]], spared: tuple[str, str]
) -> None:
    def connect(viewer: str, target: str) -> tuple[socket.socket, socket.socket]:
        return wan.connect(viewer, target, BOOKIE_PORT if target.startswith("bookie") else BROKER_PORT)

    held, free = [connect(*each) for each in cut], connect(*spared)
    around = wan.around("partition", {"nodes": targets})
    FAULT_KINDS["partition"].inject(around, targets)
    seen(around, targets)
    assert not any(crosses(*each, within_s=0.2) for each in held)
    assert crosses(*free)


def cut_and_healed(wan: Wan) -> Surroundings:
    """eu was cut off, and is not any more."""
    around = wan.around("partition", {"region": "eu"})
    FAULT_KINDS["partition"].inject(around, region(wan, "eu"))
    FAULT_KINDS["partition"].heal(around, region(wan, "eu"))
    return around


def test_an_ill_node_is_not_healed_by_the_link_alone(wan: Wan) -> None:
    around = cut_and_healed(wan)
    wan.nodes.ill = {"broker-eu-1"}
    assert FAULT_KINDS["partition"].find_recovery(around, region(wan, "eu")) is None
    wan.nodes.ill = set()
    assert FAULT_KINDS["partition"].find_recovery(around, region(wan, "eu"))


def test_a_node_that_says_it_is_well_and_is_not_listed_is_not_healed(wan: Wan) -> None:
    around = cut_and_healed(wan)
    wan.nodes.unlisted = {"bookie-eu-1"}
    assert FAULT_KINDS["partition"].find_recovery(around, region(wan, "eu")) is None
    # It notices that its session is over and ends; whoever supervises it starts it again.
    wan.nodes.dead = {"bookie-eu-1"}
    said = json.loads(FAULT_KINDS["partition"].find_recovery(around, region(wan, "eu")) or "{}")
    assert said["started_again"] == ["bookie-eu-1"]


def test_what_another_fault_keeps_down_is_left_down(wan: Wan) -> None:
    around = wan.around("partition", {"region": "eu"}, kept_down=frozenset({"broker-us-1"}))
    wan.nodes.dead = {"broker-us-1"}
    FAULT_KINDS["partition"].inject(around, region(wan, "eu"))
    FAULT_KINDS["partition"].heal(around, region(wan, "eu"))
    said = json.loads(FAULT_KINDS["partition"].find_recovery(around, region(wan, "eu")) or "{}")
    assert wan.nodes.dead == {"broker-us-1"}
    assert "started_again" not in said


def test_a_delay_adds_up_and_goes(wan: Wan) -> None:
    near, far = wan.connect("broker-eu-1", "bookie-us-1", BOOKIE_PORT)
    around = wan.around("delay", {"region": "eu"}, {"delay_ms": 200, "regions": ["us"]})
    FAULT_KINDS["delay"].inject(around, region(wan, "eu"))
    assert seen(around, region(wan, "eu"))["in_force"] == {"both_ways": True, "delay_ms": 200}
    started = time.monotonic()
    assert crosses(near, far)
    assert time.monotonic() - started >= 0.201
    FAULT_KINDS["delay"].heal(around, region(wan, "eu"))
    assert FAULT_KINDS["delay"].find_recovery(around, region(wan, "eu"))
    started = time.monotonic()
    assert crosses(near, far)
    assert time.monotonic() - started < 0.2


def test_a_narrow_link_is_slow(wan: Wan) -> None:
    near, far = wan.connect("broker-eu-1", "bookie-us-1", BOOKIE_PORT)
    around = wan.around("bandwidth", {"region": "eu"}, {"bandwidth_mbit": 1})
    FAULT_KINDS["bandwidth"].inject(around, region(wan, "eu"))
    assert seen(around, region(wan, "eu"))["in_force"] == {"both_ways": True, "bandwidth_mbit": 1}
    started = time.monotonic()
    near.sendall(b"x" * 50_000)
    left = 50_000
    while left:
        left -= len(far.recv(left))
    assert time.monotonic() - started >= 0.39  # 400,000 bit at 1 Mbit/s


def test_a_reset_ends_open_connections_and_lets_new_ones_in(wan: Wan) -> None:
    near, far = wan.connect("broker-eu-1", "bookie-us-1", BOOKIE_PORT)
    around = wan.around("reset", {"region": "eu"}, {"regions": ["us"]})
    FAULT_KINDS["reset"].inject(around, region(wan, "eu"))
    assert seen(around, region(wan, "eu"))["connections"] == 1
    for end in (near, far):
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    FAULT_KINDS["reset"].heal(around, region(wan, "eu"))
    assert FAULT_KINDS["reset"].find_recovery(around, region(wan, "eu"))
    wan.connect("broker-eu-1", "bookie-us-1", BOOKIE_PORT)


def test_a_reset_of_nothing_has_no_effect(wan: Wan) -> None:
    around = wan.around("reset", {"region": "eu"})
    FAULT_KINDS["reset"].inject(around, region(wan, "eu"))
    assert FAULT_KINDS["reset"].find_evidence(around, region(wan, "eu")) is None


def test_what_was_never_put_in_force_is_undone_without_a_word(wan: Wan) -> None:
    FAULT_KINDS["partition"].heal(wan.around("partition", {"region": "eu"}), region(wan, "eu"))


def test_a_run_without_a_link_is_reported(wan: Wan) -> None:
    around = wan.around("partition", {"region": "eu"})
    without = replace(around, link=None)
    with pytest.raises(RunError, match="this run has none"):
        FAULT_KINDS["partition"].inject(without, region(wan, "eu"))


def test_the_links_traffic_is_sampled_by_direction(wan: Wan) -> None:
    near, far = wan.connect("broker-eu-1", "bookie-us-1", BOOKIE_PORT)
    before = {(each.source, each.metric): each.value for each in sample_links(wan.link)}
    near.sendall(b"x" * 1000)
    left = 1000
    while left:
        left -= len(far.recv(left))
    after = {(each.source, each.metric): each.value for each in sample_links(wan.link)}
    assert int(after["link:eu>us", "bytes"]) - int(before["link:eu>us", "bytes"]) == 1000
    assert after["link:us>eu", "bytes"] == before["link:us>eu", "bytes"]
    assert float(after["link:eu>us", "added_max_ms"]) > 0
    assert ("link:us>eu", "added_max_ms") not in after
    assert float(after["link", "cpu_s"]) > 0


@pytest.mark.parametrize(
    ("kind", "link", "field"),
    [
        ("delay", None, "link.delay_ms"),
        ("bandwidth", {"delay_ms": 5}, "link.bandwidth_mbit"),
        ("partition", {"delay_ms": 5}, "link.delay_ms"),
        ("delay", {"delay_ms": 5, "bandwidth_mbit": 1}, "link.bandwidth_mbit"),
        ("partition", {"regions": ["asia"]}, "link.regions"),
        ("partition", {"regions": ["eu"]}, "link.regions"),
        ("kill", {"delay_ms": 5}, "link"),
    ],
)
def test_a_fault_that_says_too_little_or_too_much_is_refused(
    kind: str, link: dict[str, Any] | None, field: str
) -> None:
    topology = load_topology("sync_active_passive_wan", TOPOLOGIES)
    fault = Fault.model_validate({"name": "f", "kind": kind, "targets": {"region": "eu"}, "link": link})
    with pytest.raises(InputError) as caught:
        FAULT_KINDS[kind].check(fault, topology)
    assert caught.value.field == field
    assert caught.value.remedy
