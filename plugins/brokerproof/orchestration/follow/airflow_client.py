"""The calls of Airflow's REST API that the command line needs, and how long Airflow or a run has been silent."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

from brokerproof.clock import SYSTEM_CLOCK, Clock
from brokerproof.errors import BrokerproofError, DeadlineError, InputError, shorten
from brokerproof.orchestration.dag_run import belongs_to

FINISHED = ("success", "failed")
# On a machine with a cluster, a request can take a minute. So another thread makes it, and the caller looks for the
# answer every _LOOK_EVERY_S.
_TIMEOUTS = httpx.Timeout(60, connect=5)
_LOOK_EVERY_S = 0.25
_ASK_AGAIN_AFTER_S = 1.0
_PARSE_TIMEOUT_S = 120
# Tasks of a cancelled run end at once, or with the next request.
_CANCEL_S = 30
# The states of a task that begins, goes on, or will begin again.
_ACTIVE = frozenset({"scheduled", "queued", "running", "restarting", "deferred", "up_for_retry", "up_for_reschedule"})
# The tasks that a run's DAG does in any case. In Airflow, the DAG itself marks them (`as_teardown`).
TEARDOWN = ("release", "record", "verdict")
# Airflow reads requested files first. The file unusable_scenarios.py cannot be requested, because it has no DAG. With a
# shorter interval on a slow machine, Airflow never read that file.
_PARSE_REQUEST_EVERY_S = 15
# The number of newest DAG runs that `find_run` searches.
_RUNS_LOOKED_THROUGH = 100
# The user must be notified within 15 s of the last answer, and Airflow is asked every two seconds.
_SAY_AFTER_S = 13.0
# The supervisor restarts a dead API server after 5 s. On a machine that carries a cluster, the start takes up to 60 s.
_GIVE_UP_AFTER_S = 120.0
# If this client sends no request for `_OWN_PAUSE_S`, the time since the last answer does not measure Airflow's silence.
_OWN_PAUSE_S = 5.0


class AirflowError(BrokerproofError):
    """Airflow refused a request, did not show a DAG in time, or does not answer."""


class AirflowGoneError(AirflowError):
    """Airflow has ended (`ended` is True), or the command line no longer waits for it."""

    def __init__(self, message: str, *, ended: bool) -> None:
        super().__init__(message)
        self.ended = ended


class _NoUsableAnswerError(Exception):
    """An answer did not come from a working Airflow, for example during Airflow's start. The request is repeated."""


@dataclass(frozen=True, kw_only=True)
class TaskState:
    """A task of a DAG run. `state` is None until Airflow schedules the task.

    `pid` is the id of the task's process, which may have ended. It is None before the task's first process starts.
    """

    task_id: str
    state: str | None
    started_at: datetime | None = None
    pid: int | None = None


@dataclass(frozen=True, kw_only=True)
class DagRun:
    """The ids by which Airflow knows a run of a DAG."""

    dag_id: str
    dag_run_id: str


class Silence:
    """Measures the time since the last sign of life, such as an answer of Airflow, and decides when to notify the user.

    A notification is due after `say_after_s` seconds of silence, and then every `say_again_after_s` seconds.
    """

    def __init__(self, clock: Clock, *, say_after_s: float, say_again_after_s: float = math.inf) -> None:
        self._clock = clock
        self._say_after_s, self._say_again_after_s = say_after_s, say_again_after_s
        self._said_at = -math.inf
        self.restart()

    @property
    def seconds(self) -> float:
        return self._clock.monotonic_s() - self._began_at

    def is_due(self) -> bool:
        """Return whether the user must be notified now. If so, this call counts as the notification."""
        now = self._clock.monotonic_s()
        if self.seconds < self._say_after_s or now - self._said_at < self._say_again_after_s:
            return False
        self._said_at = now
        return True

    def end(self) -> bool:
        """End the silence, because there was a sign of life. Return whether the user was notified of the silence."""
        was_said = self._said_at > -math.inf
        self._said_at = -math.inf
        self.restart()
        return was_said

    def restart(self) -> None:
        """Measure the silence from now on, although there was no sign of life."""
        self._began_at = self._clock.monotonic_s()


