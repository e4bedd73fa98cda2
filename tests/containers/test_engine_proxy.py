"""The proxy before the engine's socket, as docker-compose.yaml starts it: what it refuses, and a run through it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus

import docker
import pytest
from brokerproof.clock import wait_until
from brokerproof.errors import NodeError
from brokerproof.network import Plan, Route
from brokerproof.runtimes import engine
from brokerproof.runtimes.container_runtime import ContainerRuntime
from brokerproof.runtimes.engine import Container, RunInEngine
from brokerproof.runtimes.protocols import Program
from link_image import make_link_image
from missing_parts import leave_out
from own_proxy import CONFIGURATION, PROGRAM, Proxy, ask, run_proxy

from .test_container_runtime import ADDRESSES, LIVES, has_printed, make_spec

REFUSES = "the proxy of the engine refuses"
# Of another installation, and of this platform's own services.
OTHER, SERVICE = "brokerproof-0ther-run-n1", "brokerproof-postgres-1"


@pytest.fixture(scope="session")
def proxy(client: docker.APIClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    # A socket's path has at most 107 characters.
    with run_proxy(client, os.environ["DOCKER_HOST"], tmp_path_factory.mktemp("p")) as running:
        yield running


@pytest.fixture
def through_proxy(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """The environment of the scheduler."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{proxy.runs}")
    monkeypatch.setenv("BROKERPROOF_INSTALLATION", proxy.installation)
    monkeypatch.setenv("BROKERPROOF_LEASES", f"/opt/brokerproof/var/leases/{proxy.installation}")
    return proxy


@pytest.fixture
def runtime(through_proxy: Proxy, tmp_path: Path) -> Iterator[ContainerRuntime]:
    runtime = ContainerRuntime(tmp_path / "a_run" / "nodes")
    yield runtime
    runtime.release()
    runtime.forget()


@pytest.fixture
def scheduler(client: docker.APIClient, through_proxy: Proxy, image: str) -> Iterator[str]:
    """A container that joins the networks of runs, which has a password in its environment."""
    name = f"brokerproof-clients-{through_proxy.installation}-scheduler"
    labels = {engine.CLIENTS: f"/opt/brokerproof/var/leases/{through_proxy.installation}"}
    client.create_container(image, ["sleep", "600"], name=name, labels=labels, environment={"PASSWORD": "secret"})
    client.start(name)
    yield name
    client.remove_container(name, force=True)


def test_a_run_needs_no_other_call(
    runtime: ContainerRuntime, image: str, client: docker.APIClient, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERPROOF_IMAGE", make_link_image(client))
    spec = make_spec(
        image, "n-eu", code="cat /node/data/formatted; while true; do echo here | nc -l -p 7000; done",
        format=("sh", "-c", "echo x >> /node/data/formatted"), reset=("sh", "-c", "true"), memory_mb=64,
        files={"conf/x": 'in {node} of "{host}" ü\n'}, environment={"A": 'a "b" \\ ü'},
        published={28_999: 7000}, metrics=(7000, "/metrics"), health=("true",), ports=(7000,),
    )  # fmt: skip
    other = make_spec(image, "n-us", "us", LIVES)
    assert runtime.read_image_file(image, "/etc/shipped") == "as shipped\n"
    for each in (spec, other):
        runtime.prepare(each)
    runtime.execute(Program(purpose="a program", image=image, command=("true",), files={"x": "y"}, timeout_s=20))
    route = Route(
        viewer="n-us", viewer_region="us", target="n-eu", target_region="eu",
        listen_address="10.223.17.0", target_address=ADDRESSES["eu"], ports=[7000],
    )  # fmt: skip
    runtime.start_links(Plan(routes=[route]))
    for each in (spec, other):
        runtime.start(each)
    heard = client.exec_start(client.exec_create(scheduler, ["nc", "-w", "10", ADDRESSES["eu"], "7000"])["Id"])
    assert heard == b"here\n"
    has_printed(runtime, "n-eu", "x")
    runtime.pause("n-us")
    assert runtime.is_paused("n-us")
    runtime.resume("n-us")
    runtime.stop("n-us", grace_s=5)
    runtime.start(other)
    runtime.kill("n-eu")
    runtime.reset(spec)
    runtime.wipe(spec)
    runtime.start(spec)
    runtime.check_nobody_interfered()
    runtime.pause("n-us")
    assert set(runtime.release()) == {"n-eu", "n-us", "link"}
    runtime.forget()
    assert engine.list_runs_in_engine() == []
    assert list(client.inspect_container(scheduler)["NetworkSettings"]["Networks"]) == ["bridge"]


def test_what_a_killed_run_left_is_removed(
    runtime: ContainerRuntime, image: str, scheduler: str, tmp_path: Path
) -> None:
    spec = make_spec(image)
    runtime.prepare(spec)
    runtime.start(spec)
    (runtime.nodes / "containers.json").unlink()
    assert ContainerRuntime.remove_left(tmp_path) == ["n1"]
    assert engine.list_runs_in_engine() == []


@pytest.fixture(scope="session")
def run(client: docker.APIClient, proxy: Proxy, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run through the proxy, with a container of each field that a node can have, and other containers beside it."""
    with pytest.MonkeyPatch.context() as environment:
        set_environment(environment, proxy)
        runtime = ContainerRuntime(tmp_path_factory.mktemp("a_run") / "nodes")
        written: dict[str, str] = {}
        post = docker.APIClient._post

        def record(self: docker.APIClient, url: str, **options: Any) -> Any:
            if isinstance(options.get("data"), str):
                written.setdefault(url.split("/v", 1)[1].split("/", 1)[1].split("/")[-2:][-1], options["data"])
            return post(self, url, **options)

        environment.setattr(docker.APIClient, "_post", record)
        spec = make_spec(image, published={28_999: 7000}, memory_mb=64, health=("true",), metrics=(7000, "/metrics"))
        runtime.prepare(spec)
        yield Run(proxy, runtime)
