"""Runs of a small replicated log server through the whole chain: Airflow, Spark, suites, history, command line."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from brokerproof import lifecycle
from brokerproof.clock import wait_until
from brokerproof.errors import InputError
from brokerproof.machine import slots
from brokerproof.machine.processes import SERVICE_MARK, find_marked_processes
from installation import Installation


def states(installation: Installation, dag_id: str, run_id: str) -> dict[str, str | None]:
    return {task.task_id: task.state for task in installation.client().list_tasks(dag_id, run_id)}


def failed_tasks(installation: Installation, dag_id: str, run_id: str) -> set[str]:
    return {task for task, state in states(installation, dag_id, run_id).items() if state == "failed"}


def last_object(stdout: str) -> Any:
    return json.loads(stdout)


def node_processes(run_directory: Path) -> list[int]:
    """The processes of a run that outlive their tasks: its nodes and its monitor."""
    return [process.pid for process in find_marked_processes(run_directory)]


def test_a_load_that_failed_is_named_and_everything_after_it_still_happens(running: Installation) -> None:
    done = running.brokerproof("run", "refusing", "--json")
    assert done.returncode == 2, done.stderr
    assert re.search(r"task load failed: .*-p\d: \w+: the cluster refuses producers", done.stderr)
    assert "Traceback" not in done.stderr
    result = last_object(done.stdout)
    assert result["verdict"] == "unknown"
    tasks = states(running, "refusing", result["run_id"])
    # Nothing was published, so there is nothing to read back.
    assert tasks["read_back"] == "skipped"
    assert (tasks["release"], tasks["verify"], tasks["record"], tasks["verdict"]) == (
        "success",
        "success",
        "success",
        "failed",
    )


def test_load_and_consumers_end_after_provision_was_killed(running: Installation) -> None:
    run_id = "never_ready-killed"
    running.client().wait_for_dag("never_ready")
    running.client().trigger_run("never_ready", run_id, {})

    def find_provision() -> int | None:
        tasks = {task.task_id: task for task in running.client().list_tasks("never_ready", run_id)}
        return tasks["provision"].pid if tasks["provision"].state == "running" else None

    # It would wait for the servers for 30 s.
    psutil.Process(wait_until(find_provision, timeout_s=240, what="provision to be at work")).kill()
    wait_until(
        lambda: running.client().read_state("never_ready", run_id) == "failed", timeout_s=240, what="the run to end"
    )
    tasks = states(running, "never_ready", run_id)
    assert (tasks["provision"], tasks["configure"], tasks["break_it"]) == ("failed", "upstream_failed", "skipped")
    assert (tasks["load"], tasks["consume"], tasks["read_back"]) == ("success", "success", "skipped")
    assert (running.state(run_id, "outcome") or {})["verdict"] == "unknown"
    assert not node_processes(running.settings.runs / run_id)


def find_driver(run_directory: Path, job: str) -> psutil.Process | None:
    """The process of Spark's driver that runs a job of the run."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, ValueError):
            command = process.cmdline()
            *_, runner, file, directory = command
            if [Path(runner).name, Path(file).stem, directory] == ["run_locally.py", job, str(run_directory)]:
                return process
    return None


def test_what_a_killed_driver_of_spark_had_recorded_is_judged(running: Installation) -> None:
    running.client().wait_for_dag("endless")
    running.client().trigger_run("endless", "endless-driver-killed", {})
    run_directory = running.settings.runs / "endless-driver-killed"
    wait_until((run_directory / "state" / "phase_times.json").exists, timeout_s=240, what="break_it to be at work")
    driver = find_driver(run_directory, "load")
    assert driver is not None
    driver.kill()
    killed = time.monotonic()
    wait_until(
        lambda: running.state("endless-driver-killed", "subscription_drains") is not None,
        timeout_s=60,
        what="consuming to end",
    )
    assert time.monotonic() - killed < 30, "nobody noticed that the load was gone"
    wait_until(
        lambda: running.client().read_state("endless", "endless-driver-killed") == "failed",
        timeout_s=240,
        what="the run to be judged",
    )
    outcome = running.state("endless-driver-killed", "outcome") or {}
    assert outcome["verdict"] == "unknown"
    assert outcome["counts"]["acked"] > 100
    assert sum(outcome["counts"]["illegal"].values()) == 0
    assert "step load failed" in outcome["why"]
    assert "what is proven nevertheless" in outcome["why"]
    assert not node_processes(run_directory)


