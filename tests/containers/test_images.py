"""Images that are fetched through Airflow's Docker provider, from a registry that lets one user in."""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import docker
import pytest
from brokerproof.errors import MachineError
from brokerproof.systems.pulsar.system import Pulsar
from builders import make_run

USER, PASSWORD = "somebody", "known to both"


class Registry(BaseHTTPRequestHandler):
    """Asks for a password, and has no image."""

    asked_by: list[str]
    # The paths that the user asked for.
    paths: list[str]

    def do_GET(self) -> None:
        credentials = self.headers.get("Authorization", "").removeprefix("Basic ")
        who = base64.b64decode(credentials).decode()
        type(self).asked_by.append(who)
        if who == f"{USER}:{PASSWORD}":
            type(self).paths.append(self.path)
        self.send_response(200 if who == f"{USER}:{PASSWORD}" else 401)
        self.send_header("WWW-Authenticate", 'Basic realm="images"')
        self.end_headers()

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    Registry.asked_by, Registry.paths = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module", autouse=True)
def airflow_home() -> Iterator[None]:
    """Airflow reads its configuration when it is first imported, which is not before these tests run."""
    home = tempfile.mkdtemp(prefix="brokerproof-airflow-")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AIRFLOW_HOME", home)
        yield
    shutil.rmtree(home, ignore_errors=True)


def fetch_images(directory: Path, runtime: str) -> None:
    from brokerproof.orchestration.dag_building.images import fetch_images

    fetch_images(make_run(directory, "sync_nominal", {"runtime": runtime}))


def connect(environment: pytest.MonkeyPatch, registry: str, password: str) -> None:
    content = {"conn_type": "docker", "host": f"http://{registry}", "login": USER, "password": password}
    environment.setenv("AIRFLOW_CONN_DOCKER_DEFAULT", json.dumps(content))


def test_the_connection_lets_the_engine_into_the_registry_of_the_settings(
    client: docker.APIClient, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERPROOF_REGISTRY", f"{registry}/mirror")
    image = f"{registry}/mirror/apachepulsar/pulsar:4.0.8"
    connect(monkeypatch, registry, PASSWORD)
    with pytest.raises(MachineError, match=f"the image {image} is not here and cannot be fetched"):
        fetch_images(tmp_path / "run", "docker")
    assert f"{USER}:{PASSWORD}" in Registry.asked_by
    assert "/v2/mirror/apachepulsar/pulsar/manifests/4.0.8" in Registry.paths


def test_a_wrong_password_is_said(
    client: docker.APIClient, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, registry, "guessed")
    with pytest.raises(MachineError, match="with Airflow's connection docker_default cannot be used"):
        fetch_images(tmp_path / "run", "docker")


def test_without_a_connection_what_is_here_is_taken(
    client: docker.APIClient, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pulsar, "list_images", lambda self, version: [image])
    fetch_images(tmp_path / "run", "docker")


def test_processes_need_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    fetch_images(tmp_path / "run", "process")
    with pytest.raises(MachineError, match=r"the engine at unix:.*nobody.sock cannot be used"):
        fetch_images(tmp_path / "other", "docker")
