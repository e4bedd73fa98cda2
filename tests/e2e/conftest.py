from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from brokerproof.orchestration.airflow_client import AirflowClient
from brokerproof.orchestration.airflow_credentials import USER
from brokerproof.orchestration.embedded_airflow import EmbeddedAirflow
from brokerproof.settings import Settings, from_environment

PROJECT = Path(__file__).resolve().parents[2]
STAND_INS = Path(__file__).with_name("stand_ins")

SCENARIO = """\
title: A region is lost
description: The region that owns the topic is destroyed.
tags: [{tags}]
topology: sync_active_passive
workload: {{namespace: mytenant/eu, rate: 1000, size: 200, keys: 100, producers: 2}}
phases: {{steady_s: 1, impact_s: 1, recovery_s: 1}}
faults:
  - {{name: eu_destroyed, kind: destroy, permanent: true, targets: {{region: eu}}}}
expect: {{verdict: {verdict}}}
"""


@dataclass(frozen=True)
class Installation:
    """A Brokerproof of the test's own whose clusters are stand-ins and whose Airflow is real."""

    home: Path
    environment: dict[str, str] = field(repr=False)

    @property
    def settings(self) -> Settings:
        return from_environment(self.environment)

    @property
    def airflow(self) -> EmbeddedAirflow:
        return EmbeddedAirflow(self.settings)

    def client(self) -> AirflowClient:
        return AirflowClient(self.airflow.read_status().url, USER, self.airflow.read_password())

    def write_scenario(self, name: str, *, tags: str = "", verdict: str = "passed") -> None:
        (self.settings.scenarios / f"{name}.yaml").write_text(SCENARIO.format(tags=tags, verdict=verdict))

    def brokerproof(self, *arguments: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        """`python -m brokerproof …`, as a user types it."""
        return subprocess.run(
            [sys.executable, "-m", "brokerproof", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def state(self, run_id: str, step: str) -> Any | None:
        """What a step of a run left."""
        file = self.settings.runs / run_id / "state" / f"{step}.json"
        return json.loads(file.read_text()) if file.exists() else None


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    home = tmp_path_factory.mktemp("installation")
    for name in ("plugins", "topologies", "expectations"):
        (home / name).symlink_to(PROJECT / name)
    (home / "dags").mkdir()
    for file in (PROJECT / "dags").glob("*.py"):
        (home / "dags" / file.name).symlink_to(file)
    (home / "dags" / "scenarios").mkdir()
    shutil.copytree(STAND_INS, home / "spark_jobs", ignore=shutil.ignore_patterns("__pycache__"))
    for job in ("consume", "read_back", "verify"):
        shutil.copy(STAND_INS / "load.py", home / "spark_jobs" / f"{job}.py")
    environment = {
        **os.environ,
        "BROKERPROOF_HOME": str(home),
        "BROKERPROOF_VAR": str(home / "var"),
        "BROKERPROOF_SCENARIOS": str(home / "dags" / "scenarios"),
        "BROKERPROOF_DATABASE_URL": f"sqlite:///{home}/history.db",
        "BROKERPROOF_LEASES": str(home / "leases"),
        # Any free one, because a developer's own Airflow may have the usual one.
        "AIRFLOW__API__PORT": "0",
        # Before anything else, so that the stand-ins are there from the start.
        "PYTHONPATH": str(home / "spark_jobs"),
    }
    made = Installation(home, environment)
    made.write_scenario("good")
    made.write_scenario("control", tags="finds_a_loss", verdict="failed")
    made.write_scenario("load_fails", tags="'fails:load'")
    made.write_scenario("endless", tags="'slow:break_it'")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield made
        made.airflow.stop()


@pytest.fixture
def running(installation: Installation) -> Installation:
    """The installation, its Airflow up."""
    installation.airflow.start()
    return installation
