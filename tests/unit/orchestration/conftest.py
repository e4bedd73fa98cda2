from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from brokerproof.experiment.guarantees import Suite
from brokerproof.run.directory import Run
from builders import ROOT, dump_judgement, make_check, make_counts, make_judgement, make_run, make_suite

# Airflow reads its configuration when it is first imported, which is before any fixture.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="brokerproof-airflow-")
atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(ROOT / "plugins")
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "False"

SCENARIO = """\
title: A region is lost
description: The region that owns the topic is destroyed.
tags: [datacenter]
topology: sync_active_passive
workload: {namespace: mytenant/eu, rate: 1000, size: 200, keys: 100, producers: 2}
phases: {steady_s: 20, impact_s: 75, recovery_s: 20}
faults:
  - {name: eu_destroyed, kind: destroy, permanent: true, targets: {region: eu}}
bounds:
  rto_s: {max: 80}
"""


@pytest.fixture
def scenarios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of Brokerproof's scenario files, with one file in it."""
    directory = tmp_path / "scenarios"
    directory.mkdir()
    (directory / "region_lost.yaml").write_text(SCENARIO)
    monkeypatch.setenv("BROKERPROOF_SCENARIOS", str(directory))
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path / "var"))
    monkeypatch.setenv("BROKERPROOF_LEASES", str(tmp_path / "leases"))
    return directory


@pytest.fixture
def a_run(tmp_path: Path, scenarios: Path) -> Run:
    """A run that was reserved."""
    return make_run(tmp_path / "run", scenarios / "region_lost.yaml", run_id="region_lost-1")


def judgement(**verdicts: str) -> dict[str, Any]:
    """The content of the judgement that `verify` leaves; suites that are not named passed."""
    suites = {}
    for suite in Suite:
        check = make_check("expectation", verdicts.get(suite, "passed"))
        suites[suite] = make_suite(check.verdict, check, check, why=f"why of {suite}")
    verdict = next((was for was in ("failed", "unknown") if was in verdicts.values()), "passed")
    return dump_judgement(make_judgement(verdict, suites=suites, counts=make_counts(1)))


class FakeTaskInstance:
    """The part of Airflow's task instance that operators use."""

    def __init__(self, try_number: int = 1) -> None:
        self.try_number = try_number
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


@pytest.fixture
def context() -> dict[str, Any]:
    return {"ti": FakeTaskInstance(), "params": {}}
