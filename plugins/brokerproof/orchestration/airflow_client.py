"""The calls of Airflow's REST API that the command line needs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

from brokerproof.clock import SYSTEM_CLOCK, Clock
from brokerproof.errors import BrokerproofError, DeadlineError, InputError

FINISHED = ("success", "failed")
_REQUEST_TIMEOUT_S = 60
# On a machine with a cluster, a request can wait for a minute; a component that died needs time to start again.
_RETRY_FOR_S = 300
_PARSE_TIMEOUT_S = 120
# A file that is asked for goes before all others. Asked for whenever it has just been read, it would keep the file that
# names unusable scenarios, for which nobody can ask, from being read at all: seen on a slow machine.
_PARSE_REQUEST_EVERY_S = 15


class AirflowError(BrokerproofError):
    """Airflow refused a request or does not answer."""


@dataclass(frozen=True, kw_only=True)
class TaskState:
    """A task of a DAG run; `state` is None while it waits."""

    task_id: str
    state: str | None


class AirflowClient:
    """Sends requests to the Airflow at a URL, logged in as one of its users."""

    def __init__(
        self,
        url: str,
        user: str,
        password: str,
        transport: httpx.BaseTransport | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._credentials = {"username": user, "password": password}
        # Airflow is on loopback, so the proxy that the environment may name is not used.
        self._http = httpx.Client(base_url=url, timeout=_REQUEST_TIMEOUT_S, trust_env=False, transport=transport)

    def wait_for_dag(self, dag_id: str) -> None:
        """Wait until Airflow has read a DAG. Raises InputError with Airflow's import error where it cannot."""
        requested_at: float | None = None

        def has_dag() -> bool:
            nonlocal requested_at
            answer = self._send_request("GET", f"/api/v2/dags/{dag_id}", allowed=(200, 404))
            # A stale DAG is one of an earlier state of its file, or of a file with an error, and cannot be triggered.
            if answer.status_code == 200 and not answer.json()["is_stale"]:
                return True
            if any(f"{dag_id}.yaml" in error for error in self._list_import_errors()):
                raise InputError("; ".join(self._list_import_errors()), remedy="correct the file")
            now = self._clock.monotonic_s()
            if requested_at is None or now - requested_at >= _PARSE_REQUEST_EVERY_S:
                self._request_parsing()
                requested_at = now
            return False

        try:
            what = f"Airflow to show the DAG {dag_id}"
            self._clock.wait_until(has_dag, timeout_s=_PARSE_TIMEOUT_S, what=what, every_s=1)
        except DeadlineError as error:
            reasons = "; ".join(self._list_import_errors()) or "its DAG processor's log says why"
            raise AirflowError(f"{error}; {reasons}") from None

    def trigger_run(self, dag_id: str, run_id: str, params: Mapping[str, Any]) -> None:
        """Start a run of a DAG. Raises InputError where Airflow does not accept the parameters."""
        self._send_request("PATCH", f"/api/v2/dags/{dag_id}?update_mask=is_paused", json={"is_paused": False})
        answer = self._send_request(
            "POST",
            f"/api/v2/dags/{dag_id}/dagRuns",
            json={"dag_run_id": run_id, "logical_date": None, "conf": dict(params)},
            allowed=(200, 400, 422),
        )
        if answer.status_code != 200:
            raise InputError(_read_detail(answer), field="--set", remedy="correct the value")

    def read_state(self, dag_id: str, run_id: str) -> str:
        """The state of a run: `queued`, `running`, `success` or `failed`."""
        return str(self._get_json(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def list_tasks(self, dag_id: str, run_id: str) -> list[TaskState]:
        """The states of a run's tasks."""
        answer = self._get_json(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100")
        return [TaskState(task_id=task["task_id"], state=task["state"]) for task in answer["task_instances"]]

    def read_xcom(self, dag_id: str, run_id: str, task_id: str, key: str) -> Any | None:
        """The value that a task left under a key, None where it left none."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        answer = self._send_request("GET", path, allowed=(200, 404))
        return answer.json()["value"] if answer.status_code == 200 else None

    def cancel_run(self, dag_id: str, run_id: str) -> None:
        """Mark a run as failed: Airflow ends its tasks and runs its teardown."""
        self._send_request(
            "PATCH", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}?update_mask=state", json={"state": "failed"}
        )

    def cancel_runs_started_before(self, moment: float) -> list[str]:
        """Cancel every run that goes on and began before `moment`, in seconds since the epoch; return their ids."""
        before = datetime.fromtimestamp(moment, UTC).isoformat()
        runs = self._send_request(
            "GET", "/api/v2/dags/~/dagRuns", params={"state": "running", "start_date_lt": before, "limit": 100}
        ).json()["dag_runs"]
        for run in runs:
            self.cancel_run(run["dag_id"], run["dag_run_id"])
        return [run["dag_run_id"] for run in runs]

    def _list_import_errors(self) -> list[str]:
        """The errors of the DAG files that Airflow could not read, one text a file."""
        errors = self._get_json("/api/v2/importErrors")["import_errors"]
        return [f"{error['filename']}: {str(error['stack_trace']).strip()}" for error in errors]

    def _request_parsing(self) -> None:
        """Have Airflow read the DAG files now: by itself it reads an unchanged file only every 30 s."""
        for token in {dag["file_token"] for dag in self._get_json("/api/v2/dags?limit=100")["dags"]}:
            self._send_request("PUT", f"/api/v2/parseDagFile/{token}", allowed=(201, 404, 409))

    def _get_json(self, path: str) -> Any:
        return self._send_request("GET", path).json()

    def _send_request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        allowed: tuple[int, ...] = (200,),
    ) -> httpx.Response:
        deadline = time.monotonic() + _RETRY_FOR_S
        while True:
            try:
                answer = self._send_once(method, path, json, params)
                break
            except httpx.HTTPError as error:
                # A GET may be repeated. If another request broke off, nobody knows whether Airflow carried it out.
                if method != "GET" or time.monotonic() > deadline:
                    raise AirflowError(f"Airflow does not answer at {self._http.base_url}: {error}") from None
                time.sleep(1)
        if answer.status_code not in allowed:
            raise AirflowError(f"Airflow refused {method} {path}: {answer.status_code} {_read_detail(answer)}")
        return answer

    def _send_once(self, method: str, path: str, json: Any, params: Mapping[str, Any] | None) -> httpx.Response:
        answer = self._http.request(method, path, json=json, params=params)
        if answer.status_code == 401:
            self._log_in()
            answer = self._http.request(method, path, json=json, params=params)
        return answer

    def _log_in(self) -> None:
        answer = self._http.post("/auth/token", json=self._credentials)
        if answer.status_code != 201:
            raise AirflowError(f"Airflow refused the login of {self._credentials['username']}: {_read_detail(answer)}")
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"


def _read_detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:300]
