"""The way between two regions of containers across links: one container, which is cut and slowed down."""

from __future__ import annotations

import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from brokerproof.checks import load_topology
from brokerproof.errors import MachineError, NodeError
from brokerproof.network import AddressOfControl, Condition, LinkClient, Plan, Route, Shape, record_link_process
from brokerproof.runtimes.container_runtime import ContainerRuntime
from brokerproof.runtimes.protocols import NodeSpec
from builders import TOPOLOGIES
from link_image import make_link_image

# Beyond those of any slot of this machine; the view is where n-eu sees n-us.
EU, US, VIEW = "10.223.0.11", "10.223.16.11", "10.223.1.0"
PORT = 7000
# Whoever connects is told so.
GREETS = f"while true; do echo here | nc -l -p {PORT}; done"


@pytest.fixture(scope="session")
def link_image(client: docker.APIClient) -> str:
    return make_link_image(client)


@pytest.fixture
def runtime(
    client: docker.APIClient, link_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ContainerRuntime]:
    monkeypatch.setenv("BROKERPROOF_IMAGE", link_image)
    runtime = ContainerRuntime(tmp_path / "nodes")
    yield runtime
    runtime.release()
    runtime.forget()


def make_plan(**changes: object) -> Plan:
    route = Route(
        viewer="n-eu", viewer_region="eu", target="n-us", target_region="us",
        listen_address=VIEW, target_address=US, ports=[PORT],
    )  # fmt: skip
    shapes = [Shape(sender="eu", receiver="us", delay_ms=20), Shape(sender="us", receiver="eu", delay_ms=20)]
    return Plan.model_validate({"routes": [route], "shapes": shapes, **changes})


def prepare(runtime: ContainerRuntime, image: str) -> dict[str, NodeSpec]:
    specs = {
        name: NodeSpec(name=name, role="broker", region=region, address=at, image=image, command=("sh", "-c", GREETS))
        for name, region, at in (("n-eu", "eu", EU), ("n-us", "us", US))
    }
    for spec in specs.values():
        runtime.prepare(spec)
    return specs


def call(runtime: ContainerRuntime, client: docker.APIClient, node: str, address: str, patience_s: int = 5) -> str:
    """What a node hears at an address."""
    made = client.exec_create(
        f"{runtime._in_engine.prefix}-{node}", ["nc", "-w", str(patience_s), address, str(PORT)], stderr=False
    )
    heard: bytes = client.exec_start(made["Id"])
    return heard.decode().strip()


def test_regions_meet_at_the_link_alone(runtime: ContainerRuntime, image: str, client: docker.APIClient) -> None:
    specs = prepare(runtime, image)
    link = runtime.start_links(make_plan())
    for spec in specs.values():
        runtime.start(spec)
    assert link.ping() > 0
    assert [route.listen_address for route in link.routes()] == [VIEW]
    assert call(runtime, client, "n-eu", VIEW) == "here"
    assert call(runtime, client, "n-eu", US, 1) == ""
    # A cut stops what crosses the link, and nothing that does not.
    both = Condition(id="cut", senders=["n-eu"], receivers=["n-us"], both_ways=True, cut=True)
    link.add(both)
    assert call(runtime, client, "n-eu", VIEW, 1) == ""
    with socket.create_connection((US, PORT), timeout=5) as peer:
        assert peer.recv(10) == b"here\n"
    link.remove("cut")
    assert call(runtime, client, "n-eu", VIEW, 10) == "here"
    started = time.monotonic()
    with socket.create_connection((VIEW, PORT), timeout=5) as peer:
        assert peer.recv(10) == b"here\n"
    assert time.monotonic() - started >= 0.04
    assert "link" in runtime.release()


def test_who_does_not_know_the_secret_is_told_nothing(
    runtime: ContainerRuntime, image: str, client: docker.APIClient, tmp_path: Path
) -> None:
    prepare(runtime, image)
    runtime.start_links(make_plan())
    ready = runtime.nodes / "link" / "ready.json"
    assert stat.S_IMODE(ready.stat().st_mode) == 0o600
    networks = client.inspect_container(runtime._in_engine.name("link"))["NetworkSettings"]["Networks"]
    address = next(iter(networks.values()))["IPAddress"]
    guess = AddressOfControl(host=address, port=7999, secret="guess")
    with pytest.raises(Exception, match="does not hold the secret"):
        record_link_process(tmp_path / "stranger", 1, guess).ping()


def test_a_link_that_cannot_listen_says_where(runtime: ContainerRuntime, image: str) -> None:
    prepare(runtime, image)
    plan = make_plan()
    elsewhere = [plan.routes[0].model_copy(update={"listen_address": "10.250.0.1"})]
    with pytest.raises(MachineError, match=r"10\.250\.0\.1 is in none of the networks"):
        runtime.start_links(plan.model_copy(update={"routes": elsewhere}))


def test_a_link_that_was_removed_by_hand_is_reported(
    runtime: ContainerRuntime, image: str, client: docker.APIClient
) -> None:
    prepare(runtime, image)
    runtime.start_links(make_plan())
    client.remove_container(runtime._in_engine.name("link"), force=True)
    with pytest.raises(NodeError, match="does not answer `ping`"):
        LinkClient(runtime.nodes).ping()


def test_an_image_that_was_not_built_is_named_and_not_fetched(
    runtime: ContainerRuntime, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERPROOF_IMAGE", "brokerproof-tests/none:1")
    prepare(runtime, image)
    with pytest.raises(MachineError, match=r"none:1 is not here: build it with `make image`"):
        runtime.start_links(make_plan())
    # It is said before a run begins, and only of a topology that needs it.
    with pytest.raises(MachineError, match=r"none:1 is not here: build it with `make image`"):
        runtime.require(load_topology("geo_replication_wan", TOPOLOGIES))
    runtime.require(load_topology("geo_replication", TOPOLOGIES))
