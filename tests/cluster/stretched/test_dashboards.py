"""Every panel of Grafana's dashboards about nodes has series, from a real Prometheus that scrapes a real cluster."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokerproof.clock import wait_until
from grafana_dashboards import NODES, RUNNING, Chart
from missing_parts import leave_out
from own_prometheus import PROGRAM, Prometheus, run_prometheus

from ..conftest import ConfiguredRun, publish

RUN = "stretched"


@pytest.fixture(scope="module")
def prometheus(stretched: ConfiguredRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It scrapes the nodes as deploy/prometheus.yaml labels them."""
    if PROGRAM is None:
        reason = "no Prometheus: install the package prometheus"
        leave_out(reason)
    groups = []
    for name, spec in stretched.provisioning.specs().items():
        assert spec.metrics is not None
        port, path = spec.metrics
        labels = {"run": RUN, "node": name, "role": spec.role, "region": spec.region, "__metrics_path__": path}
        groups.append({"targets": [f"{spec.address}:{port}"], "labels": labels})
    directory: Path = tmp_path_factory.mktemp("prometheus")
    jobs = [{"job_name": "nodes", "static_configs": groups}]
    # JSON is YAML.
    configuration = json.dumps({"global": {"scrape_interval": "2s", "scrape_timeout": "2s"}, "scrape_configs": jobs})
    over = threading.Event()

    def go_on_publishing() -> None:
        while not over.is_set():
            publish(stretched.run, "mycluster", f"dashboards-{time.monotonic_ns()}", 20)

    publishing = threading.Thread(target=go_on_publishing)
    with run_prometheus(configuration, directory) as running:
        publishing.start()
        try:
            wait_until(
                lambda: len(up := running.list_targets()) == len(groups) and all(one["health"] == "up" for one in up),
                timeout_s=60,
                what="Prometheus to scrape every node",
            )
            yield running
        finally:
            over.set()
            publishing.join()


@pytest.mark.parametrize(
    "chart", [chart for charts in NODES.values() for chart in charts], ids=lambda chart: chart.title
)
def test_a_panel_has_series(prometheus: Prometheus, chart: Chart) -> None:
    expr = chart.expr.replace("$run", RUN).replace("$__rate_interval", "8s")
    wait_until(lambda: prometheus.query(expr), timeout_s=40, what=f"series of {expr}", every_s=0.5)


def test_a_run_that_has_nodes_is_annotated(prometheus: Prometheus) -> None:
    [series] = prometheus.query(RUNNING.replace("$run", RUN))
    assert series["metric"] == {"run": RUN}
    assert prometheus.query(RUNNING.replace("$run", "another")) == []


def test_a_panel_of_another_run_has_none(prometheus: Prometheus) -> None:
    assert prometheus.query('up{run=~"another"}') == []
