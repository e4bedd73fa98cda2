"""Ctrl-C, SIGTERM and the death of Airflow under `run` and `watch`, as a user and a script see them."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from brokerproof.cli import main
from brokerproof.clock import wait_until
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.records import write_record
from brokerproof.settings import from_environment
from builders import SYSTEMS, leave_judgement, make_run

from ..planted_system import PlantedSystem, plant_system
from .conftest import SCENARIO, judgement
from .stand_in_airflow import StandInAirflow

QUESTION = "Stop the run and its cluster (s), only stop watching (w), or go on (Enter)?"
RUN_ID = "region_lost-20260101T000000Z-abcd"


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch, scenarios: Path) -> Iterator[StandInAirflow]:
    """An Airflow with a run that goes on until somebody cancels it."""
    plant_system(monkeypatch, PlantedSystem())
    (scenarios / "region_lost.yaml").write_text(f"{SCENARIO}overrides: {{system: planted}}\n")
    airflow = StandInAirflow(from_environment().airflow_home, lambda *_: None)
    airflow.state = "running"
    airflow.tasks = [{"task_id": "load", "state": "running"}]
    airflow.dag_runs = [{"dag_id": "region_lost", "dag_run_id": RUN_ID}]
    yield airflow
    airflow.close()


def act_on_trigger(airflow: StandInAirflow, act: Any, *, after_s: float = 0.5) -> None:
    """Do something shortly after the run was triggered."""
    airflow.on_trigger = lambda *_: threading.Timer(after_s, act).start()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_a_terminal_a_signal_stops_the_run_and_shows_its_end(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    act_on_trigger(airflow, partial(os.kill, os.getpid(), number))
    assert main(["run", "region_lost", "--json"]) == 2
    output = capsys.readouterr()
    assert airflow.state == "failed"
    assert "cancelling the run and stopping its cluster" in output.err
    assert QUESTION not in output.err
    assert json.loads(output.out)["verdict"] == "unknown"
    assert signal.getsignal(number) is before


def test_after_a_signal_no_further_run_begins(airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]) -> None:
    act_on_trigger(airflow, partial(os.kill, os.getpid(), signal.SIGTERM))
    assert main(["run", "region_lost", "region_lost", "region_lost", "--json"]) == 2
    output = capsys.readouterr()
    assert len(airflow.triggered) == len(json.loads(output.out)) == 1
    assert "so 2 more will not begin" in output.err


@pytest.mark.parametrize("signalled", [False, True])
def test_after_airflow_has_ended_no_further_run_starts_it_again(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str], signalled: bool
) -> None:
    def end() -> None:
        if signalled:
            os.kill(os.getpid(), signal.SIGTERM)
        airflow.die()

    act_on_trigger(airflow, end)
    assert main(["run", "region_lost", "region_lost", "--json"]) == 2
    output = capsys.readouterr()
    assert len(airflow.triggered) == len(json.loads(output.out)) == 1
    assert "so 1 more will not begin" in output.err


def test_a_signal_during_the_trigger_is_taken_when_the_run_is_known(airflow: StandInAirflow) -> None:
    def interrupt(*_: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)

    airflow.on_trigger = interrupt
    assert main(["run", "region_lost"]) == 2
    assert airflow.state == "failed"
    assert airflow.requests.index("POST /api/v2/dags/region_lost/dagRuns") < len(airflow.requests) - 1


def test_a_run_that_waits_for_its_turn_is_removed(airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]) -> None:
    airflow.state = "queued"
    act_on_trigger(airflow, partial(os.kill, os.getpid(), signal.SIGTERM))
    assert main(["run", "region_lost", "--json"]) == 2
    assert airflow.state == "removed"
    assert json.loads(capsys.readouterr().out)["why"] == "the run was cancelled before it began"


def test_a_second_signal_leaves_the_teardown_to_airflow(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    kill = partial(os.kill, os.getpid(), signal.SIGINT)
    answer = airflow.answer

    def release_for_long(method: str, path: str, content: Any) -> tuple[int, Any]:
        status, content = answer(method, path, content)
        if method == "PATCH" and "/dagRuns/" in path:
            airflow.state = "running"
            threading.Timer(0.5, kill).start()
        return status, content

    airflow.answer = release_for_long  # type: ignore[method-assign]
    act_on_trigger(airflow, kill)
    assert main(["run", "region_lost", "--json"]) == 130
    output = capsys.readouterr()
    assert "Airflow goes on with the teardown; `brokerproof watch region_lost-" in output.err
    assert json.loads(output.out)["why"].startswith("Airflow goes on with the teardown")


def test_the_death_of_airflow_is_said_and_ends_the_command_as_unknown(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    died_at: list[float] = []

    def die() -> None:
        airflow.die()
        died_at.append(time.monotonic())

    act_on_trigger(airflow, die)
    assert main(["run", "region_lost", "--json"]) == 2
    assert time.monotonic() - died_at[0] < 15
    output = capsys.readouterr()
    result = json.loads(output.out)
    assert result["verdict"] == "unknown"
    assert result["run_id"].startswith("region_lost-")
    assert result["why"].startswith(f"Airflow at {airflow.url} has ended, and the run was not over: ")
    for remedy in ("`brokerproof airflow start`", f"`brokerproof watch {result['run_id']}`", "`brokerproof down`"):
        assert remedy in result["why"]
    assert result["why"] in output.err


def test_the_death_of_airflow_after_the_outcome_was_recorded_changes_nothing(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    def finish(_: str, run_id: str) -> None:
        make_recorded_run(airflow, run_id)
        threading.Timer(0.5, airflow.die).start()

    airflow.on_trigger = finish
    assert main(["run", "region_lost", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "passed"


def test_the_death_of_airflow_before_the_trigger_starts_nothing(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = airflow.answer

    def die(method: str, path: str, content: Any) -> tuple[int, Any]:
        if path == "/api/v2/dags/region_lost":
            airflow.die()
            return 503, {}
        return answer(method, path, content)

    airflow.answer = die  # type: ignore[method-assign]
    assert main(["run", "region_lost"]) == 2
    assert airflow.triggered == []
    assert "has ended, and no run was started" in " ".join(capsys.readouterr().err.split())


def make_recorded_run(airflow: StandInAirflow, run_id: str) -> None:
    """A run that passed, and whose outcome was recorded."""
    settings = from_environment()
    run = make_run(settings.runs / run_id, settings.scenario_file("region_lost"), run_id=run_id)
    leave_judgement(run, judgement())
    write_record(run, compose_outcome(run))


@pytest.mark.parametrize("named", [RUN_ID, f"var/runs/{RUN_ID}", f"var/runs/{RUN_ID}/"])
def test_watch_prints_the_outcome_of_a_run_that_is_over_without_airflow(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str], named: str
) -> None:
    make_recorded_run(airflow, RUN_ID)
    airflow.die()
    assert main(["watch", named, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == RUN_ID


def test_watch_shows_a_run_to_its_end(airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]) -> None:
    def finish() -> None:
        make_recorded_run(airflow, RUN_ID)
        airflow.state = "success"

    threading.Timer(1.0, finish).start()
    assert main(["watch", RUN_ID]) == 0
    output = capsys.readouterr()
    assert "load" in output.err
    assert "passed, as expected" in output.out


def test_watch_refuses_a_run_that_nobody_knows(airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "region_lost-1"]) == 3
    assert "no run called `region_lost-1`" in capsys.readouterr().err
    assert main(["watch", "x" * 5000]) == 3
    assert main(["watch", "/"]) == 3
    airflow.die()
    assert main(["watch", "region_lost-1"]) == 3


def test_watch_says_of_a_run_that_is_not_over_that_no_airflow_runs(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    make_recorded_run(airflow, RUN_ID)
    (from_environment().runs / RUN_ID / "state" / "outcome.json").unlink()
    airflow.die()
    assert main(["watch", RUN_ID, "--json"]) == 2
    result = json.loads(capsys.readouterr().out)
    assert (result["verdict"], result["scenario"]) == ("unknown", "region_lost")
    assert result["why"].startswith("the embedded Airflow does not run, and the run was not over: none of its nodes")


class Typist:
    """A user at a terminal with the command line in it."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._master, terminal = pty.openpty()

        def take_terminal() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [sys.executable, "-m", "brokerproof", *arguments],
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=terminal,
            text=True,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        os.close(terminal)
        self.screen = ""
        threading.Thread(target=self._read, daemon=True).start()

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.screen, timeout_s=60, what=f"`{text}` on the screen")

    def wait_for_end(self) -> tuple[int, str]:
        stdout, _ = self.process.communicate(timeout=60)
        return self.process.returncode, stdout

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                self.screen += os.read(self._master, 4096).decode(errors="replace")
            except OSError:
                return


