"""One cluster that is stretched over a link between two regions; the tests of this directory share it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from brokerproof import lifecycle
from brokerproof.checks import load_scenario
from builders import ROOT

from ..conftest import ConfiguredRun

# Of the link between the regions, in each direction.
DELAY_MS = 20


@pytest.fixture(scope="package")
def stretched(prepared: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfiguredRun]:
    scenario, topology = load_scenario(
        ROOT / "dags" / "scenarios" / "sync_nominal.yaml",
        ROOT / "topologies",
        {"topology": "sync_active_passive_wan", "overrides": {"links.0.delay_ms": DELAY_MS}},
    )
    directory = tmp_path_factory.mktemp("stretched") / "run"
    run = lifecycle.reserve(scenario, topology, directory=str(directory), run_id="stretched")
    try:
        lifecycle.provision(run)
        lifecycle.configure(run)
        yield ConfiguredRun.from_runs(run, run)
    finally:
        lifecycle.release(run)
