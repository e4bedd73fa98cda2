"""An Airflow that stops answering, over HTTP: what is said, when the client gives up, and how it goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokerproof.orchestration.follow.airflow_client import AirflowClient, AirflowError, AirflowGoneError
from simulated_clock import SimulatedClock

from ..stand_in_airflow import StandInAirflow

REASONS = {
    "dead": "Server disconnected without sending a response.",
    "500": "500 database is locked",
    "html": "an answer that is no JSON",
}


@pytest.fixture
def airflow(tmp_path: Path) -> Iterator[StandInAirflow]:
    airflow = StandInAirflow(tmp_path / "airflow", lambda *_: None)
    airflow.state = "running"
    yield airflow
    airflow.close()


def make_client(airflow: StandInAirflow, **options: Any) -> AirflowClient:
    return AirflowClient(**{"find_url": lambda: airflow.url, "user": "admin", "password": "secret", **options})


@pytest.mark.parametrize("behaviour", list(REASONS))
def test_a_silent_airflow_is_named_after_13_s_and_given_up_after_120_s(airflow: StandInAirflow, behaviour: str) -> None:
    clock = SimulatedClock()
    said: list[tuple[float, str]] = []
    client = make_client(airflow, clock=clock, notify=lambda sentence: said.append((clock.monotonic_s(), sentence)))
    assert client.read_state("d", "r") == "running"
    answered_at = clock.monotonic_s()
    airflow.behaviour = behaviour
    with pytest.raises(AirflowGoneError) as error:
        client.read_state("d", "r")
    assert str(error.value) == f"Airflow at {airflow.url} has not answered for 120 s ({REASONS[behaviour]})"
    assert not error.value.ended
    ((said_at, sentence),) = said
    assert said_at - answered_at < 15
    assert sentence.startswith(f"Airflow at {airflow.url} has not answered for 13 s ({REASONS[behaviour]}). ")
    for remedy in ("until 120 s have passed", "`brokerproof airflow status`", "`brokerproof down`"):
        assert remedy in sentence


def test_an_airflow_that_accepts_and_never_answers_blocks_nobody(airflow: StandInAirflow) -> None:
    said: list[str] = []
    looks: list[float] = []
    client = make_client(airflow, notify=said.append, say_after_s=0.5, give_up_after_s=1.5)
    airflow.behaviour = "hangs"
    started = time.monotonic()
    with (
        pytest.raises(AirflowGoneError, match="has not answered for 2 s"),
        client.call_while_waiting(lambda: looks.append(time.monotonic())),
    ):
        client.read_state("d", "r")
    assert time.monotonic() - started < 5
    assert len(looks) >= 4
    assert ["has not answered for 0 s (no answer)" in one or "for 1 s (no answer)" in one for one in said] == [True]


def test_an_airflow_that_comes_back_is_announced_and_followed(airflow: StandInAirflow) -> None:
    said: list[str] = []

    def notify(sentence: str) -> None:
        said.append(sentence)
        airflow.behaviour = "well"

    clock = SimulatedClock()
    client = make_client(airflow, clock=clock, notify=notify)
    airflow.behaviour = "500"
    assert client.read_state("d", "r") == "running"
    assert [sentence.partition(",")[0] for sentence in said[1:]] == [f"Airflow at {airflow.url} answers again"]
    airflow.behaviour = "500"
    said.clear()
    assert client.read_state("d", "r") == "running"
    assert len(said) == 2


def test_an_airflow_that_has_ended_is_given_up_at_once(airflow: StandInAirflow) -> None:
    urls: list[str | None] = [airflow.url]
    clock = SimulatedClock()
    client = make_client(airflow, find_url=lambda: urls[0], clock=clock)
    airflow.behaviour = "dead"
    urls[0] = None
    before = clock.monotonic_s()
    with pytest.raises(AirflowGoneError, match="has ended") as error:
        client.read_state("d", "r")
    assert error.value.ended
    assert clock.monotonic_s() - before < 1


def test_an_airflow_that_was_started_again_elsewhere_is_found(airflow: StandInAirflow, tmp_path: Path) -> None:
    other = StandInAirflow(tmp_path / "other", lambda *_: None)
    try:
        other.state = "queued"
        urls = [airflow.url]
        clock = SimulatedClock()
        client = make_client(airflow, find_url=lambda: urls[0], clock=clock)
        assert client.read_state("d", "r") == "running"
        airflow.behaviour = "dead"
        urls[0] = other.url
        assert client.read_state("d", "r") == "queued"
    finally:
        other.close()


def test_an_airflow_with_another_secret_is_logged_in_to_again(airflow: StandInAirflow) -> None:
    client = make_client(airflow)
    assert client.read_state("d", "r") == "running"
    airflow.token = "another"
    assert client.read_state("d", "r") == "running"


def test_an_airflow_that_refuses_the_login_is_named(airflow: StandInAirflow) -> None:
    airflow.password = "another"
    clock = SimulatedClock()
    said: list[str] = []
    with pytest.raises(AirflowGoneError, match="it refuses the login of admin: 401 no"):
        make_client(airflow, notify=said.append, clock=clock).read_state("d", "r")
    assert len(said) == 1


def test_an_answer_of_somebody_elses_server_is_none(airflow: StandInAirflow) -> None:
    clock = SimulatedClock()
    client = make_client(airflow, clock=clock)
    airflow.answer = lambda _, path, __: (201, {"access_token": "token"}) if path == "/auth/token" else (200, [])  # type: ignore[method-assign]
    with pytest.raises(AirflowGoneError, match="an answer without `state`"):
        client.read_state("d", "r")


def test_a_pause_in_which_nobody_asks_is_no_silence(airflow: StandInAirflow) -> None:
    clock = SimulatedClock()
    said: list[str] = []
    client = make_client(airflow, notify=said.append, clock=clock)
    client.read_state("d", "r")
    clock.sleep(500)
    airflow.behaviour = "500"
    with client.call_while_waiting(lambda: setattr(airflow, "behaviour", "well")):
        assert client.read_state("d", "r") == "running"
    assert said == []


def test_a_trigger_whose_answer_got_lost_is_repeated_and_counts(airflow: StandInAirflow) -> None:
    triggered: list[str] = []

    def answer(method: str, path: str, content: object) -> tuple[int, object]:
        if path == "/auth/token":
            return 201, {"access_token": "token"}
        if method == "POST":
            triggered.append(path)
            return (500, {"detail": "timeout"}) if len(triggered) == 1 else (409, {"detail": "exists"})
        return 200, {}

    airflow.answer = answer  # type: ignore[method-assign]
    clock = SimulatedClock()
    client = make_client(airflow, clock=clock)
    client.trigger_run("d", "r", {})
    assert len(triggered) == 2
    # A run of this id that was there before is not taken for the one to start.
    with pytest.raises(AirflowError, match="409 exists"):
        client.trigger_run("d", "r", {})


def test_a_dag_that_airflow_does_not_read_is_waited_for_aloud(airflow: StandInAirflow) -> None:
    def answer(method: str, path: str, content: object) -> tuple[int, object]:
        if path == "/auth/token":
            return 201, {"access_token": "token"}
        if path == "/api/v2/dags/d":
            return 404, {"detail": "no"}
        return 200, {"import_errors": [], "dags": []}

    airflow.answer = answer  # type: ignore[method-assign]
    clock = SimulatedClock()
    said: list[str] = []
    with pytest.raises(AirflowError, match="waited 120 s for Airflow to show the DAG d"):
        make_client(airflow, notify=said.append, clock=clock).wait_for_dag("d")
    assert said == ["waiting until Airflow has read the scenario d, 120 s at most"]


@pytest.mark.parametrize(
    ("run_id", "found"),
    [
        ("region_lost-20260101T000000Z-abcd", "region_lost-20260101T000000Z-abcd"),
        ("region_lost-manual__2026-01-01T0000000000", "manual__2026-01-01T00:00:00+00:00"),
        ("region_lost-manual__2026-01-01T0000000000-2", "manual__2026-01-01T00:00:00+00:00"),
        ("region_lost", None),
    ],
)
def test_a_run_is_found_by_its_id_whoever_started_it(airflow: StandInAirflow, run_id: str, found: str | None) -> None:
    airflow.dag_runs = [
        {"dag_id": "region_lost", "dag_run_id": name}
        for name in ("region_lost-20260101T000000Z-abcd", "manual__2026-01-01T00:00:00+00:00")
    ]
    client = make_client(airflow)
    run = client.find_run(run_id)
    assert (run and run.dag_run_id) == found
