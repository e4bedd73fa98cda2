from __future__ import annotations

from pathlib import Path

from brokerproof.checks import load_scenario
from brokerproof.orchestration.form import fill_form, read_overrides

from .conftest import PROJECT


def test_a_filled_form_and_its_overrides_convert_into_each_other(scenarios: Path) -> None:
    scenario, _ = load_scenario(scenarios / "region_lost.yaml", PROJECT / "topologies")
    settings = {"workload.rate": 2000, "runtime": "process2", "workload.client.send_timeout_s": 5}
    params = fill_form(settings)
    assert params == {"rate": 2000, "runtime": "process2", "settings": {"workload.client.send_timeout_s": 5}}
    assert read_overrides(params, scenario) == settings


def test_an_unchanged_form_has_no_overrides(scenarios: Path) -> None:
    scenario, _ = load_scenario(scenarios / "region_lost.yaml", PROJECT / "topologies")
    assert read_overrides({"rate": 1000, "steady_s": 20, "settings": None}, scenario) == {}
