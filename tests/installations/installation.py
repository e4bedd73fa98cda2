"""A Brokerproof of the tests' own, with its own home, settings and Airflow."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from brokerproof.orchestration.embedded.embedded_airflow import EmbeddedAirflow
from brokerproof.orchestration.embedded.environment import USER
from brokerproof.orchestration.follow.airflow_client import AirflowClient
from brokerproof.settings import Settings, from_environment

PROJECT = Path(__file__).resolve().parents[2]
SYSTEMS = PROJECT / "tests" / "systems"
# Before the installation of the log server changes it for the processes that tests start.
AS_STARTED = dict(os.environ)


@dataclass(frozen=True)
class Installation:
    """A Brokerproof of the tests' own: its home, and the environment of its command line."""

    home: Path
    environment: dict[str, str] = field(repr=False)

    @classmethod
    def lay_out(
        cls, home: Path, *, topologies: Iterable[Path], scenarios: Iterable[Path], **environment: str
    ) -> Installation:
        """The shipped code with everything of the directories `topologies`, and with the files `scenarios` alone."""
        for name in ("plugins", "spark_jobs", "expectations"):
            (home / name).symlink_to(PROJECT / name)
        for name in ("dags/scenarios", "topologies"):
            (home / name).mkdir(parents=True)
        for file in (PROJECT / "dags").glob("*.py"):
            (home / "dags" / file.name).symlink_to(file)
        for directory in topologies:
            for each in directory.iterdir():
                (home / "topologies" / each.name).symlink_to(each)
        for file in scenarios:
            shutil.copy(file, home / "dags" / "scenarios")
        return cls(
            home,
            {
                **AS_STARTED,
                "BROKERPROOF_HOME": str(home),
                "BROKERPROOF_VAR": str(home / "var"),
                # Those of this home, wherever a developer's own files are.
                **dict.fromkeys(("BROKERPROOF_SCENARIOS", "BROKERPROOF_TOPOLOGIES", "BROKERPROOF_EXPECTATIONS"), ""),
                "BROKERPROOF_DATABASE_URL": f"sqlite:///{home}/history.db",
                # Any free one, because a developer's own Airflow may have the usual one.
                "AIRFLOW__API__PORT": "0",
                # That of this home, whatever database a developer's own Airflow has.
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "",
                **environment,
            },
        )

    @property
    def scenarios(self) -> Path:
        """The directory of its scenario files."""
        return self.home / "dags" / "scenarios"

    @property
    def settings(self) -> Settings:
        return from_environment(self.environment)

    @property
    def airflow(self) -> EmbeddedAirflow:
        return EmbeddedAirflow(self.settings)

    def client(self) -> AirflowClient:
        url = self.airflow.read_status().url
        return AirflowClient(lambda: url, USER, self.airflow.read_password())

    def add_scenario(self, name: str, *, like: str = "nominal", without: Sequence[str] = ()) -> None:
        """Another scenario of the log server: `like` one that it has, but `without` some of its fields."""
        fields = yaml.safe_load((SYSTEMS / "scenarios" / f"{like}.yaml").read_text())
        kept = {field: value for field, value in fields.items() if field not in without}
        (self.scenarios / f"{name}.yaml").write_text(yaml.safe_dump(kept))

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

    def state(self, run_id: str, name: str) -> Any | None:
        """A record of a run, by the name of its file."""
        file = self.settings.runs / run_id / "state" / f"{name}.json"
        return json.loads(file.read_text()) if file.exists() else None


def lay_out_log_server(home: Path, **environment: str) -> Installation:
    """A Brokerproof whose clusters are those of the small log server in tests/systems, and whose slots are its own."""
    return Installation.lay_out(
        home,
        topologies=[SYSTEMS / "topologies"],
        scenarios=(SYSTEMS / "scenarios").glob("*.yaml"),
        **{
            "BROKERPROOF_LEASES": str(home / "leases"),
            "BROKERPROOF_SYSTEMS": "testlog=testlog_system.system:TESTLOG",
            "PYTHONPATH": os.pathsep.join(filter(None, [AS_STARTED.get("PYTHONPATH"), str(SYSTEMS)])),
            **environment,
        },
    )
