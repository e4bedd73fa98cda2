"""An Airflow of this machine's own: SQLite, LocalExecutor, loopback only, everything under one directory.

One supervisor process (embedded_airflow_supervisor.py) leads a session of its own; the API server, the scheduler,
the DAG processor and the tasks are members of that session, whatever process groups they make (Airflow gives each
task its own). So "all that belongs to it" is one question to the kernel, also after the supervisor was killed. Nodes
are not members: they lead sessions of their own and outlive Airflow, see runtimes/.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
from filelock import FileLock, Timeout

from brokerproof.clock import utc, wait_until
from brokerproof.errors import DeadlineError, MachineError
from brokerproof.machine import slots
from brokerproof.machine.process_identity import living
from brokerproof.orchestration.airflow_client import AirflowClient
from brokerproof.settings import Settings

USER = "admin"
COMPONENTS = ("api-server", "scheduler", "dag-processor")
_AUTH_MANAGER = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
_PREFERRED_PORT = 8080
# A cluster under load takes the machine's cores, and a task that Airflow starts meanwhile gets little of them. With the
# defaults, tasks failed (5 s for a request to the API) or began a minute late (30 s for reading the DAG file).
_PATIENCE = {
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "180",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "300",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "120",
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "10",
    "AIRFLOW__WORKERS__MISSING_DAG_RETRY_DELAY": "5",
}
# Measured: 12 to 20 s on two cores once the database exists, 7 s more the first time; slow disks and cold caches.
_START_TIMEOUT_S = 300
# A task that is told to end has 5 s before Airflow itself kills it.
_STOP_TIMEOUT_S = 10


@dataclass(frozen=True, kw_only=True)
class Supervisor:
    """The process that leads Airflow's session, as its pid file describes it."""

    pid: int
    created: float
    port: int

    def is_alive(self) -> bool:
        """Whether that very process still runs, not another one under a recycled pid."""
        return living(self.pid, self.created) is not None

    def members(self) -> list[psutil.Process]:
        """All living processes of the session, the supervisor included.

        The kernel does not hand out a pid while a session is named by it, so members of a session whose leader died
        are ours; when another process lives under the pid, the session ended before.
        """
        if psutil.pid_exists(self.pid) and not self.is_alive() and not self._is_zombie():
            return []
        members = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.pid and process.status() != psutil.STATUS_ZOMBIE:
                    members.append(process)
            except (OSError, psutil.Error):
                continue
        return members

    def _is_zombie(self) -> bool:
        try:
            return bool(psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False


@dataclass(frozen=True, kw_only=True)
class Status:
    """What `airflow status` says."""

    running: bool
    healthy: bool
    url: str
    password_file: str
    pids: list[int]
    memory_mb: int
    log_directory: str


class EmbeddedAirflow:
    """Starts, stops and describes it. `say` receives a sentence when something takes long."""

    def __init__(self, settings: Settings, say: Callable[[str], None] = lambda _: None) -> None:
        self._settings = settings
        self._say = say
        self.home = settings.airflow_home
        self._pid_file = self.home / "supervisor.json"
        self._password_file = self.home / "passwords.json"
        self._lock = FileLock(self.home / "start-and-stop.lock")

    def start(self) -> str:
        """Start it unless it runs, wait until it is healthy, and return its URL.

        Two starters at once: one starts, both return the same URL. Raises MachineError with the end of the log where
        a component did not come up.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o700)
        with self._locked():
            supervisor = self.supervisor()
            if supervisor and supervisor.is_alive():
                self._wait_until_healthy(supervisor)
                return _url(supervisor.port)
            if supervisor:
                self._end(supervisor)
            self._say("starting Airflow (12 to 30 s)")
            supervisor = self._spawn(_free_port())
            self._wait_until_healthy(supervisor)
            self._give_up_what_was_cut_off(supervisor)
            return _url(supervisor.port)

    def stop(self) -> bool:
        """End every process that belongs to it; True where there was one. Nodes of a run are not its processes."""
        if not self._pid_file.exists():
            return False
        with self._locked():
            supervisor = self.supervisor()
            if supervisor is None:
                return False
            stopped = self._end(supervisor)
            self._pid_file.unlink(missing_ok=True)
            return stopped

    def status(self) -> Status:
        """What runs, where, and in which file the password is."""
        supervisor = self.supervisor()
        members = supervisor.members() if supervisor else []
        return Status(
            running=bool(members),
            healthy=bool(supervisor and supervisor.is_alive() and _is_healthy(supervisor)),
            url=_url(supervisor.port) if supervisor and members else "",
            password_file=str(self._password_file),
            pids=[member.pid for member in members],
            memory_mb=sum(_memory(member) for member in members) >> 20,
            log_directory=str(self.home / "logs"),
        )

    def password(self) -> str:
        """The password of the user `admin`; made at the first start."""
        return str(json.loads(self._password_file.read_text())[USER])

    def supervisor(self) -> Supervisor | None:
        """What the pid file says; None without one, or with one that a crash cut short."""
        try:
            return Supervisor(**json.loads(self._pid_file.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def _locked(self) -> Any:
        try:
            return self._lock.acquire(timeout=_START_TIMEOUT_S)
        except Timeout:
            lock = self._lock.lock_file
            raise MachineError(
                f"another process has started or stopped the embedded Airflow for {_START_TIMEOUT_S} s, see {lock}"
            ) from None

    def _spawn(self, port: int) -> Supervisor:
        logs = self.home / "logs"
        logs.mkdir(exist_ok=True)
        with (logs / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "brokerproof.orchestration.embedded_airflow_supervisor",
                    str(self.home),
                    *COMPONENTS,
                ],
                env=self.environment(port),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        supervisor = Supervisor(pid=process.pid, created=psutil.Process(process.pid).create_time(), port=port)
        _write_private(self._pid_file, json.dumps(asdict(supervisor)))
        return supervisor

    def environment(self, port: int) -> dict[str, str]:
        """The environment of Airflow's processes. The user's own AIRFLOW__ and AIRFLOW_CONN_ variables stay."""
        settings = self._settings
        keys = self._secrets()
        environment = dict(os.environ)
        # Without compiled modules every process of Airflow compiles 3 s worth of them again.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment.setdefault("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[8]"}))
        # Between two steps a run waits until the scheduler wakes up.
        environment.setdefault("AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME", "0.5")
        # Three tasks of a run work at the same time and must not wait for each other; a few more for campaigns.
        environment.setdefault("AIRFLOW__CORE__PARALLELISM", str(3 * slots.slots() + 4))
        return environment | {
            "AIRFLOW_HOME": str(self.home),
            "BROKERPROOF_HOME": str(settings.home),
            "BROKERPROOF_VAR": str(settings.var),
            "BROKERPROOF_SCENARIOS": str(settings.scenarios),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONPATH": os.pathsep.join([str(settings.spark_jobs), str(settings.plugins)]),
            "PYTHONUNBUFFERED": "1",
            "AIRFLOW__CORE__DAGS_FOLDER": str(settings.dags),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(settings.plugins),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            # The default looks the name up in DNS, which takes seconds on a machine without a network.
            "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",
            "AIRFLOW__CORE__AUTH_MANAGER": _AUTH_MANAGER,
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._password_file),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{_url(port)}/execution/",
            "AIRFLOW__CORE__FERNET_KEY": keys["fernet_key"],
            "AIRFLOW__API__SECRET_KEY": keys["secret_key"],
            "AIRFLOW__API_AUTH__JWT_SECRET": keys["jwt_secret"],
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__BASE_URL": _url(port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.home / "logs"),
            **_PATIENCE,
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        }

    def _secrets(self) -> Mapping[str, str]:
        file = self.home / "secrets.json"
        if not self._password_file.exists():
            _write_private(self._password_file, json.dumps({USER: secrets.token_urlsafe(18)}))
        if not file.exists():
            keys = {
                "fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
                "secret_key": secrets.token_urlsafe(32),
                "jwt_secret": secrets.token_urlsafe(64),
            }
            _write_private(file, json.dumps(keys))
        return dict(json.loads(file.read_text()))

    def _wait_until_healthy(self, supervisor: Supervisor) -> None:
        def healthy_or_dead() -> bool:
            if not supervisor.is_alive():
                raise MachineError(f"the embedded Airflow ended while starting; {self._end_of_logs()}")
            return _is_healthy(supervisor)

        try:
            wait_until(healthy_or_dead, timeout_s=_START_TIMEOUT_S, what="the embedded Airflow", every_s=0.25)
        except DeadlineError as error:
            raise MachineError(f"{error}; {self._end_of_logs()}") from None

    def _give_up_what_was_cut_off(self, supervisor: Supervisor) -> None:
        """Cancel the runs whose tasks ended with an earlier Airflow, so that they are released and hold up no other.

        Airflow itself would take their tasks for alive for another five minutes.
        """
        client = AirflowClient(_url(supervisor.port), USER, self.password())
        for run_id in client.cancel_all_from_before(supervisor.created):
            self._say(f"run {run_id} was cut off when Airflow ended, and is given up")

    def _end_of_logs(self) -> str:
        logs = [self.home / "logs" / f"{name}.log" for name in ("supervisor", "migration", *COMPONENTS)]
        written = [log for log in logs if log.exists() and log.stat().st_size]
        if not written:
            return f"no log in {self.home / 'logs'}"
        last = max(written, key=lambda log: log.stat().st_mtime)
        end = " / ".join(last.read_text(errors="replace").splitlines()[-3:])
        return f"{last} ends: {end}"

    def _end(self, supervisor: Supervisor) -> bool:
        """End the session's members: asked first, killed after _STOP_TIMEOUT_S; again until there are none."""
        found = False
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        # A scheduler that is asked to end waits for its tasks, so these are asked as well, not only the supervisor.
        asked: set[int] = set()
        while members := supervisor.members():
            found = True
            overdue = time.monotonic() > deadline
            for member in members:
                if overdue or member.pid not in asked:
                    asked.add(member.pid)
                    _signal(member, signal.SIGKILL if overdue else signal.SIGTERM)
            time.sleep(0.1)
        # Where this process started it; or else its pid stays taken until this process ends.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(supervisor.pid, os.WNOHANG)
        return found


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.Error:
        return


def _memory(process: psutil.Process) -> int:
    """Bytes that end with the process: its forks share the rest."""
    try:
        return int(process.memory_full_info().uss)
    except psutil.Error:
        return 0


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _is_healthy(supervisor: Supervisor) -> bool:
    """Whether every component answers; a heartbeat counts only if this very Airflow made it."""
    try:
        health = httpx.get(f"{_url(supervisor.port)}/api/v2/monitor/health", timeout=10, trust_env=False).json()
        beats = [
            datetime.fromisoformat(health[part][f"latest_{part}_heartbeat"]) for part in ("scheduler", "dag_processor")
        ]
        healthy = all(health[part]["status"] == "healthy" for part in ("metadatabase", "scheduler", "dag_processor"))
        return healthy and min(beats) > utc(int(supervisor.created * 1e6)) and _serves_tasks(supervisor.port)
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return False


def _serves_tasks(port: int) -> bool:
    """Whether the API for tasks is up. Built at the first request, in 4 s of computing that no task should pay."""
    return httpx.get(f"{_url(port)}/execution/health", timeout=120, trust_env=False).is_success


def _free_port() -> int:
    """AIRFLOW__API__PORT or 8080 where it is free, else one that the kernel chooses."""
    for wanted in (int(os.environ.get("AIRFLOW__API__PORT", _PREFERRED_PORT)), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                # 0.0.0.0 takes every address, so a listener on any of them is noticed.
                probe.bind(("127.0.0.1", wanted))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise MachineError("no port is free on 127.0.0.1")


def _write_private(path: Path, text: str) -> None:
    """Write a file that nobody else may read, whole or not at all."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)
