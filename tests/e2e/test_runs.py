"""Runs through a real Airflow and real spark-submits; the cluster is a stand-in, so that what is tested is the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest
from brokerproof.clock import wait_until

from .conftest import Installation

pytestmark = pytest.mark.e2e

SUITES = {"completeness", "uniqueness", "ordering", "placement", "recovery"}


def states(installation: Installation, dag_id: str, run_id: str) -> dict[str, str | None]:
    return {task.task_id: task.state for task in installation.client().tasks(dag_id, run_id)}


def last_object(stdout: str) -> Any:
    return json.loads(stdout)


def test_a_run_that_comes_to_what_is_expected(running: Installation) -> None:
    done = running.brokerproof("run", "good", "--set", "workload.rate=2000", "--json")
    assert done.returncode == 0, done.stderr
    result = last_object(done.stdout)
    assert (result["verdict"], result["met"]) == ("passed", True)
    assert set(states(running, "good", result["run_id"]).values()) == {"success"}
    facts = json.loads((Path(result["run_dir"]) / "run.json").read_text())
    assert facts["scenario"]["workload"]["rate"] == 2000
    steps = result["seconds"]["steps"]
    assert {"reserve", "provision", "load", "consume", "break_it", "read_back", "verify", "release"} <= set(steps)
    assert running.brokerproof("history", "good", "--json").stdout.count(result["run_id"]) >= 1


def test_a_control_whose_suite_fails_ends_green(running: Installation) -> None:
    done = running.brokerproof("run", "control", "--json")
    assert done.returncode == 0, done.stderr
    run_id = last_object(done.stdout)["run_id"]
    tasks = states(running, "control", run_id)
    assert {task for task, state in tasks.items() if state == "failed"} == {"completeness"}
    assert running.client().state("control", run_id) == "success"


def test_a_run_that_is_not_what_is_expected_fails(running: Installation) -> None:
    done = running.brokerproof("run", "control", "--set", "expect.verdict=passed", "--json")
    assert done.returncode == 1, done.stderr
    result = last_object(done.stdout)
    assert result["verdict"] == "failed"
    assert running.client().state("control", result["run_id"]) == "failed"


def test_a_load_that_failed_is_named_and_everything_after_it_still_happens(running: Installation) -> None:
    done = running.brokerproof("run", "load_fails", "--json")
    assert done.returncode == 2, done.stderr
    assert "task load failed: planted failure of load" in done.stderr
    assert "Traceback" not in done.stderr
    result = last_object(done.stdout)
    assert result["verdict"] == "unknown"
    tasks = states(running, "load_fails", result["run_id"])
    assert tasks["read_back"] == "upstream_failed"
    assert (tasks["release"], tasks["verify"], tasks["record"], tasks["verdict"]) == (
        "success",
        "success",
        "success",
        "failed",
    )


def test_a_cancelled_run_is_released_recorded_and_failed(running: Installation) -> None:
    client, run_id = running.client(), "endless-cancelled"
    client.wait_for_dag("endless")
    client.trigger("endless", run_id, {})
    child_file = running.settings.runs / run_id / "child-of-break_it"
    wait_until(child_file.exists, timeout_s=180, what="break_it to be at work")
    child = int(child_file.read_text())
    client.cancel("endless", run_id)
    wait_until(
        lambda: client.state("endless", run_id) in ("failed", "success"),
        timeout_s=180,
        what="the run to end",
        every_s=1,
    )
    assert client.state("endless", run_id) == "failed"
    assert not psutil.pid_exists(child)
    assert running.state(run_id, "unwound-break_it") is not None
    assert running.state(run_id, "released") is not None
    assert "ended from outside" in (running.state(run_id, "problem-break_it") or {})["problem"]
    assert (running.state(run_id, "outcome") or {})["verdict"] == "unknown"


def test_parameters_that_airflow_refuses_start_nothing(running: Installation) -> None:
    client = running.client()
    client.wait_for_dag("good")
    with pytest.raises(Exception, match="rate"):
        client.trigger("good", "good-refused", {"rate": 0})


def test_a_wrong_setting_is_found_before_airflow_starts(installation: Installation) -> None:
    installation.airflow.stop()
    done = installation.brokerproof("run", "good", "--set", "workload.rat=1")
    assert done.returncode == 3
    assert "did you mean `rate`?" in done.stderr
    assert not installation.airflow.status().running


def test_a_campaign_runs_one_after_the_other_and_says_which_was_not_as_expected(running: Installation) -> None:
    client, run_id = running.client(), "campaign-1"
    client.wait_for_dag("campaign")
    client.trigger("campaign", run_id, {"scenarios": ["load_fails", "control"]})
    wait_until(
        lambda: client.state("campaign", run_id) in ("failed", "success"),
        timeout_s=600,
        what="the campaign to end",
        every_s=2,
    )
    assert client.state("campaign", run_id) == "failed"
    sentence = client.xcom("campaign", run_id, "verdict", "problem")
    assert str(sentence).startswith("1 of 2 scenarios came to what they expect; load_fails is unknown")
    first, second = (
        next(running.settings.runs.glob(f"{scenario}-*-campaign")).name for scenario in ("load_fails", "control")
    )
    ended, started = running.state(first, "seconds-verify"), running.state(second, "seconds-reserve")
    assert ended is not None
    assert started is not None
    assert ended["finished_at"] < started["started_at"]
