"""Runs through a real Airflow and real spark-submits; the cluster is a stand-in, so that what is tested is the rest."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from brokerproof.clock import wait_until

from .conftest import Installation

pytestmark = pytest.mark.e2e

SUITES = {"completeness", "uniqueness", "ordering", "placement", "recovery"}


def states(installation: Installation, dag_id: str, run_id: str) -> dict[str, str | None]:
    return {task.task_id: task.state for task in installation.client().list_tasks(dag_id, run_id)}


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
    assert running.client().read_state("control", run_id) == "success"


def test_a_run_that_is_not_what_is_expected_fails(running: Installation) -> None:
    done = running.brokerproof("run", "control", "--set", "expect.verdict=passed", "--json")
    assert done.returncode == 1, done.stderr
    result = last_object(done.stdout)
    assert result["verdict"] == "failed"
    assert running.client().read_state("control", result["run_id"]) == "failed"


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


def test_ctrl_c_cancels_the_run_which_is_released_recorded_and_failed(running: Installation) -> None:
    typed = subprocess.Popen(
        [sys.executable, "-m", "brokerproof", "run", "endless", "--json"],
        env=running.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever starts the tests in the background of a shell has them ignore the signal, and their children too.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    found = wait_until(
        lambda: next(running.settings.runs.glob("endless-*/child-of-break_it"), None),
        timeout_s=300,
        what="break_it to be at work",
    )
    typed.send_signal(signal.SIGINT)
    stdout, stderr = typed.communicate(timeout=300)
    assert typed.returncode == 2, stderr
    assert "cancelling the run" in stderr
    assert last_object(stdout)["verdict"] == "unknown"
    run_id = found.parent.name
    assert running.client().read_state("endless", run_id) == "failed"
    # A task learns with its next heartbeat that it was cancelled; the run may have ended by then.
    child = int(found.read_text())
    wait_until(lambda: not psutil.pid_exists(child), timeout_s=60, what="break_it's child to be ended")
    wait_until(lambda: running.state(run_id, "unwound-break_it") is not None, timeout_s=60, what="break_it to unwind")
    assert running.state(run_id, "released") is not None
    assert "ended from outside" in (running.state(run_id, "problem-break_it") or {})["problem"]
    assert (running.state(run_id, "outcome") or {})["verdict"] == "unknown"


def test_a_run_that_airflow_ended_under_is_released_and_holds_up_no_other(running: Installation) -> None:
    running.client().wait_for_dag("endless")
    running.client().trigger_run("endless", "endless-cut-off", {})
    at_work = running.settings.runs / "endless-cut-off" / "child-of-break_it"
    wait_until(at_work.exists, timeout_s=120, what="break_it to be at work")
    running.airflow.stop()
    running.airflow.start()
    wait_until(
        lambda: running.client().read_state("endless", "endless-cut-off") == "failed",
        timeout_s=120,
        what="the run to be given up",
    )
    assert running.state("endless-cut-off", "released") is not None
    assert (running.state("endless-cut-off", "outcome") or {})["verdict"] == "unknown"


def test_stored_tables_are_judged_again(running: Installation) -> None:
    run_directory = next(running.settings.runs.glob("good-*"))
    (run_directory / "state" / "judgement.json").unlink()
    done = running.brokerproof("verify", str(run_directory), "--json")
    assert done.returncode == 0, done.stderr
    assert last_object(done.stdout)["verdict"] == "passed"


def test_parameters_that_airflow_refuses_start_nothing(running: Installation) -> None:
    client = running.client()
    client.wait_for_dag("good")
    with pytest.raises(Exception, match="rate"):
        client.trigger_run("good", "good-refused", {"rate": 0})


def test_a_wrong_setting_is_found_before_airflow_starts(installation: Installation) -> None:
    installation.airflow.stop()
    done = installation.brokerproof("run", "good", "--set", "workload.rat=1")
    assert done.returncode == 3
    assert "did you mean `rate`?" in done.stderr
    assert not installation.airflow.read_status().running


@pytest.mark.timeout(1800)
def test_a_campaign_runs_one_after_the_other_and_says_which_was_not_as_expected(running: Installation) -> None:
    client, run_id = running.client(), "campaign-1"
    client.wait_for_dag("campaign")
    client.trigger_run("campaign", run_id, {"scenarios": ["load_fails", "control"]})
    wait_until(
        lambda: client.read_state("campaign", run_id) in ("failed", "success"),
        timeout_s=1500,
        what="the campaign to end",
        every_s=2,
    )
    assert client.read_state("campaign", run_id) == "failed"
    sentence = client.read_xcom("campaign", run_id, "verdict", "problem")
    assert str(sentence).startswith("1 of 2 scenarios have the expected outcome; load_fails is unknown")
    first, second = (
        next(running.settings.runs.glob(f"{scenario}-*-campaign")).name for scenario in ("load_fails", "control")
    )
    ended, started = running.state(first, "seconds-verify"), running.state(second, "seconds-reserve")
    assert ended is not None
    assert started is not None
    assert ended["finished_at"] < started["started_at"]
