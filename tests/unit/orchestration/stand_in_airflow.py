"""An Airflow whose API answers over HTTP like Airflow's, and whose runs end at once with what a test plants."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from brokerproof.machine.processes import read_start

TASKS = "/taskInstances"
# How long a request hangs, in seconds, unless the test ends before.
HANGING_S = 30
PUBLIC = ("/auth/token", "/api/v2/monitor/health", "/execution/health")


class StandInAirflow:
    """Has the command line take it for an embedded Airflow that runs already.

    `on_trigger` gets the DAG's and the run's id; a task of `failed` failed, and left `xcom`.
    """

    def __init__(self, home: Path, on_trigger: Callable[[str, str], None]) -> None:
        self.on_trigger = on_trigger
        self.failed: tuple[str, ...] = ()
        self.xcom = "no slot is free"
        # The state of the run, and of its tasks where `failed` does not say it. Who cancels the run makes it `failed`.
        self.state = "failed"
        self.tasks: list[dict[str, Any]] | None = None
        # Whether it removes a run; it does not remove one that has begun.
        self.removes = True
        # What Airflow's API lists, for all DAGs and for one.
        self.dag_runs: list[dict[str, str]] = []
        # How it answers: `well`, with `500` or `html`, or not at all: it `hangs`, or is `dead`.
        self.behaviour = "well"
        self.token = "token"
        self.password = "secret"
        self._closing = threading.Event()
        # Method and path of each request, and the parameters of the runs that were triggered.
        self.requests: list[str] = []
        self.triggered: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        # It looks for its end this often, in seconds.
        serving = {"poll_interval": 0.01}
        threading.Thread(target=self._server.serve_forever, kwargs=serving, daemon=True).start()
        # What `down` would end is a process of its own. It has the listening socket too, as Airflow's supervisor has by
        # its API server, so that the command line does not take this one for another Airflow.
        self._supervisor = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"],
            start_new_session=True,
            pass_fds=[self._server.fileno()],
        )
        session = {
            "pid": self._supervisor.pid,
            "created": read_start(self._supervisor.pid),
            "port": self._server.server_port,
        }
        home.mkdir(parents=True)
        (home / "supervisor.json").write_text(json.dumps(session))
        (home / "passwords.json").write_text(json.dumps({"admin": "secret"}))

    @property
    def url(self) -> str:
        """The address of its API."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def die(self) -> None:
        """End as Airflow does when all of its processes are killed."""
        self.behaviour = "dead"
        self._supervisor.kill()
        self._supervisor.wait()

    def close(self) -> None:
        """End it."""
        self._closing.set()
        self._supervisor.kill()
        self._supervisor.wait()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, content: Any) -> tuple[int, Any]:
        """Status and content of the answer to a request."""
        self.requests.append(f"{method} {path}")
        if path == "/auth/token":
            right = content["password"] == self.password
            return (201, {"access_token": self.token}) if right else (401, {"detail": "no"})
        if path == "/api/v2/monitor/health":
            now = datetime.now(UTC).isoformat()
            beats = {f"latest_{part}_heartbeat": now for part in ("scheduler", "dag_processor")}
            return 200, {
                part: {"status": "healthy", **beats} for part in ("metadatabase", "scheduler", "dag_processor")
            }
        if method == "POST" and (triggered := re.fullmatch(r"/api/v2/dags/(\w+)/dagRuns", path)):
            self.triggered.append(content["conf"])
            self.on_trigger(triggered[1], content["dag_run_id"])
            return 200, {}
        if "/xcomEntries/" in path:
            return 200, {"value": self.xcom}
        if path.endswith("/dagRuns"):
            return 200, {"dag_runs": self.dag_runs}
        if method == "PATCH" and "/dagRuns/" in path:
            self.state = content["state"]
            for task in self.tasks or ():
                task["state"] = "failed" if task["state"] == "running" else task["state"]
        if method == "DELETE":
            self.state = "removed" if self.removes else self.state
            return (204, None) if self.removes else (409, {"detail": "it runs"})
        if TASKS in path and self.tasks is not None:
            return 200, {"task_instances": self.tasks}
        if TASKS in path:
            return 200, {"task_instances": [{"task_id": task, "state": "failed"} for task in (*self.failed, "verdict")]}
        return 200, {"is_stale": False, "state": self.state}

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        airflow = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and content are sent apart, and the second would wait 40 ms for an acknowledgement of the first.
            disable_nagle_algorithm = True

            def log_message(self, *_: Any) -> None: ...

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                content = json.loads(self.rfile.read(length) or "null")
                path = self.path.partition("?")[0]
                if airflow.behaviour == "hangs":
                    airflow._closing.wait(HANGING_S)
                if airflow.behaviour in ("hangs", "dead"):
                    self.close_connection = True
                    return
                if airflow.behaviour == "500":
                    status, answer = 500, {"detail": "database is locked"}
                elif path in PUBLIC or self.headers.get("Authorization") == f"Bearer {airflow.token}":
                    status, answer = airflow.answer(self.command, path, content)
                else:
                    status, answer = 401, {"detail": "Not authenticated"}
                body = b"<html>hello</html>" if airflow.behaviour == "html" else json.dumps(answer).encode()
                body = b"" if status == 204 else body
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer  # noqa: N815

        return Handler
