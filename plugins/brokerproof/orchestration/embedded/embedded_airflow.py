"""The embedded Airflow: LocalExecutor, loopback only, with all its files below one directory of this machine.

Its database is a SQLite file in that directory, unless the user names another database.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
from filelock import FileLock, Timeout

from brokerproof.clock import to_utc, wait_until
from brokerproof.errors import DeadlineError, InputError, MachineError
from brokerproof.machine.ports import ReservedPort, reserve_port
from brokerproof.machine.processes import SERVICE_MARK, Mark, find_marked_processes, read_start, start_process
from brokerproof.orchestration.embedded.environment import (
    USER,
    build_airflow_environment,
    get_password_file,
    read_password,
)
from brokerproof.orchestration.embedded.session import AirflowSession
from brokerproof.orchestration.follow.airflow_client import AirflowClient, AirflowGoneError
from brokerproof.settings import Settings, from_environment, variable

COMPONENTS = ("api-server", "scheduler", "dag-processor")
_PORT_VARIABLE = "AIRFLOW__API__PORT"
_DEFAULT_PORT = 8080
# The variable with the URL at which tasks reach their Airflow. A process that has this variable belongs to an Airflow.
_SERVED = "AIRFLOW__CORE__EXECUTION_API_SERVER_URL"
# Measured: 12 to 20 s on two cores once the database exists, and 7 s more the first time. Slow disks need longer.
_AIRFLOW_START_TIMEOUT_S = 300
# Seconds after which the user is notified of a wait. Usually a wait ends at once.
_SAY_AFTER_S = 13.0
# The number of ports that other programs may take, one after the other, before this Airflow listens there.
_MOST_PORTS = 3
# What the API server writes into its log if it cannot listen at its port.
_IN_USE = "address already in use"


class _PortTakenError(MachineError):
    """Another process listens at the port of this Airflow. The message names the port and the process."""


@dataclass(frozen=True, kw_only=True)
class AirflowStatus:
    """The fields that `airflow status` prints."""

    running: bool
    healthy: bool
    url: str
    password_file: str
    pids: list[int]
    memory_mb: int
    log_directory: str


class EmbeddedAirflow:
    """Starts, stops and describes the embedded Airflow, which the command line uses on this machine.

    `notify` is called with sentences for the user, for example if a wait takes longer than `say_after_s` seconds.
    """

    def __init__(
        self, settings: Settings, notify: Callable[[str], None] = lambda _: None, *, say_after_s: float = _SAY_AFTER_S
    ) -> None:
        self._settings = settings
        self._notify = notify
        self._say_after_s = say_after_s
        self.home = settings.airflow_home
        self.scheduler_log = self.home / "logs" / "scheduler.log"
        self._api_server_log = self.home / "logs" / "api-server.log"
        self._pid_file = self.home / "supervisor.json"
        self._mark = Mark(self.home, "airflow")
        self._lock = FileLock(self.home / "start-and-stop.lock")

    def start(self) -> str:
        """Start Airflow unless it runs, wait until it is healthy, and return its URL.

        Only one Airflow starts, even if two processes call this method at the same time. A running Airflow is restarted
        if it does not read the user's files from the directories in the settings. Raises InputError if that Airflow has
        an unfinished run, or if this process belongs to another Airflow. Raises MachineError if another program answers
        at the port of a running Airflow, and, with the end of the newest log, if Airflow is not healthy in time.
        """
        _check_that_no_other_is_served()
        self.home.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o700)
        with self._acquire_lock():
            session = self.read_session()
            if session and session.is_supervised():
                _check_listener(session, remedy="end that process, or end this Airflow with `brokerproof airflow stop`")
            if session and session.is_supervised() and not self._ends_for_other_directories(session):
                with self._notify_if_slow(
                    f"Airflow at {session.url} runs and does not answer yet; waiting {_AIRFLOW_START_TIMEOUT_S} s at "
                    f"most. Its logs are in {self.home / 'logs'}; `brokerproof airflow stop` ends it"
                ):
                    self._wait_until_healthy(session)
                return session.url
            if session:
                session.end_members()
            self._end_unrecorded()
            session = self._start_on_a_free_port()
            self._cancel_interrupted_runs(session)
            return session.url

    def stop(self) -> bool:
        """End every process of this Airflow, and return whether there was one. The nodes of a run go on."""
        if not self.home.exists():
            return False
        with self._acquire_lock():
            session = self.read_session()
            stopped = session is not None and session.end_members()
            stopped |= self._end_unrecorded()
            self._pid_file.unlink(missing_ok=True)
            return stopped

    def read_status(self) -> AirflowStatus:
        session = self.read_session()
        members = session.list_members() if session else []
        return AirflowStatus(
            running=bool(members),
            healthy=bool(
                session
                and session.is_supervised()
                and session.describe_other_listener() is None
                and _is_healthy(session)
            ),
            url=session.url if session and members else "",
            password_file=str(get_password_file(self.home)),
            pids=[member.pid for member in members],
            memory_mb=session.measure_memory() >> 20 if session else 0,
            log_directory=str(self.home / "logs"),
        )

    def connect(self) -> AirflowClient:
        """Return a client of the running Airflow. The client notifies the user if Airflow does not answer.

        Raises AirflowGoneError if no Airflow runs.
        """
        if self.find_url() is None:
            raise AirflowGoneError("the embedded Airflow does not run", ended=True)
        return AirflowClient(self._find_own_url, USER, self.read_password(), notify=self._notify)

    def check_scheduler(self) -> None:
        """Raise AirflowGoneError if both the scheduler and the supervisor have ended.

        Then no further task starts, although Airflow's API server may still answer.
        """
        session = self.read_session()
        if session is not None and session.has_lost("scheduler"):
            raise AirflowGoneError(
                "Airflow's scheduler has ended, and so has the supervisor that would start it again", ended=False
            )

    def find_url(self) -> str | None:
        """Return the URL of the running Airflow, even if it does not answer; None if its supervisor has ended."""
        session = self.read_session()
        return session.url if session and session.is_supervised() else None

    def _find_own_url(self) -> str | None:
        """Return what `find_url` does. Raises AirflowGoneError if another process answers at that URL."""
        session = self.read_session()
        if session is None or not session.is_supervised():
            return None
        try:
            _check_listener(session)
        except _PortTakenError as error:
            raise AirflowGoneError(str(error), ended=False) from None
        return session.url

    def read_password(self) -> str:
        return read_password(self.home)

    def read_session(self) -> AirflowSession | None:
        """Return the session in the pid file, even if it has ended; None if the file is missing or damaged."""
        try:
            return AirflowSession(**json.loads(self._pid_file.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def _acquire_lock(self) -> Any:
        sentence = (
            "waiting for another command that starts or stops the embedded Airflow, "
            f"{_AIRFLOW_START_TIMEOUT_S} s at most"
        )
        try:
            with self._notify_if_slow(sentence):
                return self._lock.acquire(timeout=_AIRFLOW_START_TIMEOUT_S)
        except Timeout:
            raise MachineError(
                f"another process has started or stopped the embedded Airflow for {_AIRFLOW_START_TIMEOUT_S} s, see "
                f"{self._lock.lock_file}"
            ) from None

    @contextlib.contextmanager
    def _notify_if_slow(self, sentence: str) -> Iterator[None]:
        """Notify the user with the sentence if the block takes longer than `say_after_s`."""
        # The sentence comes from another thread, because the block may wait in a blocking call.
        timer = threading.Timer(self._say_after_s, self._notify, [sentence])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _ends_for_other_directories(self, session: AirflowSession) -> bool:
        """End the session unless it reads the user's files from the directories in the settings.

        Return whether the session was ended. Raises InputError if the session must be ended but has an unfinished run.
        """
        other = _find_other_directories(self._settings, session)
        if other is None:
            return False
        field, searched = other
        runs = AirflowClient(
            lambda: session.url, USER, self.read_password(), notify=self._notify
        ).list_unfinished_runs()
        if runs:
            raise InputError(
                f"Airflow has the unfinished run {runs[0]} and searches {searched}",
                field=field,
                remedy="wait until the run is over, or end both with `brokerproof airflow stop`",
            )
        self._notify(f"Airflow is idle and searches {searched}; it starts again with the directories of {field}")
        session.end_members()
        return True

    def _start_on_a_free_port(self) -> AirflowSession:
        """Start Airflow and wait until it is healthy. If another program takes its port meanwhile, try another one."""
        for attempts_left in reversed(range(_MOST_PORTS)):
            # The supervisor inherits the reservation. So another checkout cannot take the port while the API server
            # starts, also when it starts again.
            with reserve_port(_read_preferred_port()) as port:
                self._notify(_describe_start(port.number))
                old_log = self._api_server_log.stat().st_size if self._api_server_log.exists() else 0
                session = self._start_supervisor(port)
            try:
                self._wait_until_healthy(session, old_log)
                return session
            except _PortTakenError as error:
                session.end_members()
                if not attempts_left:
                    raise
                self._notify(f"{error}; Airflow starts again on another port")
        raise AssertionError("the last attempt returns or raises")

    def _start_supervisor(self, port: ReservedPort) -> AirflowSession:
        start_process(
            [
                sys.executable,
                "-m",
                "brokerproof.orchestration.embedded.airflow_supervisor",
                str(self.home),
                str(self._settings.dags),
                os.pathsep.join(map(str, self._settings.list_sources())),
                *COMPONENTS,
            ],
            mark=self._mark,
            variable=SERVICE_MARK,
            record=self._pid_file,
            facts={"port": port.number},
            log=self.home / "logs" / "supervisor.log",
            environment=build_airflow_environment(self._settings, port.number),
            working_directory=self.home,
            descriptors=[port.descriptor],
        )
        session = self.read_session()
        assert session is not None, "it was recorded just now"
        return session

    def _end_unrecorded(self) -> bool:
        """End an Airflow that the pid file does not name, and return whether there was one.

        Such an Airflow exists if the command that started it was killed before the pid file was written.
        """
        found = False
        for process in list(find_marked_processes(self.home, variable=SERVICE_MARK)):
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                leader = os.getsid(process.pid)
                created = read_start(leader) if psutil.pid_exists(leader) else 0.0
                found |= AirflowSession(pid=leader, created=created, port=0).end_members()
        return found

    def _wait_until_healthy(self, session: AirflowSession, old_log: int | None = None) -> None:
        """Wait until Airflow is healthy. Raises _PortTakenError if another process has its port.

        `old_log` is the size of the API server's log before the start; None if this process did not start the session.
        """

        def is_healthy() -> bool:
            if not session.is_supervised():
                raise MachineError(f"the embedded Airflow ended while starting; {self._read_log_end()}")
            _check_listener(session)
            # A process can also have a port without listening there, for example for a connection to elsewhere.
            if old_log is not None and _IN_USE in _read_end(self._api_server_log, old_log):
                raise _PortTakenError(f"port {session.port} was taken before Airflow listened there")
            return _is_healthy(session)

        try:
            wait_until(is_healthy, timeout_s=_AIRFLOW_START_TIMEOUT_S, what="the embedded Airflow", every_s=0.25)
        except DeadlineError as error:
            raise MachineError(f"{error}; {self._read_log_end()}") from None

    def _cancel_interrupted_runs(self, session: AirflowSession) -> None:
        """Cancel the runs that an earlier Airflow left running when it ended. Their teardown then frees their slots.

        Without this, Airflow would treat the ended tasks of these runs as alive for another 90 seconds.
        """
        client = AirflowClient(lambda: session.url, USER, self.read_password())
        for run_id in client.cancel_runs_started_before(session.read_beginning()):
            self._notify(f"run {run_id} was interrupted when Airflow ended, and is cancelled")

    def _read_log_end(self) -> str:
        logs = [self.home / "logs" / f"{name}.log" for name in ("supervisor", "migration", *COMPONENTS)]
        written = [log for log in logs if log.exists() and log.stat().st_size]
        if not written:
            return f"no log in {self.home / 'logs'}"
        last = max(written, key=lambda log: log.stat().st_mtime)
        end = " / ".join(last.read_text(errors="replace").splitlines()[-3:])
        return f"{last} ends: {end}"


def _check_that_no_other_is_served() -> None:
    """Raises InputError if this process belongs to another Airflow, whose database the embedded one would share."""
    if os.environ.get(_SERVED):
        raise InputError(
            "this process belongs to another Airflow, so both would share its database",
            field=_SERVED,
            remedy="start the run in the pages of that Airflow, or unset the variable",
        )


def _find_other_directories(wanted: Settings, session: AirflowSession) -> tuple[str, str] | None:
    """Return the first setting whose directories in `wanted` differ from the session's; None if all are equal.

    The result is (the setting's environment variable, the session's directories separated by `:`). It is also None if
    the session's settings cannot be read.
    """
    environment = session.read_environment()
    if environment is None:
        return None
    try:
        given = from_environment(environment)
    except InputError:
        # The session runs with settings that this version refuses, so another version of Brokerproof started it.
        return None
    for field in ("scenarios", "topologies", "expectations"):
        ours, others = (getattr(settings, field) for settings in (wanted, given))
        if ours.paths != others.paths:
            return variable(field), os.pathsep.join(map(str, others.paths))
    return None


def _read_end(log: Path, offset: int) -> str:
    """Return the text of a log from an offset in bytes on; "" if there is no log."""
    return log.read_bytes()[offset:].decode(errors="replace") if log.exists() else ""


def _is_healthy(session: AirflowSession) -> bool:
    """Whether every component is healthy and the API for tasks answers. Heartbeats of earlier sessions do not count."""
    try:
        health = httpx.get(f"{session.url}/api/v2/monitor/health", timeout=10, trust_env=False).json()
        beats = [
            datetime.fromisoformat(health[part][f"latest_{part}_heartbeat"]) for part in ("scheduler", "dag_processor")
        ]
        healthy = all(health[part]["status"] == "healthy" for part in ("metadatabase", "scheduler", "dag_processor"))
        return healthy and min(beats) > to_utc(int(session.read_beginning() * 1e6)) and _serves_tasks(session)
    except (httpx.HTTPError, psutil.Error, ValueError, KeyError, TypeError):
        return False


def _serves_tasks(session: AirflowSession) -> bool:
    """Whether Airflow's API for tasks answers.

    Airflow needs 4 s to build this API at the first request. This function sends that request, so no task has to wait.
    """
    return httpx.get(f"{session.url}/execution/health", timeout=120, trust_env=False).is_success


def _read_preferred_port() -> int:
    """Return the port in AIRFLOW__API__PORT, else 8080. Raises InputError if the variable holds no port."""
    text = os.environ.get(_PORT_VARIABLE) or str(_DEFAULT_PORT)
    if not re.fullmatch(r"\d{1,5}", text, re.ASCII) or int(text) > 65535:
        raise InputError(
            f"`{text}` is no port",
            field=_PORT_VARIABLE,
            remedy="write a whole number from 1 to 65535, or unset the variable",
        )
    return int(text)


def _check_listener(session: AirflowSession, *, remedy: str = "") -> None:
    """Raises _PortTakenError if another process answers at the session's port. `remedy` ends the message."""
    if (other := session.describe_other_listener()) is not None:
        advice = f"; {remedy}" if remedy else ""
        raise _PortTakenError(f"port {session.port} is answered by {other}, and not by this Airflow{advice}")


def _describe_start(port: int) -> str:
    """Return the sentence that Airflow is starting. It names the port if the preferred port is in use."""
    preferred = _read_preferred_port()
    # 0 accepts any port.
    elsewhere = f" on port {port}, because {preferred} is in use" if preferred not in (0, port) else ""
    return f"starting Airflow{elsewhere} (12 to 30 s)"
