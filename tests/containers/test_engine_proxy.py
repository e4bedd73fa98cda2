"""The proxy before the engine's socket, as docker-compose.yaml starts it: what it refuses, and a run through it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import docker
import pytest
from brokerproof.clock import wait_until
from brokerproof.network import Plan, Route
from brokerproof.runtimes import engine
from brokerproof.runtimes.container_runtime import ContainerRuntime
from brokerproof.runtimes.protocols import Program
from link_image import make_link_image
from missing_parts import leave_out
from own_prometheus import PROGRAM as PROMETHEUS
from own_prometheus import run_prometheus
from own_proxy import CONFIGURATION, PROGRAM, Proxy, ask, run_proxy

from .test_container_runtime import ADDRESSES, LIVES, has_printed, make_spec
from .test_prometheus import read_jobs

REFUSES = "the proxy of the engine refuses"
# The container of a service of the platform, and a node of another installation.
SERVICE, OTHER = "brokerproof-postgres-1", "brokerproof-0ddba11c-run-n1"


def set_environment(environment: pytest.MonkeyPatch, proxy: Proxy) -> None:
    """The environment of the scheduler."""
    environment.setenv("DOCKER_HOST", f"unix://{proxy.runs}")
    environment.setenv("BROKERPROOF_INSTALLATION", proxy.installation)
    environment.setenv("BROKERPROOF_LEASES", leases(proxy.installation))


def leases(installation: str) -> str:
    return f"/opt/brokerproof/var/leases/{installation}"


@pytest.fixture(scope="module")
def proxy(client: docker.APIClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    # A socket's path has at most 107 characters.
    with run_proxy(client, os.environ["DOCKER_HOST"], tmp_path_factory.mktemp("p")) as running:
        yield running


@pytest.fixture
def runtime(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ContainerRuntime]:
    set_environment(monkeypatch, proxy)
    runtime = ContainerRuntime(tmp_path / "a_run" / "nodes")
    yield runtime
    runtime.release()
    runtime.forget()


@pytest.fixture(scope="module")
def scheduler(client: docker.APIClient, proxy: Proxy, image: str) -> Iterator[str]:
    """A container that joins the networks of runs, and has a password in its environment."""
    name = f"brokerproof-clients-{proxy.installation}-scheduler"
    labels = {engine.CLIENTS: leases(proxy.installation)}
    client.create_container(image, ["sleep", "600"], name=name, labels=labels, environment={"PASSWORD": "secret"})
    client.start(name)
    yield name
    client.remove_container(name, force=True)


@dataclass(frozen=True)
class Run:
    """A run through the proxy, with a node that has everything that a node can have."""

    proxy: Proxy
    # What `{…}` means in the attempts below.
    names: Mapping[str, str]
    # {the end of a call's path: the first body that the run sent}
    bodies: Mapping[str, str]

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
        return ask(self.proxy.runs, method, fill(path, self.names), body, headers)


def fill(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


@pytest.fixture(scope="module")
def run(
    client: docker.APIClient,
    proxy: Proxy,
    image: str,
    scheduler: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Run]:
    others = [client.create_container(image, ["sleep", "600"], name=name)["Id"] for name in (SERVICE, OTHER)]
    bodies: dict[str, str] = {}
    post = docker.APIClient._post

    def record(self: docker.APIClient, url: str, **options: Any) -> Any:
        if "data" in options:
            bodies.setdefault("/".join(url.split("?")[0].split("/")[-2:]), options["data"])
            bodies.setdefault(url.split("/")[-1], options["data"])
        return post(self, url, **options)

    # Beside the addresses of `make_spec`, which the other tests here use.
    spec = make_spec(
        image, address="10.222.0.11", published={28_999: 7000}, memory_mb=64, health=("true",),
        metrics=(7000, "/metrics"),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as environment:
        set_environment(environment, proxy)
        runtime = ContainerRuntime(tmp_path_factory.mktemp("a_run") / "nodes")
        environment.setattr(docker.APIClient, "_post", record)
        runtime.prepare(spec)
        node, network = runtime._in_engine.name("n1"), runtime._in_engine.name("eu")
        runtime._in_engine.client.disconnect_container_from_network(scheduler, network, force=True)
    try:
        names = {
            **{"node": node, "network": network, "volume": f"{node}-data", "scheduler": scheduler},
            **{"installation": proxy.installation, "service": SERVICE, "other": OTHER, "image": image},
            **{"id": client.inspect_container(node)["Id"], "network_id": client.inspect_network(network)["Id"]},
            **{"service_id": others[0], "run": runtime._in_engine.prefix},
        }
        yield Run(proxy, names, bodies)
    finally:
        runtime.release()
        runtime.forget()
        for each in others:
            client.remove_container(each, force=True)


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


OWN = '{"label": ["org.brokerproof.slots=/opt/brokerproof/var/leases/{installation}"]}'
LIST = "/containers/json?limit=-1&all=1&size=0&trunc_cmd=0&filters="


@pytest.mark.parametrize(
    ("method", "path"),
    [
        # No run needs them.
        ("GET", "/info"),
        ("GET", "/events"),
        ("GET", "/secrets"),
        ("GET", "/images/json"),
        ("GET", "/system/df"),
        ("HEAD", "/_ping"),
        ("POST", "/build"),
        ("POST", "/swarm/init"),
        ("POST", "/plugins/pull"),
        ("POST", "/v1.41/commit?container={node}"),
        ("POST", "/volumes/prune"),
        ("POST", "/networks/prune"),
        ("POST", "/containers/prune"),
        ("DELETE", "/images/{image}"),
        ("POST", "/containers/{node}/exec"),
        ("POST", "/containers/{node}/update"),
        ("POST", "/containers/{node}/rename?name=x"),
        ("POST", "/containers/{node}/attach"),
        ("POST", "/containers/{node}/restart"),
        ("GET", "/containers/{node}/export"),
        ("GET", "/containers/{node}/top"),
        ("HEAD", "/containers/{node}/archive?path=%2F"),
        # An image that comes from the caller or from an address.
        ("POST", "/images/create?fromSrc=-"),
        ("POST", "/images/create?from%53rc=-&repo=haproxy&tag=3.2"),
        ("POST", "/images/create?tag=1&fromImage=x&fromSrc=http%3A%2F%2Fhere"),
        # Parameters of a call that no run uses.
        ("POST", "/containers/{node}/start?checkpoint=x&checkpoint-dir=/etc"),
        ("POST", "/containers/{node}/kill?signal=STOP"),
        ("DELETE", "/containers/{node}?v=True&link=False&force=True"),
        ("DELETE", "/containers/{node}?v=False&link=True&force=True"),
        ("PUT", "/containers/{node}/archive?path=%2F&noOverwriteDirNonDir=1"),
        # Versions of the interface in which a start can describe the container once more.
        ("POST", "/v1.23/containers/{node}/start"),
        ("POST", "/v01.23/containers/{node}/start"),
        ("POST", "/v1.41/v1.41/containers/{node}/start"),
        # A service of this platform, whose name begins with the directory of the checkout.
        ("GET", "/containers/{service}/json"),
        ("GET", "/containers/{service}/logs?stderr=1&stdout=1&timestamps=0&follow=0&tail=all"),
        ("GET", "/containers/{service}/archive?path=%2Fetc"),
        ("PUT", "/containers/{service}/archive?path=%2F"),
        ("POST", "/containers/{service}/start"),
        ("POST", "/containers/{service}/stop?t=1"),
        ("POST", "/containers/{service}/kill"),
        ("POST", "/containers/{service}/pause"),
        ("POST", "/containers/{service}/wait"),
        ("DELETE", "/containers/{service}?v=False&link=False&force=True"),
        ("GET", "/networks/brokerproof_default"),
        ("GET", "/networks/bridge"),
        ("DELETE", "/networks/brokerproof_default"),
        ("GET", "/volumes/brokerproof_postgres"),
        ("DELETE", "/volumes/brokerproof_postgres"),
        ("GET", "/volumes/brokerproof-postgres"),
        # The scheduler itself, with its passwords.
        ("GET", "/containers/{scheduler}/json"),
        ("GET", "/containers/{scheduler}/archive?path=%2Fproc%2Fself%2Fenviron"),
        ("PUT", "/containers/{scheduler}/archive?path=%2F"),
        ("POST", "/containers/{scheduler}/stop?t=1"),
        ("DELETE", "/containers/{scheduler}?v=False&link=False&force=True"),
        # Another installation's.
        ("GET", "/containers/{other}/json"),
        ("POST", "/containers/{other}/kill"),
        ("DELETE", "/containers/{other}?v=False&link=False&force=True"),
        ("DELETE", "/networks/brokerproof-0ddba11c-run-eu"),
        ("DELETE", "/volumes/brokerproof-0ddba11c-run-n1-data"),
        # An id says no name, and a path can say two.
        ("GET", "/containers/{id}/json"),
        ("DELETE", "/containers/{id}?v=False&link=False&force=True"),
        ("GET", "/networks/{network_id}"),
        ("DELETE", "/networks/{network_id}"),
        ("GET", "/containers/{service_id}/json"),
        ("GET", "/containers/../secrets"),
        ("GET", "/containers/{node}/../{service}/json"),
        ("GET", "/containers/{node}%2F..%2F{service}/json"),
        ("GET", "/images/../containers/{service}/json"),
        ("GET", "/images/%2e%2e/containers/{service}/json"),
        ("GET", "//containers/{service}/json"),
        # What is not of this installation is not listed.
        ("GET", "/containers/json"),
        ("GET", "/containers/json?all=1"),
        ("GET", "/networks"),
        ("GET", "/volumes"),
        ("GET", LIST + quote_plus('{"label": ["org.brokerproof.slots=/opt/brokerproof/var/leases/0ddba11c"]}')),
        ("GET", LIST + quote_plus('{"label": ["org.brokerproof.slots"]}')),
        ("GET", LIST + quote_plus('{"name": ["postgres"]}')),
        ("GET", LIST + quote_plus(OWN) + "&filters=%7B%7D"),
        ("GET", "/containers/json?%66ilters=%7B%7D&filters=" + quote_plus(OWN)),
        ("GET", LIST + "%7B%7D;filters=" + quote_plus(OWN)),
        ("GET", LIST + quote_plus(OWN[:-1] + ', "label": ["x"]}')),
    ],
)
def test_a_call_that_runs_do_not_need_is_refused(run: Run, method: str, path: str) -> None:
    status, said = run.ask(method, path.replace(quote_plus("{installation}"), "{installation}"))
    assert status == 403
    assert REFUSES in said or method == "HEAD"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/version", 200),
        ("GET", "/_ping", 200),
        ("GET", "/containers/{node}/json", 200),
        ("GET", "/v1.41/containers/{node}/json", 200),
        ("GET", "/containers/{node}/logs?stderr=1&stdout=1&timestamps=0&follow=0&tail=400", 200),
        ("GET", "/containers/{node}/archive?path=%2Fetc%2Fshipped", 200),
        ("POST", "/containers/{node}/stop?t=1", 304),
        ("POST", "/containers/{run}-nobody/kill", 404),
        ("DELETE", "/containers/{run}-nobody?v=False&link=False&force=True", 404),
        ("GET", "/networks/{network}", 200),
        ("GET", "/volumes/{volume}", 200),
        ("DELETE", "/volumes/{run}-nobody", 404),
        ("GET", "/images/{image}/json", 200),
        ("GET", "/images/127.0.0.1:5000/mirror/apachepulsar/pulsar:4.0.8/json", 404),
        ("GET", LIST + quote_plus(OWN), 200),
        ("GET", "/networks?filters=" + quote_plus(OWN), 200),
        ("GET", "/volumes?filters=" + quote_plus(OWN), 200),
    ],
)
def test_a_call_that_runs_need_is_let_through(run: Run, method: str, path: str, status: int) -> None:
    """So the refusals are no accident."""
    answered, said = run.ask(method, path.replace(quote_plus("{installation}"), "{installation}"))
    assert (answered, REFUSES in said) == (status, False), said


CREATE = "/v1.41/containers/create?name={run}-attempt"
MAKES = {"containers/create": CREATE, "networks/create": "/networks/create", "volumes/create": "/volumes/create"}
PUBLISHED = '[{"HostIp": "127.0.0.1", "HostPort": "28999"}]'


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        # Ports that are on each interface, or that an engine may put there.
        (PUBLISHED, '[{"HostPort": "28999"}]'),
        (PUBLISHED, "[{}]"),
        (PUBLISHED, "[]"),
        (PUBLISHED, "null"),
        (PUBLISHED, '[{"HostIp": "", "HostPort": "28999"}]'),
        (PUBLISHED, '[{"HostIp": "0.0.0.0", "HostPort": "28999"}]'),
        (PUBLISHED, '[{"HostIp": "::", "HostPort": "28999"}]'),
        (PUBLISHED, PUBLISHED[:-1] + ', {"HostPort": "80"}]'),
        (PUBLISHED, '[{"HostIp": "127.0.0.1", "HostPort": "28999", "HostIp": "0.0.0.0"}]'),
        (PUBLISHED, '[{"HostIp": "127.0.0.1", "HostPort": "28999", "hostip": "0.0.0.0"}]'),
        ('"PortBindings": ', '"PublishAllPorts": true, "PortBindings": '),
        # Rights.
        ('"HostConfig": {', '"HostConfig": {"Privileged": true, '),
        ('"HostConfig": {', '"HostConfig": {"privileged": true, '),
        ('"HostConfig": {', '"HostConfig": {"\\u0050rivileged": true, '),
        ('"Binds": ', '"CapAdd": ["SYS_ADMIN"], "Binds": '),
        ('"Binds": ', '"CapAdd": "ALL", "Binds": '),
        ('"Binds": ', '"CapAdd": ["NET_ADMIN", "SYS_ADMIN"], "Binds": '),
        ('"Binds": ', '"CapAdd": ["NET_ADMIN"], "CapAdd": ["ALL"], "Binds": '),
        ('"HostConfig": {', '"HostConfig": {"SecurityOpt": ["apparmor=unconfined"], '),
        ('"HostConfig": {', '"HostConfig": {"MaskedPaths": [], '),
        ('"HostConfig": {', '"HostConfig": {"Devices": [{"PathOnHost": "/dev/vda"}], '),
        ('"HostConfig": {', '"HostConfig": {"Runtime": "another", '),
        ('"HostConfig": {', '"HostConfig": {"UsernsMode": "host", '),
        # Directories of the machine, and volumes that are not of runs.
        ('"Binds": [', '"Binds": ["/etc:/x:rw", '),
        ('"Binds": [', '"Binds": ["\\/:/x:rw", '),
        ('"Binds": [', '"Binds": ["brokerproof_postgres:/x:rw", '),
        ('"Binds": [', '"Binds": ["brokerproof-0ddba11c-run-n1-data:/x:rw", '),
        ('"Binds": [', '"Binds": ["{volume}:/x:rw,z", '),
        ('"PortBindings": ', '"Binds": ["/:/x:rw"], "PortBindings": '),
        ('"PortBindings": ', '"Bind\u017f": ["/:/x:rw"], "PortBindings": '),
        ('"HostConfig": {', '"HostConfig": {"Mounts": [{"Type": "bind", "Source": "/", "Target": "/x"}], '),
        ('"HostConfig": {', '"HostConfig": {"VolumesFrom": ["{service}"], '),
        ('"HostConfig": {', '"HostConfig": {"CgroupParent": "/", '),
        # The namespaces of the machine and of other containers.
        ('"NetworkMode": "{network}"', '"NetworkMode": "host"'),
        ('"NetworkMode": "{network}"', '"NetworkMode": "container:{service}"'),
        ('"NetworkMode": "{network}"', '"NetworkMode": "{network_id}"'),
        ('"NetworkMode": "{network}"', '"NetworkMode": "brokerproof_default"'),
        ('"NetworkMode": "{network}"', '"NetworkMode": "default"'),
        ('"NetworkMode": "{network}", ', ""),
        ('"HostConfig": {', '"HostConfig": {"PidMode": "host", '),
        ('"HostConfig": {', '"HostConfig": {"IpcMode": "host", '),
        ('"EndpointsConfig": {"{network}"', '"EndpointsConfig": {"brokerproof_default"'),
        ('"EndpointsConfig": {"{network}"', '"EndpointsConfig": {"brokerproof_default": {}, "{network}"'),
        ('"Aliases": ["n1"]', '"Aliases": ["n1"], "Links": ["{service}"]'),
        # Each once, and no field that is not described.
        ('"Hostname": ', '"HostConfig": {"Privileged": true}, "Hostname": '),
        ('"Labels": {', '"hostconfig": {"Privileged": true}, "Labels": {'),
        ('"Hostname": ', '"Domainname": "x", "Hostname": '),
        ('"User": "10000"', '"User": "root:docker"'),
        # Labels that make another installation, or this one, take it for something else.
        ('"org.brokerproof.node"', '"org.brokerproof.clients"'),
        (
            '"org.brokerproof.slots": "',
            '"org.brokerproof.clients": "/opt/brokerproof/var/leases/0ddba11c", "org.brokerproof.slots": "',
        ),
        ('leases/{installation}"', 'leases/0ddba11c"'),
        ('"org.brokerproof.node"', '"com.docker.compose.project"'),
    ],
)
def test_a_container_that_asks_for_more_than_a_node_is_refused(run: Run, written: str, instead: str) -> None:
    body, written, instead = (fill(text, run.names) for text in (run.bodies["containers/create"], written, instead))
    assert written in body
    status, said = run.ask("POST", CREATE, body.replace(written, instead, 1))
    assert (status, REFUSES in said) == (403, True), said


@pytest.mark.parametrize("name", ["{service}", "{scheduler}", "attempt", "brokerproof-0ddba11c-attempt", ""])
def test_a_container_whose_name_is_not_of_a_run_is_refused(run: Run, name: str) -> None:
    for path in (f"/containers/create?name={name}", f"/containers/create?name={{run}}-a&name={name}"):
        status, said = run.ask("POST", path, run.bodies["containers/create"])
        assert (status, REFUSES in said) == (403, True), said
    assert REFUSES in run.ask("POST", "/containers/create", run.bodies["containers/create"])[1]


def test_a_container_like_a_node_is_let_through(run: Run) -> None:
    long = run.bodies["containers/create"].replace('"Env": [', f'"Env": ["A={"x" * 90_000}", ')
    many = run.bodies["containers/create"].replace('"Cmd": [', '"Cmd": [' + '"x", ' * 15_000)
    for body in (run.bodies["containers/create"], long, many):
        status, said = run.ask("POST", CREATE, body)
        assert status == 201, said
        assert run.ask("DELETE", "/containers/{run}-attempt?v=False&link=False&force=True")[0] == 204


@pytest.mark.parametrize(
    ("call", "written", "instead"),
    [
        ("networks/create", '"Driver": "bridge"', '"Driver": "macvlan"'),
        ("networks/create", '"Driver": "bridge"', '"Driver": "bridge", "Options": {"parent": "eth0"}'),
        ("networks/create", '"Driver": "bridge"', '"Driver": "bridge", "Scope": "swarm"'),
        ("networks/create", '"Driver": "bridge"', '"Driver": "bridge", "ConfigFrom": {"Network": "x"}'),
        ("networks/create", "{network}", "brokerproof_default"),
        ("networks/create", "10.222.0.0/20", "192.168.0.0/20"),
        ("networks/create", "10.222.0.0/20", "10.0.0.0/8"),
        ("networks/create", "10.222.0.0/20", "0.0.0.0/0"),
        ("networks/create", '"Config": [', '"Driver": "x", "Config": ['),
        ("networks/create", '"Config": [', '"Config": [{"Subnet": "192.168.0.0/20"}, '),
        ("networks/create", "leases/{installation}", "leases/0ddba11c"),
        ("volumes/create", "{volume}", "brokerproof_postgres"),
        ("volumes/create", "{volume}", "brokerproof-0ddba11c-run-n1-data"),
        ("volumes/create", '"Labels"', '"DriverOpts": {"type": "none", "o": "bind", "device": "/"}, "Labels"'),
        ("volumes/create", '"Labels"', '"Driver": "another", "Labels"'),
        ("connect", "{scheduler}", "{service}"),
        ("connect", "{scheduler}", "{service_id}"),
        ("connect", "{scheduler}", "{id}"),
        ("connect", "{scheduler}", "{other}"),
        ("connect", "{scheduler}", "brokerproof-clients-0ddba11c-scheduler"),
        ("connect", "{scheduler}", '{node}", "Container": "{service}'),
        ("connect", "{}", '{"Links": ["{service}"]}'),
        ("connect", "{}", '{"DriverOpts": {"x": "y"}}'),
        ("disconnect", "{scheduler}", "{service}"),
        ("disconnect", "{scheduler}", "{service_id}"),
        ("disconnect", "{scheduler}", "{other}"),
        ("disconnect", "true", 'true, "container": "{service}"'),
    ],
)
def test_a_body_that_reaches_beyond_runs_is_refused(run: Run, call: str, written: str, instead: str) -> None:
    path = MAKES.get(call, f"/networks/{{network}}/{call}")
    body, written, instead = (fill(text, run.names) for text in (run.bodies[call], written, instead))
    assert written in body
    assert REFUSES not in run.ask("POST", path, body)[1]
    status, said = run.ask("POST", path, body.replace(written, instead, 1))
    assert (status, REFUSES in said) == (403, True), said


@pytest.mark.parametrize("path", ["/networks/bridge", "/networks/{network_id}", "/networks/brokerproof_default"])
@pytest.mark.parametrize("call", ["connect", "disconnect"])
def test_another_network_is_neither_joined_nor_left(run: Run, path: str, call: str) -> None:
    status, said = run.ask("POST", f"{path}/{call}", run.bodies[call])
    assert (status, REFUSES in said) == (403, True), said


def test_a_call_without_a_body_gets_none(run: Run) -> None:
    for call in ("start", "stop?t=1", "wait", "kill"):
        status, said = run.ask("POST", f"/containers/{{node}}/{call}", '{"Privileged": true}')
        assert (status, REFUSES in said) == (403, True), said
    assert REFUSES in run.ask("POST", "/images/create?tag=1&fromImage=x", "x")[1]


def test_a_body_that_is_not_here_as_a_whole_is_refused(run: Run) -> None:
    body = run.bodies["containers/create"]
    for spaces, pad in ((200_000, 0), (100_000, 100_000)):
        assert run.ask("POST", CREATE, " " * spaces + body, **{"X-Pad": "x" * pad})[0] in (400, 413)
    chunked = f"{len(body):x}\r\n{body}\r\n0\r\n\r\n"
    status, said = run.ask("POST", CREATE, chunked, **{"Transfer-Encoding": "chunked"})
    assert (status, REFUSES in said) == (413, True), said


def test_a_login_names_a_registry_and_nothing_else(run: Run) -> None:
    login = {"username": "u", "password": 'p"ü', "serveraddress": "127.0.0.1:1"}
    assert REFUSES not in run.ask("POST", "/auth", json.dumps(login))[1]
    assert REFUSES in run.ask("POST", "/auth", json.dumps({**login, "identitytoken": "x"}))[1]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/info"),
        ("GET", "/version"),
        ("GET", "/events"),
        ("GET", "/volumes"),
        ("GET", "/networks/{network}"),
        ("GET", "/containers/{node}/json"),
        ("GET", "/containers/{scheduler}/json"),
        ("GET", "/containers/{node}/archive?path=%2F"),
        ("GET", "/containers/{node}/logs?stderr=1&stdout=1&timestamps=0&follow=0&tail=all"),
        ("GET", "/images/{image}/json"),
        ("POST", "/containers/{node}/kill"),
        ("POST", "/networks/{network}/disconnect"),
        ("POST", "/containers/create?name={run}-attempt"),
        ("POST", "/containers/json"),
        ("PUT", "/containers/{node}/archive?path=%2F"),
        ("DELETE", "/containers/{node}?v=False&link=False&force=True"),
        ("DELETE", "/networks/{network}"),
    ],
)
def test_a_call_that_prometheus_does_not_need_is_refused(run: Run, method: str, path: str) -> None:
    status, said = ask(run.proxy.metrics, method, fill(path, run.names), "" if method == "POST" else None)
    assert (status, REFUSES in said) == (403, True), said


def test_prometheus_sees_the_nodes_of_this_installation_and_nothing_else(
    run: Run, client: docker.APIClient, image: str
) -> None:
    labels = {engine.METRICS_ADDRESS: "10.0.0.1:80", engine.SLOTS: leases("0ddba11c")}
    strangers = [client.create_container(image, ["sleep", "60"], labels=each)["Id"] for each in ({}, labels)]
    try:
        for each in (*strangers, run.names["node"]):
            client.start(each)
        for path in ("/containers/json", "/v1.24/containers/json?all=1", "/containers/json?filters=%7B%7D&limit=0"):
            status, said = ask(run.proxy.metrics, "GET", path)
            assert status == 200
            assert [each["Names"] for each in json.loads(said)] == [[f"/{run.names['node']}"]]
        status, said = ask(run.proxy.metrics, "GET", "/networks?filters=%7B%7D")
        assert [each["Name"] for each in json.loads(said)] == [run.names["network"]]
        for method in ("HEAD", "GET"):
            assert ask(run.proxy.metrics, method, "/_ping")[0] == 200
    finally:
        client.kill(run.names["node"])
        for each in strangers:
            client.remove_container(each, force=True)


def test_a_real_prometheus_finds_a_node_at_its_own_socket(
    runtime: ContainerRuntime, image: str, proxy: Proxy, tmp_path: Path
) -> None:
    if PROMETHEUS is None:
        leave_out("no Prometheus: install the package prometheus")
    serves = "mkdir -p /node/data/www && echo planted 7 > /node/data/www/metrics && httpd -f -p 7000 -h /node/data/www"
    spec = make_spec(image, "n7", code=serves, metrics=(7000, "/metrics"))
    runtime.prepare(spec)
    runtime.start(spec)
    with run_prometheus(read_jobs(f"unix://{proxy.metrics}"), tmp_path) as prometheus:

        def is_up() -> bool:
            return [one["labels"]["node"] for one in prometheus.list_targets() if one["health"] == "up"] == ["n7"]

        wait_until(is_up, timeout_s=60, what="Prometheus to scrape the node", every_s=0.5)


@pytest.mark.parametrize(
    ("installation", "sentence"),
    [
        ("", "BROKERPROOF_INSTALLATION is empty"),
        ("postgres", "hex digit"),
        (".*", "hex digit"),
        ("abc", "hex digit"),
        ("ab-cd", "hex digit"),
    ],
)
def test_without_a_name_of_its_installation_the_proxy_does_not_start(installation: str, sentence: str) -> None:
    if PROGRAM is None:
        leave_out("no HAProxy: install the package haproxy")

    def start(name: str) -> subprocess.CompletedProcess[str]:
        environment = {"BROKERPROOF_INSTALLATION": name, "BROKERPROOF_CONTAINER_SUBNETS": "10.208.0.0/12"}
        command = [str(PROGRAM), "-c", "-f", str(CONFIGURATION)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    refused = start(installation)
    assert refused.returncode != 0
    assert sentence in refused.stderr
    assert start("3f09a2c1").returncode == 0
