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
SYSTEMS = PROJECT / "tests" / "systems"


@dataclass(frozen=True)
class Installation:
    """A Brokerproof of the test's own, whose clusters are those of the small log server in tests/systems."""

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

    def add_scenario(self, name: str) -> None:
        """Another scenario like `nominal`, under a name of its own."""
        shutil.copy(SYSTEMS / "scenarios" / "nominal.yaml", self.settings.scenarios / f"{name}.yaml")

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
    for name in ("plugins", "spark_jobs", "expectations"):
        (home / name).symlink_to(PROJECT / name)
    (home / "topologies").symlink_to(SYSTEMS / "topologies")
    (home / "dags").mkdir()
    for file in (PROJECT / "dags").glob("*.py"):
        (home / "dags" / file.name).symlink_to(file)
    shutil.copytree(SYSTEMS / "scenarios", home / "dags" / "scenarios")
    environment = {
        **os.environ,
        "BROKERPROOF_HOME": str(home),
        "BROKERPROOF_VAR": str(home / "var"),
        "BROKERPROOF_SCENARIOS": str(home / "dags" / "scenarios"),
        "BROKERPROOF_DATABASE_URL": f"sqlite:///{home}/history.db",
        "BROKERPROOF_LEASES": str(home / "leases"),
        # Any free one, because a developer's own Airflow may have the usual one.
        "AIRFLOW__API__PORT": "0",
        "BROKERPROOF_SYSTEMS": "testlog=testlog_system.system:TESTLOG",
        "PYTHONPATH": str(SYSTEMS),
    }
    made = Installation(home, environment)
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
