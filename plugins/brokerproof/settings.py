"""Where things are on this machine and what the environment says; read once, at the edge.

BROKERPROOF_HOME                  the project's directory: dags/, topologies/, … (default: the one this file is in)
BROKERPROOF_VAR                   everything that runs write (default: HOME/var)
BROKERPROOF_SCENARIOS             the scenario files (default: HOME/dags/scenarios)
BROKERPROOF_SPARK_DRIVER_MEMORY   memory of each Spark driver (default: 1g)
BROKERPROOF_SYSTEMS               messaging systems beside the built-in ones, as NAME=MODULE:ATTRIBUTE, comma separated
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from brokerproof.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Paths of the project and of what it writes."""

    home: Path
    var: Path
    scenarios: Path
    spark_driver_memory: str
    # Where the object of each messaging system that is not built in is, as MODULE:ATTRIBUTE, by name.
    systems: Mapping[str, str]

    @property
    def dags(self) -> Path:
        """What Airflow parses."""
        return self.home / "dags"

    @property
    def plugins(self) -> Path:
        """What Airflow loads, with this package in it."""
        return self.home / "plugins"

    @property
    def spark_jobs(self) -> Path:
        """The entry points of spark-submit."""
        return self.home / "spark_jobs"

    @property
    def topologies(self) -> Path:
        """The topology files."""
        return self.home / "topologies"

    @property
    def expectations(self) -> Path:
        """The Great Expectations suites."""
        return self.home / "expectations"

    @property
    def runs(self) -> Path:
        """One directory a run."""
        return self.var / "runs"

    @property
    def airflow_home(self) -> Path:
        """The embedded Airflow's own directory."""
        return self.var / "airflow"

    @property
    def spark_temporary(self) -> Path:
        """The temporary files of Spark jobs (spark/temporary_files.py)."""
        return self.var / "spark-temporary"

    def scenario_file(self, name: str) -> Path:
        """The file of a scenario, whether or not there is one."""
        return self.scenarios / f"{name}.yaml"

    def scenario_files(self) -> list[Path]:
        """All scenario files, by name."""
        return sorted(self.scenarios.glob("*.yaml"))


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings that the environment gives. Raises InputError where a value cannot be used."""
    environment = os.environ if environment is None else environment
    home = Path(environment.get("BROKERPROOF_HOME") or Path(__file__).resolve().parents[2]).resolve()
    if not (home / "topologies").is_dir():
        raise InputError(
            "holds no topologies/", field="BROKERPROOF_HOME", remedy=f"set it to Brokerproof's directory, not to {home}"
        )
    memory = environment.get("BROKERPROOF_SPARK_DRIVER_MEMORY", "1g")
    if not re.fullmatch(r"[1-9]\d*[mg]", memory):
        raise InputError(
            f"`{memory}` is no size", field="BROKERPROOF_SPARK_DRIVER_MEMORY", remedy="write it like `1g` or `800m`"
        )
    return Settings(
        home=home,
        var=Path(environment.get("BROKERPROOF_VAR") or home / "var").resolve(),
        scenarios=Path(environment.get("BROKERPROOF_SCENARIOS") or home / "dags" / "scenarios").resolve(),
        spark_driver_memory=memory,
        systems=_systems(environment.get("BROKERPROOF_SYSTEMS", "")),
    )


def _systems(text: str) -> dict[str, str]:
    """{name: MODULE:ATTRIBUTE} of `NAME=MODULE:ATTRIBUTE,…`."""
    found: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"([a-z][a-z0-9_-]*)=([\w.]+:\w+)", entry)
        if match is None:
            raise InputError(
                f"`{entry}` names no messaging system",
                field="BROKERPROOF_SYSTEMS",
                remedy="write `name=module:attribute`, comma separated",
            )
        found[match[1]] = match[2]
    return found