@contextmanager
def typed_run(installation: Installation, scenario: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """`brokerproof run`, typed, and the directory of the run that it started, whose break_it is at work."""
    before = set(installation.settings.runs.glob(f"{scenario}-*"))
    typed = subprocess.Popen(
        [sys.executable, "-m", "brokerproof", "run", scenario, "--json"],
        env=installation.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever starts the tests in the background of a shell has them ignore the signal, and their children too.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )

    def run_at_work() -> Path | None:
        new = set(installation.settings.runs.glob(f"{scenario}-*")) - before
        return next((run for run in new if (run / "state" / "phase_times.json").exists()), None)

    try:
        run_directory = wait_until(run_at_work, timeout_s=300, what="break_it to be at work")
        yield typed, run_directory
    finally:
        # What a test that failed leaves would hold up the runs of those after it.
        if typed.poll() is None:
            typed.terminate()
            with suppress(subprocess.TimeoutExpired):
                typed.communicate(timeout=120)
        typed.kill()


def test_ctrl_c_cancels_the_run_which_is_released_recorded_and_failed(running: Installation) -> None:
    with typed_run(running, "endless") as (typed, run_directory):
        run_id = run_directory.name
        assert node_processes(run_directory)
        typed.send_signal(signal.SIGINT)
        stdout, stderr = typed.communicate(timeout=300)
    assert typed.returncode == 2, stderr
    assert "cancelling the run" in stderr
    assert last_object(stdout)["verdict"] == "unknown"
    assert running.client().read_state("endless", run_id) == "failed"
    # A task learns with its next heartbeat that it was cancelled; the run may have ended by then. Where the load's task
    # learns it first, the timeline sees that the load has ended, before it is ended itself. A problem after the run's
    # release names the release.
    wait_until(
        lambda: running.state(run_id, "step_problem-break_it") is not None, timeout_s=60, what="break_it to be ended"
    )
    problem = (running.state(run_id, "step_problem-break_it") or {})["problem"]
    assert "ended from outside" in problem or problem.startswith(
        ("the run was released before the step had ended", "the load ended before its time")
    )
    assert (running.state(run_id, "faults_undone") or {})["problems"]
    assert running.state(run_id, "run_released") is not None
    assert not node_processes(run_directory)
    assert (running.state(run_id, "outcome") or {})["verdict"] == "unknown"


def test_a_run_is_watched_again_and_stopped_for_everybody_who_watches_it(running: Installation) -> None:
    run_id = "endless-watched"
    running.client().wait_for_dag("endless")
    running.client().trigger_run("endless", run_id, {})
    run_directory = running.settings.runs / run_id
    watching = [
        subprocess.Popen(
            [sys.executable, "-m", "brokerproof", "watch", run_id, "--json"],
            env=running.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        at_work = run_directory / "state" / "phase_times.json"
        wait_until(at_work.exists, timeout_s=240, what="break_it to be at work")
        watching[0].send_signal(signal.SIGTERM)
        for each in watching:
            stdout, stderr = each.communicate(timeout=300)
            assert each.returncode == 2, stderr
            assert (last_object(stdout)["run_id"], last_object(stdout)["verdict"]) == (run_id, "unknown")
    finally:
        for each in watching:
            each.kill()
    assert running.client().read_state("endless", run_id) == "failed"
    assert not node_processes(run_directory)
    # It is over, so it is printed at once.
    again = running.brokerproof("watch", str(run_directory), "--json", timeout_s=30)
    assert (again.returncode, last_object(again.stdout)["run_id"]) == (2, run_id)


def test_parameters_that_airflow_refuses_start_nothing(running: Installation) -> None:
    client = running.client()
    client.wait_for_dag("nominal")
    with pytest.raises(InputError, match=r"wrkload\.rate"):
        client.trigger_run("nominal", "nominal-refused", {"settings": {"wrkload.rate": 200}})


def test_a_run_that_airflow_ended_under_is_released_and_holds_up_no_other(running: Installation) -> None:
    running.client().wait_for_dag("endless")
    running.client().trigger_run("endless", "endless-cut-off", {})
    at_work = running.settings.runs / "endless-cut-off" / "state" / "phase_times.json"
    wait_until(at_work.exists, timeout_s=240, what="break_it to be at work")
    running.airflow.stop()
    running.airflow.start()
    wait_until(
        lambda: running.client().read_state("endless", "endless-cut-off") == "failed",
        timeout_s=240,
        what="the run to be given up",
    )
    assert running.state("endless-cut-off", "run_released") is not None
    assert not node_processes(running.settings.runs / "endless-cut-off")
    assert (running.state("endless-cut-off", "outcome") or {})["verdict"] == "unknown"


def test_the_command_line_says_at_once_that_all_of_airflow_was_killed_and_nothing_is_left(
    running: Installation,
) -> None:
    with typed_run(running, "endless") as (typed, run_directory):
        session = running.airflow.read_session()
        assert session is not None
        killed_at = time.monotonic()
        # Its supervisor first, which would start again what dies.
        for member in sorted(session.list_members(), key=lambda member: member.pid != session.pid):
            with suppress(psutil.NoSuchProcess):
                member.kill()
        stdout, stderr = typed.communicate(timeout=60)
        seconds = time.monotonic() - killed_at
    print(f"the command line ended {seconds:.1f} s after Airflow was killed")
    assert seconds < 15, stderr
    assert typed.returncode == 2, stderr
    result = last_object(stdout)
    assert (result["run_id"], result["verdict"]) == (run_directory.name, "unknown")
    assert " has ended, and the run was not over: " in result["why"]
    # The sentence about what is left is true.
    assert (
        f": {len(node_processes(run_directory))} of its processes (nodes, clients, monitor) still run." in result["why"]
    )
    watched = running.brokerproof("watch", run_directory.name, "--json", timeout_s=60)
    assert watched.returncode == 2, watched.stderr
    assert last_object(watched.stdout)["why"].startswith("the embedded Airflow does not run")
    # As `brokerproof down` does, which would also end what others run on this machine.
    running.airflow.stop()
    lifecycle.down(running.settings.runs)
    assert not node_processes(run_directory)
    assert not session.list_members()
    assert not list(find_marked_processes(running.airflow.home, variable=SERVICE_MARK))
    assert not slots.list_assigned_runs()


def test_a_wrong_setting_is_found_before_airflow_starts(installation: Installation) -> None:
    installation.airflow.stop()
    done = installation.brokerproof("run", "nominal", "--set", "workload.rat=1")
    assert done.returncode == 3
    assert "did you mean `rate`?" in done.stderr
    assert not installation.airflow.read_status().running