class AirflowClient:
    """Sends requests to an Airflow, logged in as one of its users.

    `find_url` returns the address of the running Airflow, or None if it has ended. A request is repeated until it has a
    usable answer. If no usable answer came for `say_after_s` seconds, `notify` gets a sentence, and another sentence
    when Airflow answers again. If Airflow has ended or was silent for `give_up_after_s` seconds, every method that
    sends a request raises AirflowGoneError.
    """

    def __init__(
        self,
        find_url: Callable[[], str | None],
        user: str,
        password: str,
        *,
        notify: Callable[[str], None] = lambda _: None,
        clock: Clock = SYSTEM_CLOCK,
        transport: httpx.BaseTransport | None = None,
        say_after_s: float = _SAY_AFTER_S,
        give_up_after_s: float = _GIVE_UP_AFTER_S,
    ) -> None:
        self._find_url, self._notify, self._clock = find_url, notify, clock
        self._say_after_s, self._give_up_after_s = say_after_s, give_up_after_s
        self._silence = Silence(clock, say_after_s=say_after_s)
        self._reason = "no answer"
        self._while_waiting: Callable[[], None] = lambda: None
        self._credentials = {"username": user, "password": password}
        self._url = find_url() or ""
        # Airflow is on loopback, so the proxy that the environment may name is not used.
        self._http = httpx.Client(base_url=self._url, timeout=_TIMEOUTS, trust_env=False, transport=transport)

    @contextmanager
    def call_while_waiting(self, function: Callable[[], None]) -> Iterator[None]:
        """Within the block, call a function about every _LOOK_EVERY_S while a request waits for its answer."""
        before, self._while_waiting = self._while_waiting, function
        try:
            yield
        finally:
            self._while_waiting = before

    def wait_for_dag(self, dag_id: str) -> None:
        """Wait until Airflow has read the DAG of a scenario.

        Raises InputError, with Airflow's import errors, if the scenario's file cannot be used. Raises AirflowError if
        Airflow has not read the DAG after _PARSE_TIMEOUT_S seconds.
        """
        requested_at: float | None = None
        say_at: float | None = self._clock.monotonic_s() + self._say_after_s

        def has_dag() -> bool:
            nonlocal requested_at, say_at
            answer = self._send_request("GET", f"/api/v2/dags/{dag_id}", allowed=(200, 404), field="is_stale")
            # A stale DAG belongs to an earlier state of its file, or to a file with an error. It cannot be triggered.
            if answer.status_code == 200 and not answer.json()["is_stale"]:
                return True
            # The file of another scenario may have a name that ends with this one.
            if any(re.search(rf"(?<![\w.-]){dag_id}\.yaml", error) for error in self._list_import_errors()):
                raise InputError("; ".join(self._list_import_errors()), remedy="correct the file")
            now = self._clock.monotonic_s()
            if requested_at is None or now - requested_at >= _PARSE_REQUEST_EVERY_S:
                self._request_parsing()
                requested_at = now
            if say_at is not None and now >= say_at:
                say_at = None
                self._notify(f"waiting until Airflow has read the scenario {dag_id}, {_PARSE_TIMEOUT_S} s at most")
            return False

        try:
            what = f"Airflow to show the DAG {dag_id}"
            self._clock.wait_until(has_dag, timeout_s=_PARSE_TIMEOUT_S, what=what, every_s=1)
        except DeadlineError as error:
            reasons = "; ".join(self._list_import_errors()) or "its DAG processor's log says why"
            raise AirflowError(f"{error}; {reasons}") from None

    def trigger_run(self, dag_id: str, run_id: str, params: Mapping[str, Any]) -> None:
        """Unpause a DAG and start a run of it. Raises InputError if Airflow does not accept the parameters."""
        self._send_request("PATCH", f"/api/v2/dags/{dag_id}?update_mask=is_paused", json={"is_paused": False})
        answer = self._send_request(
            "POST",
            f"/api/v2/dags/{dag_id}/dagRuns",
            json={"dag_run_id": run_id, "logical_date": None, "conf": dict(params)},
            allowed=(200, 400, 422),
            # 409: an earlier attempt of this request started the run, but its answer was lost.
            allowed_again=(409,),
        )
        if answer.status_code == 409:
            return
        if answer.status_code != 200:
            raise InputError(_read_detail(answer), field="--set", remedy="correct the value")

    def read_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run: `queued`, `running`, `success` or `failed`."""
        return str(self._get_field(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}", "state"))

    def list_tasks(self, dag_id: str, run_id: str) -> list[TaskState]:
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100"
        return [_parse_task(task) for task in self._get_field(path, "task_instances")]

    def list_running(self, dag_id: str) -> list[str]:
        """Return the ids of the DAG's running DAG runs, at most 10."""
        runs = self._get_field(f"/api/v2/dags/{dag_id}/dagRuns?state=running&limit=10", "dag_runs")
        return [str(run["dag_run_id"]) for run in runs]

    def find_run(self, run_id: str) -> DagRun | None:
        """Search the _RUNS_LOOKED_THROUGH newest DAG runs. Return the one that has the run `run_id`, or None."""
        path = f"/api/v2/dags/~/dagRuns?order_by=-run_after&limit={_RUNS_LOOKED_THROUGH}"
        for run in self._get_field(path, "dag_runs"):
            if belongs_to(run_id, run["dag_id"], run["dag_run_id"]):
                return DagRun(dag_id=run["dag_id"], dag_run_id=run["dag_run_id"])
        return None

    def read_xcom(self, dag_id: str, run_id: str, task_id: str, key: str) -> Any | None:
        """Return the XCom that a task stored under a key, or None if there is none."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        answer = self._send_request("GET", path, allowed=(200, 404), field="value")
        return answer.json()["value"] if answer.status_code == 200 else None

    def cancel_run(self, dag_id: str, run_id: str) -> None:
        """Mark a run as failed, so that Airflow ends its tasks and runs its teardown.

        A task that the scheduler takes at the same moment begins all the same, and the tasks that it waits for are
        skipped. So the request is repeated until no task but those of the teardown has begun for a second.
        """
        path, calm = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}?update_mask=state", 0

        def request() -> None:
            self._send_request("PATCH", path, json={"state": "failed"})

        def is_cancelled() -> bool:
            nonlocal calm
            tasks = self.list_tasks(dag_id, run_id)
            if any(task.state in _ACTIVE and task.task_id not in TEARDOWN for task in tasks):
                calm = 0
                request()
            else:
                calm += 1
            return calm > 1

        request()
        try:
            self._clock.wait_until(is_cancelled, timeout_s=_CANCEL_S, what=f"the tasks of {run_id} to end", every_s=1)
        except DeadlineError as error:
            raise AirflowError(f"{error}, although it was cancelled; end it in Airflow's page of the run") from None

    def remove_queued_run(self, dag_id: str, run_id: str) -> bool:
        """Remove a run that is queued. Return False if it has begun meanwhile and still runs.

        If a queued run were cancelled, it would stay queued, and Airflow would begin it later only to run its teardown.
        """
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"
        return self._send_request("DELETE", path, allowed=(204, 409), allowed_again=(404,)).status_code != 409

    def cancel_runs_started_before(self, moment: float) -> list[str]:
        """Cancel at most 100 running DAG runs that began before `moment` (seconds since 1970), and return their ids."""
        before = datetime.fromtimestamp(moment, UTC).isoformat()
        runs = self._send_request(
            "GET",
            "/api/v2/dags/~/dagRuns",
            params={"state": "running", "start_date_lt": before, "limit": 100},
            field="dag_runs",
        ).json()["dag_runs"]
        for run in runs:
            self.cancel_run(run["dag_id"], run["dag_run_id"])
        return [run["dag_run_id"] for run in runs]

    def list_unfinished_runs(self) -> list[str]:
        """Return the ids of queued and running DAG runs of all DAGs, at most 100."""
        states = {"state": ["queued", "running"], "limit": 100}
        runs = self._send_request("GET", "/api/v2/dags/~/dagRuns", params=states, field="dag_runs").json()["dag_runs"]
        return [run["dag_run_id"] for run in runs]

    def _list_import_errors(self) -> list[str]:
        """Return a text `FILE: STACK TRACE` for each DAG file that Airflow could not read."""
        errors = self._get_field("/api/v2/importErrors", "import_errors")
        return [f"{error['filename']}: {str(error['stack_trace']).strip()}" for error in errors]

    def _request_parsing(self) -> None:
        """Make Airflow read the files of its known DAGs now. By itself it reads an unchanged file only every 300 s."""
        for token in {dag["file_token"] for dag in self._get_field("/api/v2/dags?limit=100", "dags")}:
            self._send_request("PUT", f"/api/v2/parseDagFile/{token}", allowed=(201, 404, 409))

    def _get_field(self, path: str, field: str) -> Any:
        return self._send_request("GET", path, field=field).json()[field]

    def _send_request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        allowed: tuple[int, ...] = (200,),
        allowed_again: tuple[int, ...] = (),
        field: str | None = None,
    ) -> httpx.Response:
        """Send a request, repeat it until it has a usable answer, and return the answer.

        The request must be harmless if it is repeated. `allowed` are the expected HTTP statuses, and `allowed_again`
        further ones for a repeated request. A successful answer without the field `field` is not usable. Raises
        AirflowError for another status, and AirflowGoneError if no usable answer came in time.
        """
        if self._silence.seconds > _OWN_PAUSE_S:
            self._silence.restart()
        while True:
            try:
                answer = self._send_beside(method, path, json, params)
                _check_usable(answer, field)
                break
            except (httpx.HTTPError, _NoUsableAnswerError) as error:
                self._reason = str(error) or type(error).__name__
                self._find_airflow()
                self._check_silence()
                allowed += allowed_again
                self._while_waiting()
                self._clock.sleep(_ASK_AGAIN_AFTER_S)
        seconds = self._silence.seconds
        if self._silence.end():
            self._notify(f"Airflow at {self._url} answers again, after {seconds:.0f} s")
        self._reason = "no answer"
        if answer.status_code not in allowed:
            raise AirflowError(f"Airflow refused {method} {path}: {answer.status_code} {_read_detail(answer)}")
        return answer

    def _find_airflow(self) -> None:
        """Use the present URL of Airflow for the next requests. Raises AirflowGoneError if Airflow has ended."""
        url = self._find_url()
        if url is None:
            raise AirflowGoneError(f"Airflow at {self._url} has ended", ended=True)
        self._http.base_url = self._url = url

    def _check_silence(self) -> None:
        """Notify the user once if Airflow has been silent for `say_after_s`.

        Raises AirflowGoneError if the silence has lasted `give_up_after_s`.
        """
        silent = f"Airflow at {self._url} has not answered for {self._silence.seconds:.0f} s ({self._reason})"
        if self._silence.seconds >= self._give_up_after_s:
            raise AirflowGoneError(silent, ended=False)
        if self._silence.is_due():
            self._notify(
                f"{silent}. A cluster, its monitor and its clients may go on without it. It is asked again until "
                f"{self._give_up_after_s:.0f} s have passed; `brokerproof airflow status` names its logs, and "
                "`brokerproof down` stops everything"
            )

    def _send_beside(self, method: str, path: str, json: Any, params: Mapping[str, Any] | None) -> httpx.Response:
        """Send a request from another thread, and return the request's answer or raise its error.

        While the calling thread waits, it can notify the user that no answer has come.
        """
        answer: Future[httpx.Response] = Future()

        def send() -> None:
            try:
                answer.set_result(self._send_once(method, path, json, params))
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=send, daemon=True).start()
        while wait([answer], _LOOK_EVERY_S).not_done:
            self._while_waiting()
            self._check_silence()
        return answer.result()

    def _send_once(self, method: str, path: str, json: Any, params: Mapping[str, Any] | None) -> httpx.Response:
        answer = self._http.request(method, path, json=json, params=params)
        if answer.status_code == 401:
            # This is the first request, or Airflow was started again with another secret.
            self._log_in()
            answer = self._http.request(method, path, json=json, params=params)
        return answer

    def _log_in(self) -> None:
        answer = self._http.post("/auth/token", json=self._credentials)
        if answer.status_code != 201:
            raise _NoUsableAnswerError(f"it refuses the login of {self._credentials['username']}: {_describe(answer)}")
        _check_usable(answer, "access_token")
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"


def _check_usable(answer: httpx.Response, field: str | None) -> None:
    """Raises _NoUsableAnswerError if the answer's status is 401 or at least 500, or if its content is no JSON.

    The same error is raised if a successful answer lacks the field `field`.
    """
    if answer.status_code >= 500 or answer.status_code == 401:
        raise _NoUsableAnswerError(_describe(answer))
    try:
        content = answer.json() if answer.content else None
    except ValueError:
        raise _NoUsableAnswerError("an answer that is no JSON") from None
    if field is not None and answer.is_success and (not isinstance(content, dict) or field not in content):
        raise _NoUsableAnswerError(f"an answer without `{field}`")


def _parse_task(task: Mapping[str, Any]) -> TaskState:
    started_at = task.get("start_date")
    return TaskState(
        task_id=task["task_id"],
        state=task["state"],
        started_at=datetime.fromisoformat(started_at) if started_at else None,
        pid=task.get("pid"),
    )


def _describe(answer: httpx.Response) -> str:
    return f"{answer.status_code} {_read_detail(answer)}".strip()


def _read_detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return shorten(" ".join(answer.text.split()), 100)
