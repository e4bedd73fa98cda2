"""A real cluster over a link of 20 ms: the traffic between its regions crosses it, waits for it, stops with it."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from brokerproof import lifecycle
from brokerproof.clock import wait_until
from brokerproof.errors import DeadlineError
from brokerproof.experiment.fault import Fault
from brokerproof.faults.kind import Surroundings
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.network import LinkClient
from brokerproof.run.directory import Run
from brokerproof.systems.clients import Settled
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.provisioning import PulsarProvisioning
from brokerproof.systems.pulsar.roles import Role
from brokerproof.systems.pulsar.system import PULSAR, PulsarAdministration
from brokerproof.systems.registry import make_clients

from ..conftest import ConfiguredRun
from .conftest import DELAY_MS


@pytest.fixture
def wan(stretched: ConfiguredRun) -> Run:
    return stretched.run


@pytest.fixture
def observation(stretched: ConfiguredRun) -> PulsarObservation:
    return stretched.observation


def latencies_ms(run: Run, region: str | None, count: int = 20) -> list[float]:
    """Of messages that are published one after the other, each when the one before is acked."""
    clients = make_clients(run, "mycluster", region)
    try:
        producer = clients.producer(f"test-{region}-{time.monotonic_ns()}")
        found = []
        for seq in range(count):
            answers: list[Settled] = []
            started = time.monotonic()
            producer.send(seq, "k0", b"x" * 100, answers.append)
            wait_until(lambda: bool(answers), timeout_s=90, what="the ack", every_s=0.001)  # noqa: B023
            found.append((time.monotonic() - started) * 1000)
            assert answers[0].outcome == "acked"
        producer.close()
        return found
    finally:
        clients.close()


def crossing_directly(run: Run, pids: Iterable[tuple[int, str]]) -> list[str]:
    """Connections of processes, each in a region, to a node of another region at its own address."""
    node_at = {address: name for name, address in run.facts.addresses.items()}
    return [
        f"a process in {region} is connected to {name}"
        for pid, region in pids
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.raddr and (name := node_at.get(connection.raddr.ip)) and run.topology.nodes[name].region != region
    ]


@contextmanager
def on_the_direct_way_to(host: str, port: int) -> Iterator[int]:
    """The id of a process that holds one connection, and ends with its standard input."""
    code = f"import socket, sys; _ = socket.create_connection(({host!r}, {port})); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield process.pid


def test_a_publish_waits_for_the_way_to_the_other_region_and_back(wan: Run) -> None:
    beside, eu, us = (statistics.median(latencies_ms(wan, region)) for region in (None, "eu", "us"))
    assert 2 * DELAY_MS <= beside < 4 * DELAY_MS
    assert 2 * DELAY_MS <= eu < 4 * DELAY_MS
    # The topic is owned in eu, so that clients in us have the way twice.
    assert us >= 4 * DELAY_MS


def test_nothing_but_the_link_connects_two_regions(wan: Run) -> None:
    latencies_ms(wan, None, 1)
    nodes = [(pid, wan.topology.nodes[name].region) for name, pid in lifecycle.make_runtime(wan).pids().items()]
    assert len(nodes) == len(wan.topology.nodes)
    assert crossing_directly(wan, nodes) == []
    pairs = {(pair.sender, pair.receiver) for pair in LinkClient(Path(wan.path("nodes"))).metrics().pairs if pair.bytes}
    assert {("eu", "us"), ("us", "eu"), ("eu", "witness"), ("us", "witness")} <= pairs
    # What the check finds: a process, if it stood in eu, on the direct way to a bookie of us. One of its own, because a
    # Pulsar client of this one may still be closing its connections.
    with on_the_direct_way_to(wan.facts.addresses["bookie-us-1"], 3181) as pid:
        assert crossing_directly(wan, [(pid, "eu")]) == ["a process in eu is connected to bookie-us-1"]


def test_nodes_that_go_by_names_are_found_by_them(wan: Run, observation: PulsarObservation) -> None:
    latencies_ms(wan, None, 1)
    assert observation.list_alive()[Role.BOOKIE] == sorted(observation.home.names(role=Role.BOOKIE))
    assert observation.list_alive()[Role.BROKER] == sorted(observation.home.names(role=Role.BROKER))
    assert sorted(wan.topology.nodes[name].region for name in observation.find_holders()) == ["eu", "us"]
    regions = [{wan.topology.nodes[name].region for name in each.in_sync} for each in observation.find_copies()]
    assert regions
    assert regions == [{"eu", "us"}] * len(regions)
    assert observation.find_owner() in observation.home.names(role=Role.BROKER, region="eu")


def test_a_cut_stops_the_acks_and_healing_brings_them_back(wan: Run, observation: PulsarObservation) -> None:
    latencies_ms(wan, None, 1)
    kind, targets = FAULT_KINDS["partition"], [name for name, node in wan.topology.nodes.items() if node.region == "us"]
    provisioning = PulsarProvisioning(wan)
    around = Surroundings(
        provisioning=provisioning,
        administration=PulsarAdministration(wan),
        observation=observation,
        runtime=lifecycle.make_runtime(wan),
        specs=provisioning.specs(),
        roles=PULSAR.roles,
        link=LinkClient(Path(wan.path("nodes"))),
        # The metadata store in witness stays in sight of both, so that BookKeeper takes all bookies for alive and tries
        # those of us in turns, 30 s each, as long as the cut lasts.
        fault=Fault.model_validate(
            {"name": "apart", "kind": "partition", "targets": {"region": "us"}, "link": {"regions": ["eu"]}}
        ),
    )
    clients = make_clients(wan, "mycluster")
    try:
        producer = clients.producer("across-the-cut")
        kind.inject(around, targets)
        effect = json.loads(wait_until(lambda: kind.find_evidence(around, targets), timeout_s=10, what="the effect"))
        assert effect["connections"] > 0
        answers: list[Settled] = []
        producer.send(0, "k0", b"x" * 100, answers.append)
        with pytest.raises(DeadlineError):
            wait_until(lambda: bool(answers), timeout_s=10, what="an ack that must not come")
        kind.heal(around, targets)
        wait_until(lambda: bool(answers), timeout_s=60, what="the ack after the healing")
        assert [answer.outcome for answer in answers] == ["acked"]
        assert wait_until(lambda: kind.find_recovery(around, targets), timeout_s=120, what="the nodes to be healthy")
    finally:
        clients.close()
