"""A run that is followed through Airflow's API."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from brokerproof.clock import to_utc
from brokerproof.machine import slots
from brokerproof.orchestration.follow.airflow_client import AirflowClient, AirflowGoneError
from brokerproof.orchestration.follow.progress import Progress
from brokerproof.orchestration.follow.scenario_run import ScenarioRun
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from rich.console import Console
from simulated_clock import SimulatedClock

from ..stand_in_airflow import StandInAirflow


class ScriptedClock(SimulatedClock):
    """A simulated clock on which something happens at certain seconds after the start."""

    def __init__(self, script: dict[float, Any]) -> None:
        super().__init__()
        self._started_s = self.monotonic_s()
        self._script = script

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        for at in [at for at in self._script if self.monotonic_s() - self._started_s >= at]:
            self._script.pop(at)()


@pytest.fixture
def airflow(tmp_path: Path) -> Iterator[StandInAirflow]:
    airflow = StandInAirflow(tmp_path / "airflow", lambda *_: None)
    airflow.state = "running"
    yield airflow
    airflow.close()


def follow(airflow: StandInAirflow, run: Run, script: dict[float, Any]) -> list[str]:
    """The sentences about a run that is followed until the script ends it, without the lines of its progress."""
    clock = ScriptedClock(script)
    output = io.StringIO()
    with Progress(Console(file=output, width=500), "title") as progress:
        notify = progress.print_sentence
        scenario_run = ScenarioRun(
            client=AirflowClient(lambda: airflow.url, "admin", "secret", clock=clock, notify=notify),
            scenario="region_lost",
            run_id="region_lost-1",
            dag_run_id="region_lost-1",
            directory=Path(run.directory),
            scheduler_log=Path("scheduler.log"),
            clock=clock,
        )
        scenario_run.follow(progress)
    return [line for line in output.getvalue().splitlines() if " s  " not in line]


def make_run(airflow: StandInAirflow, run: Run) -> ScenarioRun:
    return ScenarioRun(
        client=AirflowClient(lambda: airflow.url, "admin", "secret"),
        scenario="region_lost",
        run_id="region_lost-1",
        dag_run_id="region_lost-1",
        directory=Path(run.directory),
        scheduler_log=Path("scheduler.log"),
    )


def make_task(task_id: str, state: str | None, **fields: Any) -> dict[str, Any]:
    return {"task_id": task_id, "state": state, **fields}


def end(airflow: StandInAirflow) -> Any:
    return lambda: setattr(airflow, "state", "success")


def test_a_task_without_a_sign_is_named_with_its_limit(airflow: StandInAirflow, a_run: Run) -> None:
    # The simulated clock begins in 2027.
    started = to_utc(SimulatedClock().now_us()) - timedelta(seconds=100)
    airflow.tasks = [
        make_task("reserve", "success"),
        make_task("verify", "running", start_date=started.isoformat(), pid=os.getpid()),
    ]
    (sentence,) = follow(airflow, a_run, {50: end(airflow)})
    assert sentence.startswith("task verify (11")
    assert sentence.endswith(" s of at most 3600 s): shows nothing while it works")


def test_a_task_whose_process_has_ended_is_named(airflow: StandInAirflow, a_run: Run) -> None:
    airflow.tasks = [make_task("reserve", "success"), make_task("load", "running", pid=2**22 + 1)]
    (sentence,) = follow(airflow, a_run, {20: end(airflow)})
    assert sentence.startswith(f"task load does nothing any more: its process {2**22 + 1} has ended")


def test_a_run_that_shows_something_new_says_nothing(airflow: StandInAirflow, a_run: Run) -> None:
    airflow.tasks = [make_task("reserve", "success"), make_task("load", "running")]
    live = LiveStatus(a_run, "load-0")
    script = {float(second): lambda second=second: live.show(scheduled=second) for second in range(0, 60, 5)}
    assert follow(airflow, a_run, {**script, 61: end(airflow)}) == []


def test_a_run_that_waits_for_the_machine_names_the_run_that_holds_it(
    airflow: StandInAirflow, a_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERPROOF_MAX_CLUSTERS", "1")
    airflow.tasks = [make_task("reserve", "up_for_reschedule")]
    with slots.take(timeout_s=5) as slot:
        slot.assign("/var/runs/nominal-1")
        (sentence,) = follow(airflow, a_run, {20: end(airflow)})
    assert sentence.startswith("the run has waited for this machine for 1")
    assert sentence.endswith(" s: nominal-1 holds it")


def test_a_run_behind_another_of_its_scenario_names_it(airflow: StandInAirflow, a_run: Run) -> None:
    airflow.state = "queued"
    airflow.tasks = [make_task("reserve", None)]
    airflow.dag_runs = [{"dag_id": "region_lost", "dag_run_id": "region_lost-0"}]
    (sentence,) = follow(airflow, a_run, {20: end(airflow)})
    assert sentence.endswith("runs of one scenario take turns, and region_lost-0 goes on")


def test_an_airflow_that_fell_silent_and_came_back_is_followed_to_the_end(airflow: StandInAirflow, a_run: Run) -> None:
    airflow.tasks = [make_task("load", "running")]
    live = LiveStatus(a_run, "load-0")
    behave = {
        3.0: lambda: setattr(airflow, "behaviour", "500"),
        40.0: lambda: setattr(airflow, "behaviour", "well"),
        30.0: lambda: live.show(scheduled=1),
        45.0: end(airflow),
    }
    silent, back = follow(airflow, a_run, behave)
    assert "has not answered for 13 s (500 database is locked)" in silent
    assert "answers again, after 3" in back


def test_an_airflow_that_stays_silent_is_given_up(airflow: StandInAirflow, a_run: Run) -> None:
    with pytest.raises(AirflowGoneError, match="has not answered for 120 s"):
        follow(airflow, a_run, {3.0: lambda: setattr(airflow, "behaviour", "html")})


def test_a_run_that_has_ended_is_not_cancelled(airflow: StandInAirflow, a_run: Run) -> None:
    airflow.state = "success"
    run = make_run(airflow, a_run)
    run.cancel()
    assert airflow.state == "success"
    airflow.state = "running"
    assert run.cancel()
    assert airflow.state == "failed"


@pytest.mark.parametrize("begins", [False, True])
def test_a_run_that_has_not_begun_is_removed(airflow: StandInAirflow, a_run: Run, begins: bool) -> None:
    airflow.state = "queued"
    # A run that begins in this moment cannot be removed any more.
    airflow.removes = not begins
    run = make_run(airflow, a_run)
    assert run.cancel() is begins
    assert airflow.state == ("failed" if begins else "removed")


def test_a_run_whose_scheduler_nobody_starts_again_is_not_waited_for(airflow: StandInAirflow, a_run: Run) -> None:
    airflow.tasks = [make_task("reserve", "success"), make_task("load", "scheduled")]
    clock = SimulatedClock()
    began = clock.monotonic_s()

    def check_scheduler() -> None:
        raise AirflowGoneError("the scheduler has ended", ended=False)

    run = make_run(airflow, a_run)
    run.clock, run.check_scheduler = clock, check_scheduler
    with Progress(Console(file=io.StringIO()), "title") as progress, pytest.raises(AirflowGoneError):
        run.follow(progress)
    assert clock.monotonic_s() - began <= 5
