"""What a user types, on Pulsar: a real Airflow, a real Spark, a real cluster, and a real loss."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokerproof.machine.processes import find_marked_processes

# Short, but long enough for the metadata session's 30 s and the clients' back-off.
SHORT = ("phases.steady_s=6", "phases.impact_s=75", "phases.recovery_s=8", "workload.rate=500")

# Before other tests of this directory point everything at the log server of tests/systems.
_AS_STARTED = dict(os.environ)


class Brokerproof:
    """The command line with everything that it writes in a directory of its own."""

    def __init__(self, var: Path) -> None:
        self.var = var
        self.environment = {
            **_AS_STARTED,
            # Any free one, because a developer's own Airflow may have the usual one.
            "AIRFLOW__API__PORT": "0",
            "BROKERPROOF_VAR": str(var),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{_AS_STARTED['PATH']}",
        }

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "brokerproof", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )

    def run(self, scenario: str, *settings: str) -> tuple[int, dict[str, Any]]:
        """Exit status and the JSON object of a run."""
        done = self("run", scenario, "--json", *[part for one in settings for part in ("--set", one)])
        assert done.stdout.strip(), done.stderr[-3000:]
        return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def brokerproof(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokerproof]:
    program = Brokerproof(tmp_path_factory.mktemp("real") / "var")
    yield program
    program("airflow", "stop")


@pytest.mark.timeout(1500)
def test_a_destroyed_datacenter_loses_nothing_and_nothing_stays_behind(brokerproof: Brokerproof) -> None:
    status, result = brokerproof.run("sync_datacenter_loss", *SHORT)
    assert (status, result["verdict"]) == (0, "passed"), result["why"]
    assert result["counts"]["acked"] > 0.95 * 500 * 89
    assert result["counts"]["illegal"]["lost"] == 0
    assert 20 < result["recovery"]["eu_destroyed"]["rto_s"] < 80
    assert not list(find_marked_processes(Path(result["run_dir"])))
    history = brokerproof("history", "sync_datacenter_loss", "--json")
    assert [run["verdict"] for run in json.loads(history.stdout)] == ["passed"]


@pytest.mark.timeout(1500)
def test_a_control_loses_acknowledged_messages_and_they_are_found(brokerproof: Brokerproof) -> None:
    status, result = brokerproof.run("control_no_region_placement", *SHORT)
    assert (status, result["verdict"]) == (0, "failed"), result["why"]
    assert result["counts"]["illegal"]["lost"] > 0
    assert result["suites"]["completeness"] == "failed"
