"""What a user types, on Pulsar: a real Airflow, a real Spark, a real cluster; tests/platform finds a real loss."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokerproof.machine.processes import find_marked_processes
from builders import SCENARIOS, TOPOLOGIES
from installation import Installation

# Short, but long enough for metadata sessions, which are shorter too, and the clients' back-off.
SHORT = (
    *("phases.steady_s=6", "phases.impact_s=50", "phases.recovery_s=8", "workload.rate=500"),
    *("settings.broker.metadataStoreSessionTimeoutMillis=10000", "settings.bookie.zkTimeout=10000"),
)

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def on_pulsar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A shipped scenario alone."""
    shipped = SCENARIOS / "sync_datacenter_loss.yaml"
    made = Installation.lay_out(tmp_path_factory.mktemp("real"), topologies=[TOPOLOGIES], scenarios=[shipped])
    yield made
    made.brokerproof("airflow", "stop")


def run(installation: Installation, scenario: str, *settings: str) -> tuple[int, dict[str, Any]]:
    """Exit status and the JSON object of a run."""
    arguments = [part for one in settings for part in ("--set", one)]
    done = installation.brokerproof("run", scenario, "--json", *arguments, timeout_s=1200)
    assert done.stdout.strip(), done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout)


@pytest.mark.timeout(1500)
def test_a_destroyed_datacenter_loses_nothing_and_nothing_stays_behind(on_pulsar: Installation) -> None:
    status, result = run(on_pulsar, "sync_datacenter_loss", *SHORT)
    assert (status, result["verdict"]) == (0, "passed"), result["why"]
    assert result["counts"]["acked"] > 0.95 * 500 * 64
    assert result["counts"]["illegal"]["lost"] == 0
    # The outage of about 50 s, and the seconds in which producers make up for it.
    assert 8 < result["recovery"]["eu_destroyed"]["rto_s"] < 65
    assert not list(find_marked_processes(Path(result["run_dir"])))
    history = on_pulsar.brokerproof("history", "sync_datacenter_loss", "--json")
    assert [run["verdict"] for run in json.loads(history.stdout)] == ["passed"]