@pytest.fixture
def typist(airflow: StandInAirflow, monkeypatch: pytest.MonkeyPatch) -> Iterator[Typist]:
    """A user who watches the run at a terminal and has just typed Ctrl-C."""
    monkeypatch.delenv("BROKERPROOF_SYSTEMS")
    typist = Typist("watch", RUN_ID, "--json")
    try:
        typist.wait_for("load")
        # What was typed before is no answer.
        typist.type("s\n")
        typist.type("\x03")
        typist.wait_for(QUESTION)
        yield typist
    finally:
        typist.close()


def test_s_stops_the_run_and_shows_its_end(airflow: StandInAirflow, typist: Typist) -> None:
    assert airflow.state == "running"
    typist.type("s\n")
    status, stdout = typist.wait_for_end()
    assert (status, airflow.state) == (2, "failed")
    assert "cancelling the run" in typist.screen
    assert json.loads(stdout)["verdict"] == "unknown"


def test_w_leaves_the_run_alone_and_says_how_to_watch_again(airflow: StandInAirflow, typist: Typist) -> None:
    typist.type("w\n")
    status, stdout = typist.wait_for_end()
    assert (status, airflow.state) == (130, "running")
    sentence = f"the run goes on; `brokerproof watch {RUN_ID}` shows it, and Ctrl-C stops it"
    assert json.loads(stdout)["why"] == sentence
    assert "the run goes on; " in typist.screen


