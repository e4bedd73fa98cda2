"""The client of Airflow's API, over a transport that answers like Airflow."""

from __future__ import annotations

import httpx
import pytest
from brokerproof.errors import InputError
from brokerproof.orchestration.follow.airflow_client import AirflowClient, AirflowError
from simulated_clock import SimulatedClock


def make_client(answers: dict[str, httpx.Response], asked: list[str] | None = None) -> AirflowClient:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/auth/token":
            return httpx.Response(201, json={"access_token": "token"})
        if request.headers.get("Authorization") != "Bearer token":
            return httpx.Response(401, json={"detail": "Not authenticated"})
        if asked is not None:
            asked.append(f"{request.method} {request.url.path}")
        return answers[f"{request.method} {request.url.path}"]

    return AirflowClient(
        lambda: "http://airflow", "admin", "secret", transport=httpx.MockTransport(answer), clock=SimulatedClock()
    )


def test_the_client_logs_in_when_airflow_asks_for_it() -> None:
    answers = {"GET /api/v2/dags/d/dagRuns/r": httpx.Response(200, json={"state": "running"})}
    assert make_client(answers).read_state("d", "r") == "running"


def test_the_client_names_the_parameter_that_airflow_refuses() -> None:
    answers = {
        "PATCH /api/v2/dags/d": httpx.Response(200, json={}),
        "POST /api/v2/dags/d/dagRuns": httpx.Response(400, json={"detail": "Invalid input for param settings"}),
    }
    with pytest.raises(InputError, match="param settings"):
        make_client(answers).trigger_run("d", "r", {"settings": 0})


def test_the_client_names_the_import_error_of_a_dag() -> None:
    error = {"filename": "resilience.py", "stack_trace": "InputError: d.yaml: title: is missing (add it)"}
    answers = {
        "GET /api/v2/dags/d": httpx.Response(404, json={"detail": "no"}),
        "GET /api/v2/importErrors": httpx.Response(200, json={"import_errors": [error]}),
    }
    with pytest.raises(InputError, match=r"resilience\.py.*d\.yaml: title: is missing"):
        make_client(answers).wait_for_dag("d")


def test_an_import_error_of_a_file_whose_name_ends_alike_is_not_the_dags() -> None:
    error = {"filename": "resilience.py", "stack_trace": "InputError: /dags/scenarios/old_d.yaml: title: is missing"}
    answers = {
        "GET /api/v2/dags/d": httpx.Response(404, json={"detail": "no"}),
        "GET /api/v2/importErrors": httpx.Response(200, json={"import_errors": [error]}),
        "GET /api/v2/dags": httpx.Response(200, json={"dags": []}),
    }
    with pytest.raises(AirflowError, match="waited 120 s"):
        make_client(answers).wait_for_dag("d")


def test_the_client_leaves_airflow_time_to_read_other_files_than_those_that_it_asks_for() -> None:
    asked: list[str] = []
    answers = {
        "GET /api/v2/dags/d": httpx.Response(404, json={"detail": "no"}),
        "GET /api/v2/importErrors": httpx.Response(200, json={"import_errors": []}),
        "GET /api/v2/dags": httpx.Response(200, json={"dags": [{"file_token": "resilience"}]}),
        "PUT /api/v2/parseDagFile/resilience": httpx.Response(201),
    }
    with pytest.raises(AirflowError, match="waited 120 s for Airflow to show the DAG d"):
        make_client(answers, asked).wait_for_dag("d")
    assert asked.count("GET /api/v2/dags/d") > 100
    assert asked.count("PUT /api/v2/parseDagFile/resilience") == 9


def test_the_client_names_the_request_that_airflow_refused() -> None:
    answers = {"GET /api/v2/dags/d/dagRuns/r": httpx.Response(500, json={"detail": "database is locked"})}
    with pytest.raises(AirflowError, match="500 database is locked"):
        make_client(answers).read_state("d", "r")


def cancel(*looks: dict[str, str]) -> int:
    """Cancel a run whose tasks have these states, look by look, and return how often that is asked of Airflow."""
    remaining, asked = list(looks), 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        if request.url.path == "/auth/token":
            return httpx.Response(201, json={"access_token": "token"})
        if request.method == "PATCH":
            asked += 1
            return httpx.Response(200, json={"state": "failed"})
        states = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        tasks = [{"task_id": name, "state": state} for name, state in states.items()]
        return httpx.Response(200, json={"task_instances": tasks})

    transport = httpx.MockTransport(answer)
    AirflowClient(lambda: "http://airflow", "admin", "secret", transport=transport, clock=SimulatedClock()).cancel_run(
        "d", "r"
    )
    return asked


ENDED = {"load": "failed", "configure": "skipped", "release": "running", "verdict": "scheduled"}


def test_a_run_is_cancelled_by_one_request_and_its_teardown_goes_on() -> None:
    assert cancel(ENDED) == 1


@pytest.mark.parametrize("state", ["scheduled", "queued", "running", "up_for_retry"])
def test_a_run_of_which_a_task_begins_after_it_was_cancelled_is_cancelled_again(state: str) -> None:
    assert cancel({**ENDED, "load": state}, ENDED) == 2
    # It may begin a moment after the answer.
    assert cancel(ENDED, {**ENDED, "load": state}, ENDED) == 2


def test_tasks_that_cannot_be_ended_are_told() -> None:
    with pytest.raises(AirflowError, match="waited 30 s for the tasks of r to end, although it was cancelled"):
        cancel({**ENDED, "load": "running"})
