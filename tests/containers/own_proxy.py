"""The proxy of the engine, started as docker-compose.yaml starts it, with this machine's HAProxy."""

from __future__ import annotations

import http.client
import io
import os
import shutil
import socket
import subprocess
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
from brokerproof.clock import wait_until
from link_image import list_libraries
from missing_parts import leave_out
from own_compose import PROJECT, find_compose, make_installation

PROGRAM = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
CONFIGURATION = PROJECT / "deploy" / "engine" / "haproxy.cfg"
IMAGE = "brokerproof-tests/haproxy:1"


@dataclass(frozen=True)
class Proxy:
    """The proxy that runs."""

    installation: str
    # The sockets of runs and of Prometheus.
    runs: Path
    metrics: Path


def ask(
    at: Path, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """The status and text that the proxy, or the engine behind it, answers with."""
    connection = http.client.HTTPConnection("engine")
    with socket.socket(socket.AF_UNIX) as connection.sock:
        connection.sock.settimeout(20)
        connection.sock.connect(str(at))
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request(method, path, body if body is None else body.encode(), sent)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@contextmanager
def run_proxy(client: docker.APIClient, host: str, directory: Path) -> Iterator[Proxy]:
    """Start the service `engine` of docker-compose.yaml before the engine at `host`."""
    _make_image(client)
    sockets = {"SOCKETS": str(directory), "DOCKER_HOST": host, "DOCKER_SOCKET": host.removeprefix("unix://")}
    environment = {**os.environ, **sockets}
    environment, _ = make_installation(directory, environment)
    files = [f"--file={PROJECT / 'docker-compose.yaml'}", f"--file={Path(__file__).with_name('proxy.yaml')}"]
    name = f"--project-name=brokerproof-{uuid.uuid4().hex[:8]}"
    compose = [*find_compose(), f"--project-directory={PROJECT}", name, *files]
    proxy = Proxy(
        environment["BROKERPROOF_INSTALLATION"],
        *(directory / socket / "docker.sock" for socket in ("engine", "discovery")),
    )
    for socket_file in (proxy.runs, proxy.metrics):
        socket_file.parent.mkdir()
    try:
        done = subprocess.run(
            [*compose, "up", "--detach", "--no-deps", "engine"], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
        wait_until(lambda: _answers(proxy), timeout_s=20, what="the proxy of the engine to answer")
        yield proxy
    finally:
        subprocess.run([*compose, "down", "--volumes"], env=environment, capture_output=True, check=True)


def _answers(proxy: Proxy) -> bool:
    try:
        return all(ask(at, "GET", "/_ping")[0] == 200 for at in (proxy.runs, proxy.metrics))
    except OSError:
        return False


def _make_image(client: docker.APIClient) -> None:
    """An image of HAProxy and of the libraries that it is linked to."""
    if PROGRAM is None:
        leave_out("no HAProxy: install the package haproxy")
    program = Path(PROGRAM)
    users = b"root:x:0:0::/:/bin/sh\n"
    with tarfile.open(fileobj=(buffer := io.BytesIO()), mode="w") as tar:
        for library in list_libraries(program):
            tar.add(library.resolve(), str(library))
        tar.add(program, "/usr/sbin/haproxy")
        entry = tarfile.TarInfo("etc/passwd")
        entry.size = len(users)
        tar.addfile(entry, io.BytesIO(users))
    repository, tag = IMAGE.split(":")
    command = 'CMD ["/usr/sbin/haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]'
    client.import_image_from_data(buffer.getvalue(), repository, tag, changes=[command])