def test_enter_goes_on_and_the_next_ctrl_c_asks_again(airflow: StandInAirflow, typist: Typist) -> None:
    typist.type("\n")
    wait_until(lambda: typist.screen.rpartition(QUESTION)[2].count("load") > 1, timeout_s=30, what="the run again")
    assert typist.process.poll() is None
    typist.type("\x03")
    wait_until(lambda: typist.screen.count(QUESTION) == 2, timeout_s=30, what="the second question")
    typist.type("w\n")
    assert typist.wait_for_end()[0] == 130
    assert airflow.state == "running"


def test_another_answer_is_asked_for_again(airflow: StandInAirflow, typist: Typist) -> None:
    typist.type("stop\n")
    wait_until(lambda: typist.screen.count(QUESTION) == 2, timeout_s=30, what="the second question")
    typist.type("W\n")
    assert typist.wait_for_end()[0] == 130


def test_a_second_ctrl_c_in_place_of_an_answer_stops_the_run_and_leaves(
    airflow: StandInAirflow, typist: Typist
) -> None:
    typist.type("\x03")
    status, _ = typist.wait_for_end()
    assert (status, airflow.state) == (130, "failed")
    assert "Airflow goes on with the teardown" in typist.screen


def test_sigterm_in_place_of_an_answer_stops_the_run(airflow: StandInAirflow, typist: Typist) -> None:
    typist.process.send_signal(signal.SIGTERM)
    assert typist.wait_for_end()[0] == 2
    assert airflow.state == "failed"


@pytest.fixture
def log_server(scenarios: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the log server, which Airflow searches too, because it is started after this."""
    monkeypatch.setenv("BROKERPROOF_SCENARIOS", str(SYSTEMS / "scenarios"))
    monkeypatch.setenv("BROKERPROOF_TOPOLOGIES", str(SYSTEMS / "topologies"))
    places = [*filter(None, [os.environ.get("PYTHONPATH")]), str(SYSTEMS)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))


@pytest.mark.usefixtures("log_server")
def test_run_asks_too(airflow: StandInAirflow) -> None:
    # The stand-in for Airflow has planted another system since.
    typist = Typist("run", "nominal", environment={"BROKERPROOF_SYSTEMS": "testlog=testlog_system.system:TESTLOG"})
    try:
        typist.wait_for("load")
        typist.type("\x03")
        typist.wait_for(QUESTION)
        typist.type("s\n")
        assert typist.wait_for_end()[0] == 2
        assert airflow.state == "failed"
    finally:
        typist.close()
