"""A real Prometheus with the project's configuration finds the nodes of a run, and loses them with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
import yaml
from brokerproof.clock import wait_until
from brokerproof.runtimes.container_runtime import ContainerRuntime
from missing_parts import leave_out
from own_prometheus import PROGRAM, Prometheus, run_prometheus

from .test_container_runtime import make_spec

CONFIGURATION = Path(__file__).resolve().parents[2] / "deploy" / "prometheus.yaml"
SERVES = "mkdir -p /node/data/www && echo planted 7 > /node/data/www/metrics && httpd -f -p 7000 -h /node/data/www"


def read_jobs(host: str) -> str:
    """The project's configuration for nodes alone, which it finds in the engine at `host`."""
    configuration = yaml.safe_load(CONFIGURATION.read_text().replace("unix:///run/discovery/docker.sock", host))
    # Nobody serves the results here.
    configuration["scrape_configs"] = [job for job in configuration["scrape_configs"] if job["job_name"] == "nodes"]
    return yaml.safe_dump(configuration)


def test_the_fallback_is_a_setting_of_the_job() -> None:
    """Prometheus 3 does not start with it in `global`. Debian's version, with which tests run, does not know it."""
    configuration = yaml.safe_load(CONFIGURATION.read_text())
    assert "fallback_scrape_protocol" not in configuration["global"]
    [nodes] = [job for job in configuration["scrape_configs"] if job["job_name"] == "nodes"]
    assert nodes["fallback_scrape_protocol"] == "PrometheusText0.0.4"


@pytest.fixture
def runtime(client: docker.APIClient, tmp_path: Path) -> Iterator[ContainerRuntime]:
    runtime = ContainerRuntime(tmp_path / "a_run" / "nodes")
    yield runtime
    runtime.release()
    runtime.forget()


@pytest.fixture
def prometheus(client: docker.APIClient, tmp_path: Path) -> Iterator[Prometheus]:
    """It asks the engine of the tests."""
    if PROGRAM is None:
        leave_out("no Prometheus: install the package prometheus")
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    with run_prometheus(read_jobs(host), tmp_path) as running:
        yield running


def test_every_node_that_runs_is_a_target_that_is_up(
    runtime: ContainerRuntime, image: str, prometheus: Prometheus
) -> None:
    specs = [
        make_spec(image, "n1", "eu", SERVES, metrics=(7000, "/metrics"), published={28_998: 7000}),
        make_spec(image, "n2", "us", SERVES, metrics=(7000, "/metrics")),
        make_spec(image, "n3", "us", address="10.223.16.12"),
    ]
    for spec in specs:
        runtime.prepare(spec)
    for spec in specs:
        runtime.start(spec)

    def all_up() -> bool:
        targets = prometheus.list_targets()
        up = {one["labels"]["node"] for one in targets if one["health"] == "up"}
        return up == {"n1", "n2"} and len(targets) == 2

    wait_until(all_up, timeout_s=60, what="Prometheus to scrape both nodes", every_s=0.5)
    (first, second) = sorted(prometheus.list_targets(), key=lambda one: str(one["labels"]["node"]))
    assert first["labels"] == {
        "instance": "a_run/n1", "job": "nodes", "node": "n1", "region": "eu", "role": "broker", "run": "a_run",
    }  # fmt: skip
    assert first["scrapeUrl"] == "http://10.223.0.11:7000/metrics"
    assert second["labels"]["region"] == "us"
    assert [row["value"][1] for row in prometheus.query("planted{node='n1'}")] == ["7"]
    runtime.kill("n2")
    wait_until(lambda: len(prometheus.list_targets()) == 1, timeout_s=60, what="Prometheus to lose n2", every_s=0.5)
