"""Runs of a small replicated log server through the whole chain: Airflow, Spark, suites, history, command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from brokerproof.clock import wait_until
from brokerproof.machine.processes import find_marked_processes

from .conftest import Installation

pytestmark = pytest.mark.e2e


def states(installation: Installation, dag_id: str, run_id: str) -> dict[str, str | None]:
    return {task.task_id: task.state for task in installation.client().list_tasks(dag_id, run_id)}


def failed_tasks(installation: Installation, dag_id: str, run_id: str) -> set[str]:
    return {task for task, state in states(installation, dag_id, run_id).items() if state == "failed"}


def last_object(stdout: str) -> Any:
    return json.loads(stdout)


def node_processes(run_directory: Path) -> list[int]:
    """The processes of a run that outlive their tasks: its nodes and its monitor."""
    return [process.pid for process in find_marked_processes(run_directory)]


def test_a_run_that_comes_to_what_is_expected(running: Installation) -> None:
    done = running.brokerproof("run", "nominal", "--set", "workload.rate=600", "--json")
    assert done.returncode == 0, done.stderr
    result = last_object(done.stdout)
    assert (result["verdict"], result["met"]) == ("passed", True)
    counts = result["counts"]
    assert counts["acked"] == counts["stored"] == counts["deliveries"] > 2000
    tasks = states(running, "nominal", result["run_id"])
    # The log server says nothing of where copies are, and the scenario does not ask who owns the topic.
    assert tasks.pop("placement") == "skipped"
    assert set(tasks.values()) == {"success"}
    facts = json.loads((Path(result["run_dir"]) / "run.json").read_text())
    assert facts["scenario"]["workload"]["rate"] == 600
    steps = result["seconds"]["steps"]
    assert {"reserve", "provision", "load", "consume", "break_it", "read_back", "verify", "release"} <= set(steps)
    assert running.brokerproof("history", "nominal", "--json").stdout.count(result["run_id"]) >= 1


def test_a_lost_leader_is_replaced_and_what_the_system_cannot_do_is_not_applicable(running: Installation) -> None:
    done = running.brokerproof("run", "leader_loss", "--json")
    assert done.returncode == 0, done.stderr
    result = last_object(done.stdout)
    assert result["verdict"] == "passed"
    recovery = result["recovery"]["leader_killed"]
    assert recovery["reassign_s"] is not None
    assert recovery["longest_ack_gap_s"] > 0
    # A log server without repair is not asked how long its repair took.
    assert recovery.get("rereplicate_s") is None
    judgement = running.state(result["run_id"], "judgement") or {}
    checks = {each["name"]: each for suite in judgement["suites"].values() for each in suite["expectations"]}
    for metric in ("ledgers_not_spanning", "under_replicated_ledgers", "rereplicate_s"):
        assert checks[metric]["verdict"] == "not_applicable", metric


def test_a_run_that_is_not_what_is_expected_fails(running: Installation) -> None:
    done = running.brokerproof("run", "losing", "--set", "expect.verdict=passed", "--json")
    assert done.returncode == 1, done.stderr
    result = last_object(done.stdout)
    assert result["verdict"] == "failed"
    assert result["counts"]["illegal"]["lost"] >= 10
    assert running.client().read_state("losing", result["run_id"]) == "failed"
    assert failed_tasks(running, "losing", result["run_id"]) == {"completeness", "verdict"}


def test_a_load_that_failed_is_named_and_everything_after_it_still_happens(running: Installation) -> None:
    done = running.brokerproof("run", "refusing", "--json")
    assert done.returncode == 2, done.stderr
    assert "task load failed: the cluster refuses producers" in done.stderr
    assert "Traceback" not in done.stderr
    result = last_object(done.stdout)
    assert result["verdict"] == "unknown"
    tasks = states(running, "refusing", result["run_id"])
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
    steady = wait_until(
        lambda: next(running.settings.runs.glob("endless-*/state/timeline.json"), None),
        timeout_s=300,
        what="break_it to be at work",
    )
    run_directory = steady.parents[1]
    run_id = run_directory.name
    assert node_processes(run_directory)
    typed.send_signal(signal.SIGINT)
    stdout, stderr = typed.communicate(timeout=300)
    assert typed.returncode == 2, stderr
    assert "cancelling the run" in stderr
    assert last_object(stdout)["verdict"] == "unknown"
    assert running.client().read_state("endless", run_id) == "failed"
    # A task learns with its next heartbeat that it was cancelled; the run may have ended by then.
    wait_until(lambda: running.state(run_id, "problem-break_it") is not None, timeout_s=60, what="break_it to be ended")
    assert "ended from outside" in (running.state(run_id, "problem-break_it") or {})["problem"]
    assert (running.state(run_id, "break_it") or {})["problems"]
    assert running.state(run_id, "released") is not None
    assert not node_processes(run_directory)
    assert (running.state(run_id, "outcome") or {})["verdict"] == "unknown"


def test_a_run_that_airflow_ended_under_is_released_and_holds_up_no_other(running: Installation) -> None:
    running.client().wait_for_dag("endless")
    running.client().trigger_run("endless", "endless-cut-off", {})
    at_work = running.settings.runs / "endless-cut-off" / "state" / "timeline.json"
    wait_until(at_work.exists, timeout_s=240, what="break_it to be at work")
    running.airflow.stop()
    running.airflow.start()
    wait_until(
        lambda: running.client().read_state("endless", "endless-cut-off") == "failed",
        timeout_s=240,
        what="the run to be given up",
    )
    assert running.state("endless-cut-off", "released") is not None
    assert not node_processes(running.settings.runs / "endless-cut-off")
    assert (running.state("endless-cut-off", "outcome") or {})["verdict"] == "unknown"


def test_stored_tables_are_judged_again(running: Installation) -> None:
    run_directory = next(running.settings.runs.glob("nominal-*"))
    (run_directory / "state" / "judgement.json").unlink()
    done = running.brokerproof("verify", str(run_directory), "--json")
    assert done.returncode == 0, done.stderr
    assert last_object(done.stdout)["verdict"] == "passed"


def test_parameters_that_airflow_refuses_start_nothing(running: Installation) -> None:
    client = running.client()
    client.wait_for_dag("nominal")
    with pytest.raises(Exception, match="rate"):
        client.trigger_run("nominal", "nominal-refused", {"rate": 0})


def test_a_wrong_setting_is_found_before_airflow_starts(installation: Installation) -> None:
    installation.airflow.stop()
    done = installation.brokerproof("run", "nominal", "--set", "workload.rat=1")
    assert done.returncode == 3
    assert "did you mean `rate`?" in done.stderr
    assert not installation.airflow.read_status().running


def test_a_campaign_runs_one_after_the_other_and_says_which_was_not_as_expected(running: Installation) -> None:
    client, run_id = running.client(), "campaign-1"
    chosen = ["reordering_unexpected", "repeating"]
    client.wait_for_dag("campaign")
    client.trigger_run("campaign", run_id, {"scenarios": chosen})
    wait_until(
        lambda: client.read_state("campaign", run_id) in ("failed", "success"),
        timeout_s=600,
        what="the campaign to end",
        every_s=2,
    )
    assert client.read_state("campaign", run_id) == "failed"
    sentence = client.read_xcom("campaign", run_id, "verdict", "problem")
    assert str(sentence).startswith("1 of 2 scenarios have the expected outcome; reordering_unexpected is failed")
    runs = {name: next(running.settings.runs.glob(f"{name}-*-campaign")).name for name in chosen}
    assert failed_tasks(running, "reordering_unexpected", runs["reordering_unexpected"]) == {"ordering", "verdict"}
    assert client.read_state("reordering_unexpected", runs["reordering_unexpected"]) == "failed"
    # A control whose suite fails as it should ends green.
    assert failed_tasks(running, "repeating", runs["repeating"]) == {"uniqueness"}
    assert client.read_state("repeating", runs["repeating"]) == "success"
    for first, second in pairwise(chosen):
        ended, started = running.state(runs[first], "seconds-verify"), running.state(runs[second], "seconds-reserve")
        assert ended is not None
        assert started is not None
        assert ended["finished_at"] < started["started_at"]
