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

import psutil

TASKS = "/taskInstances"
PUBLIC = ("/auth/token", "/api/v2/monitor/health", "/execution/health")


class StandInAirflow:
    """Has the command line take it for an embedded Airflow that runs already.

    `on_trigger` gets the DAG's and the run's id; a task of `failed` failed, and left `xcom`.
    """

    def __init__(self, home: Path, on_trigger: Callable[[str, str], None]) -> None:
        self.on_trigger = on_trigger
        self.failed: tuple[str, ...] = ()
        self.xcom = "no slot is free"
        # Method and path of each request, and the parameters of the runs that were triggered.
        self.requests: list[str] = []
        self.triggered: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        # It looks for its end this often, in seconds.
        serving = {"poll_interval": 0.01}
        threading.Thread(target=self._server.serve_forever, kwargs=serving, daemon=True).start()
        # What `down` would end is a process of its own.
        self._supervisor = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
        )
        session = {
            "pid": self._supervisor.pid,
            "created": psutil.Process(self._supervisor.pid).create_time(),
            "port": self._server.server_port,
        }
        home.mkdir(parents=True)
        (home / "supervisor.json").write_text(json.dumps(session))
        (home / "passwords.json").write_text(json.dumps({"admin": "secret"}))

    def close(self) -> None:
        """End it."""
        self._supervisor.kill()
        self._supervisor.wait()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, content: Any) -> tuple[int, Any]:
        """Status and content of the answer to a request."""
        self.requests.append(f"{method} {path}")
        if path == "/auth/token":
            return (201, {"access_token": "token"}) if content["password"] == "secret" else (401, {"detail": "no"})
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
        if TASKS in path:
            return 200, {"task_instances": [{"task_id": task, "state": "failed"} for task in (*self.failed, "verdict")]}
        return 200, {"is_stale": False, "state": "failed"}

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        airflow = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                content = json.loads(self.rfile.read(length) or "null")
                path = self.path.partition("?")[0]
                if path in PUBLIC or self.headers.get("Authorization") == "Bearer token":
                    status, answer = airflow.answer(self.command, path, content)
                else:
                    status, answer = 401, {"detail": "Not authenticated"}
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_PUT = _answer  # noqa: N815

        return Handler
