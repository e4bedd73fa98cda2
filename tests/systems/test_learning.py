"""What is done for the speed of later starts: a version is fetched before a run, and a run's nodes are learned from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokerproof import lifecycle
from brokerproof.checks import load_scenario
from brokerproof.errors import MachineError
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.run.directory import Run
from learning_system import locate_learned
from own_slots import own_slots

SYSTEMS = Path(__file__).resolve().parent


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The system in the registry, and slots and a cache of the test's own."""
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "testlog=learning_system:LEARNING")
    monkeypatch.setenv("PYTHONPATH", str(SYSTEMS))
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    with own_slots(tmp_path / "leases", 1):
        yield


def load() -> tuple[Scenario, Topology]:
    return load_scenario(SYSTEMS / "scenarios" / "nominal.yaml", SYSTEMS / "topologies")


def reserve(tmp_path: Path) -> Run:
    return lifecycle.reserve(*load(), directory=str(tmp_path / "run"), run_id="nominal-1")


def test_a_run_learns_from_its_nodes_before_they_end(tmp_path: Path) -> None:
    run = reserve(tmp_path)
    try:
        lifecycle.provision(run)
        lifecycle.configure(run)
    finally:
        lifecycle.release(run)
    assert json.loads(locate_learned().read_text())["nodes"] == ["server-1", "server-2", "server-3"]


def test_nothing_is_learned_from_clusters_that_were_not_configured(tmp_path: Path) -> None:
    run = reserve(tmp_path)
    try:
        lifecycle.provision(run)
    finally:
        lifecycle.release(run)
    assert not locate_learned().exists()


def test_a_version_that_cannot_be_fetched_is_an_error_before_a_run_begins() -> None:
    said: list[str] = []
    with pytest.raises(MachineError, match="no network"):
        lifecycle.prepare(*load(), said.append)
    assert said == ["fetching testlog 1"]
