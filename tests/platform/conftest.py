"""docker-compose.yaml, up on a real engine, with stand-in images for what cannot be fetched here."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest
from missing_parts import leave_out
from own_compose import PROJECT, find_compose, make_installation
from own_engine import find_reason_against_own, run_own_engine
from stand_in_images import make_own_image, make_stand_ins

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Platform:
    """The platform that is up."""

    client: docker.APIClient
    project: str
    environment: dict[str, str]
    secrets: dict[str, str]

    def url(self, service: str) -> str:
        """Where this machine reaches Airflow, Prometheus or Grafana."""
        return f"http://127.0.0.1:{self.environment[f'{service.upper()}_PORT']}"

    def compose(self, *arguments: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        """`docker compose …`, as a user types it."""
        files = ["--file", str(PROJECT / "docker-compose.yaml"), "--file", str(HERE / "override.yaml")]
        return subprocess.run(
            [*find_compose(), "--project-directory", str(PROJECT), "--project-name", self.project, *files, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def execute(self, service: str, *command: str) -> subprocess.CompletedProcess[str]:
        """A command in the container of a service."""
        return self.compose("exec", "-T", service, *command, timeout_s=120)

    def ask(self, service: str, *command: str) -> str:
        """What a command in the container of a service writes, without the second that Compose itself takes."""
        labels = [f"com.docker.compose.project={self.project}", f"com.docker.compose.service={service}"]
        [container] = self.client.containers(filters={"label": labels})
        made = self.client.exec_create(container["Id"], list(command))
        said = self.client.exec_start(made["Id"]).decode()
        assert self.client.exec_inspect(made["Id"])["ExitCode"] == 0, said
        return said

    def list_containers(self, label: str) -> list[str]:
        """The names of all containers with a label, whether they run or not."""
        return [each["Names"][0] for each in self.client.containers(all=True, filters={"label": label})]


def find_free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return str(probe.getsockname()[1])


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    """Where an engine of the tests' own listens: no other one may have stand-ins under official names."""
    if reason := find_reason_against_own():
        leave_out(reason)
    with run_own_engine() as engine:
        yield engine.host


@pytest.fixture(scope="session")
def platform(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """The platform, up and healthy."""
    client = docker.APIClient(base_url=engine, version="auto", timeout=300)
    find_compose()
    make_stand_ins(client)
    make_own_image(engine)
    directory = tmp_path_factory.mktemp("installation")
    environment = {**os.environ, "DOCKER_HOST": engine, "DOCKER_SOCKET": engine.removeprefix("unix://")}
    environment, secrets = make_installation(directory, environment)
    ports = {f"{name}_PORT": find_free_port() for name in ("AIRFLOW", "PROMETHEUS", "GRAFANA")}
    # The page on which people log in is at this address.
    ports["AIRFLOW_BASE_URL"] = f"http://127.0.0.1:{ports['AIRFLOW_PORT']}"
    up = Platform(client, f"platform-{environment['BROKERPROOF_INSTALLATION']}", {**environment, **ports}, secrets)
    try:
        done = up.compose("up", "--detach")
        assert done.returncode == 0, done.stderr[-3000:]
        yield up
    finally:
        up.compose("down", "--volumes")
