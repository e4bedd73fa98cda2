from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from brokerproof.clock import wait_until
from brokerproof.errors import InputError, MachineError
from brokerproof.machine.ports import ReservedPort, reserve_port
from brokerproof.machine.processes import SERVICE_MARK, Mark, read_start, start_process
from brokerproof.orchestration.embedded import embedded_airflow
from brokerproof.orchestration.embedded.embedded_airflow import EmbeddedAirflow
from brokerproof.orchestration.embedded.environment import build_airflow_environment
from brokerproof.orchestration.embedded.session import AirflowSession
from brokerproof.orchestration.follow.airflow_client import AirflowGoneError
from brokerproof.settings import Settings, from_environment
from filelock import FileLock
from foreign_server import ForeignServers, run_foreign_servers

from ..stand_in_airflow import StandInAirflow


@pytest.fixture
def settings(scenarios: Path) -> Settings:
    return from_environment()


def write_pid_file(settings: Settings, content: str) -> None:
    settings.airflow_home.mkdir(parents=True)
    (settings.airflow_home / "supervisor.json").write_text(content)


def test_airflow_does_not_run_if_the_pid_file_names_a_dead_process(settings: Settings) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    write_pid_file(settings, json.dumps({"pid": gone.pid, "created": 1.0, "port": 1}))
    assert not EmbeddedAirflow(settings).read_status().running
    assert not EmbeddedAirflow(settings).stop()


def test_stop_spares_another_process_with_a_recycled_pid(settings: Settings) -> None:
    """The pid file names a process that lived an hour before the one that has its pid now."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        created = read_start(other.pid) - 3600
        write_pid_file(settings, json.dumps({"pid": other.pid, "created": created, "port": 1}))
        assert not EmbeddedAirflow(settings).read_status().running
        assert not EmbeddedAirflow(settings).stop()
        assert other.poll() is None
    finally:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()


def test_airflow_does_not_run_if_a_crash_cut_the_pid_file_short(settings: Settings) -> None:
    write_pid_file(settings, '{"pid": 1')
    assert not EmbeddedAirflow(settings).read_status().running


def test_an_airflow_that_runs_and_does_not_answer_is_waited_for_aloud(settings: Settings) -> None:
    airflow = StandInAirflow(settings.airflow_home, lambda *_: None)
    said: list[str] = []

    def notify(sentence: str) -> None:
        said.append(sentence)
        airflow.behaviour = "well"

    try:
        airflow.behaviour = "500"
        assert EmbeddedAirflow(settings, notify, say_after_s=0.3).start() == airflow.url
        assert [sentence.partition(";")[0] for sentence in said] == [
            f"Airflow at {airflow.url} runs and does not answer yet"
        ]
        assert EmbeddedAirflow(settings, said.append, say_after_s=120).start() == airflow.url
        assert len(said) == 1
    finally:
        airflow.close()


def test_another_command_that_starts_airflow_is_waited_for_aloud(settings: Settings) -> None:
    airflow = StandInAirflow(settings.airflow_home, lambda *_: None)
    said: list[str] = []
    lock = FileLock(settings.airflow_home / "start-and-stop.lock", thread_local=False)

    def notify(sentence: str) -> None:
        said.append(sentence)
        lock.release()

    try:
        with lock:
            assert EmbeddedAirflow(settings, notify, say_after_s=0.3).start() == airflow.url
        # A busy machine may have to wait for Airflow's answer too, and says so afterwards.
        assert said[0].partition(",")[0] == "waiting for another command that starts or stops the embedded Airflow"
    finally:
        airflow.close()


def test_an_airflow_that_has_ended_has_no_url_and_no_client(settings: Settings) -> None:
    airflow = StandInAirflow(settings.airflow_home, lambda *_: None)
    try:
        assert EmbeddedAirflow(settings).find_url() == airflow.url
        airflow.die()
        assert EmbeddedAirflow(settings).find_url() is None
        with pytest.raises(AirflowGoneError, match="the embedded Airflow does not run"):
            EmbeddedAirflow(settings).connect()
    finally:
        airflow.close()


def test_members_are_listed_after_their_leader_died(settings: Settings) -> None:
    code = (
        "import os, subprocess, sys;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], process_group=0);"
        "print(child.pid, flush=True)"
    )
    leader = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE, text=True)
    created = read_start(leader.pid)
    assert leader.stdout is not None
    child = int(leader.stdout.readline())
    leader.wait()
    try:
        members = AirflowSession(pid=leader.pid, created=created, port=1).list_members()
        assert [member.pid for member in members] == [child]
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.fixture
def foreign() -> Iterator[ForeignServers]:
    with run_foreign_servers() as servers:
        yield servers


class StandInStarts:
    """Supervisors that start no Airflow, and listen at their port as its API server does.

    `planted` are called with the port of each of the first starts. Their supervisors do not listen.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.planted: list[Callable[[int], object]] = []
        self.ports: list[int] = []
        self.supervisors: list[subprocess.Popen[str]] = []
        monkeypatch.setattr(EmbeddedAirflow, "_start_supervisor", lambda _, port: self.start(port))
        monkeypatch.setattr(EmbeddedAirflow, "_cancel_interrupted_runs", lambda *_: None)
        monkeypatch.setattr(embedded_airflow, "_is_healthy", lambda _: True)

    def start(self, port: ReservedPort) -> AirflowSession:
        listen = f"server = socket.create_server(('127.0.0.1', {port.number})); "
        if self.planted:
            self.planted.pop(0)(port.number)
            listen = ""
        process = subprocess.Popen(
            [sys.executable, "-c", f"import socket, time; {listen}print(flush=True); time.sleep(600)"],
            stdout=subprocess.PIPE,
            start_new_session=True,
            pass_fds=[port.descriptor],
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline()
        self.ports.append(port.number)
        self.supervisors.append(process)
        return AirflowSession(pid=process.pid, created=read_start(process.pid), port=port.number)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInStarts]:
    monkeypatch.setenv("AIRFLOW__API__PORT", "0")
    starts = StandInStarts(monkeypatch)
    yield starts
    for process in starts.supervisors:
        process.kill()
        process.communicate()


def test_a_port_that_another_program_takes_before_airflow_listens_is_given_up_for_another_one(
    settings: Settings, starts: StandInStarts, foreign: ForeignServers
) -> None:
    starts.planted.append(foreign.start)
    sentences: list[str] = []
    url = EmbeddedAirflow(settings, sentences.append).start()
    lost, taken = starts.ports
    assert url == f"http://127.0.0.1:{taken}"
    assert lost != taken
    assert sentences[1].startswith(f"port {lost} is answered by process {foreign.processes[0].pid} of ")
    assert sentences[1].endswith("and not by this Airflow; Airflow starts again on another port")
    assert [supervisor.poll() is None for supervisor in starts.supervisors] == [False, True]


def test_a_port_that_is_in_use_without_a_listener_is_given_up_too(settings: Settings, starts: StandInStarts) -> None:
    log = settings.airflow_home / "logs" / "api-server.log"
    log.parent.mkdir(parents=True)
    line = "[Errno 98] error while attempting to bind on address ('127.0.0.1', 1): address already in use\n"
    # Planted: an earlier start has left such a line, and the first one of this test appends one.
    log.write_text(line)
    starts.planted.append(lambda _: log.open("a").write(line))
    sentences: list[str] = []
    EmbeddedAirflow(settings, sentences.append).start()
    lost, taken = starts.ports
    assert lost != taken
    assert sentences[1] == (
        f"port {lost} was taken before Airflow listened there; Airflow starts again on another port"
    )


def test_a_start_that_loses_three_ports_ends_with_the_last_ones_listener(
    settings: Settings, starts: StandInStarts, foreign: ForeignServers
) -> None:
    starts.planted = [foreign.start] * 3
    with pytest.raises(MachineError, match=r"is answered by process .*, and not by this Airflow$"):
        EmbeddedAirflow(settings).start()
    assert len(set(starts.ports)) == 3
    assert all(supervisor.poll() is not None for supervisor in starts.supervisors)


def test_the_port_of_a_running_airflow_stays_reserved_until_it_ends(settings: Settings, starts: StandInStarts) -> None:
    EmbeddedAirflow(settings).start()
    with reserve_port(starts.ports[0]) as port:
        assert port.number != starts.ports[0]
    starts.supervisors[0].kill()
    starts.supervisors[0].wait()
    with reserve_port(starts.ports[0]) as port:
        assert port.number == starts.ports[0]


def test_a_running_airflow_whose_port_somebody_else_answers_is_named_at_once(
    settings: Settings, foreign: ForeignServers
) -> None:
    """The foreign server refuses the password with 401, which was waited for during two minutes."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    other = foreign.start(port)
    supervisor = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        write_pid_file(
            settings, json.dumps({"pid": supervisor.pid, "created": read_start(supervisor.pid), "port": port})
        )
        airflow = EmbeddedAirflow(settings)
        assert not airflow.read_status().healthy
        began = time.monotonic()
        with pytest.raises(MachineError) as at_start:
            airflow.start()
        with pytest.raises(AirflowGoneError) as at_request:
            airflow.connect().list_unfinished_runs()
        assert time.monotonic() - began < 10
        assert supervisor.poll() is None
    finally:
        supervisor.kill()
        supervisor.wait()
    assert not at_request.value.ended
    for error in (at_start, at_request):
        assert str(error.value).startswith(f"port {port} is answered by process {other.pid} of ")
        assert str(Path.cwd()) in str(error.value)
    assert str(at_start.value).endswith("end this Airflow with `brokerproof airflow stop`")


@pytest.mark.parametrize(
    ("preferred", "line"),
    [
        ("8123", "starting Airflow (12 to 30 s)"),
        ("0", "starting Airflow (12 to 30 s)"),
        ("8124", "starting Airflow on port 8123, because 8124 is in use (12 to 30 s)"),
    ],
)
def test_a_start_on_another_port_than_the_preferred_one_is_announced(
    monkeypatch: pytest.MonkeyPatch, preferred: str, line: str
) -> None:
    monkeypatch.setenv("AIRFLOW__API__PORT", preferred)
    assert embedded_airflow._describe_start(8123) == line


@pytest.mark.parametrize("value", ["x", "-1", "65536", "8080.5", "8080 "])
def test_a_port_that_is_none_is_refused_with_its_variable_and_a_remedy(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("AIRFLOW__API__PORT", value)
    with pytest.raises(InputError) as error:
        EmbeddedAirflow(settings).start()
    assert str(error.value) == (
        f"AIRFLOW__API__PORT: `{value}` is no port (write a whole number from 1 to 65535, or unset the variable)"
    )
    assert not EmbeddedAirflow(settings).read_status().running


def test_an_airflow_whose_starter_was_killed_before_it_was_recorded_is_ended(settings: Settings) -> None:
    leader = (
        "import subprocess, sys, time;"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True);"
        "time.sleep(600)"
    )
    started = start_process(
        [sys.executable, "-c", leader],
        mark=Mark(settings.airflow_home, "airflow"),
        variable=SERVICE_MARK,
        record=settings.airflow_home / "supervisor.json",
        log=settings.airflow_home / "supervisor.log",
        environment=os.environ,
    )
    # A process that a task started to outlive Airflow, such as a run's monitor.
    monitor = start_process(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        mark=Mark(settings.runs / "r", "monitor"),
        record=settings.runs / "r" / "monitor.json",
        log=settings.runs / "r" / "monitor.log",
        environment={**os.environ, SERVICE_MARK: str(Mark(settings.airflow_home, "airflow"))},
    )
    try:
        log = settings.airflow_home / "supervisor.log"
        wait_until(lambda: log.read_text().strip(), timeout_s=30, what="the leader to start a member")
        member = psutil.Process(int(log.read_text()))
        (settings.airflow_home / "supervisor.json").unlink()
        assert not EmbeddedAirflow(settings).read_status().running
        assert EmbeddedAirflow(settings).stop()
        assert not psutil.pid_exists(started.pid)
        assert not member.is_running() or member.status() == psutil.STATUS_ZOMBIE
        assert monitor.poll() is None
        assert not EmbeddedAirflow(settings).stop()
    finally:
        for process in (started, monitor):
            process.kill()
            process.wait()


def test_airflow_has_the_settings_of_its_starter_and_finds_the_users_modules(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "log=logserver.system:LOG")
    monkeypatch.setenv("BROKERPROOF_CACHE", "somewhere")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    settings = from_environment()
    settings.airflow_home.mkdir(parents=True)
    environment = build_airflow_environment(settings, 1)
    assert from_environment(environment) == settings
    assert environment["BROKERPROOF_CACHE"] == str(Path("somewhere").resolve())
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(settings.plugins), str(settings.spark_jobs), "/mine"]


@pytest.mark.parametrize("name", ["SCENARIOS", "TOPOLOGIES", "EXPECTATIONS"])
def test_an_airflow_with_a_run_and_other_directories_is_refused(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    airflow = StandInAirflow(settings.airflow_home, lambda *_: None)
    airflow.dag_runs = [{"dag_id": "nightly", "dag_run_id": "nightly-1"}]
    try:
        assert EmbeddedAirflow(settings).start()
        monkeypatch.setenv(f"BROKERPROOF_{name}", f"{tmp_path}/mine:")
        with pytest.raises(InputError) as error:
            EmbeddedAirflow(from_environment()).start()
        assert EmbeddedAirflow(settings).find_url() == airflow.url
    finally:
        airflow.close()
    for fact in (f"BROKERPROOF_{name}:", "nightly-1", str(getattr(settings, name.lower()).paths[0]), "airflow stop"):
        assert fact in str(error.value)


def test_an_idle_airflow_with_other_directories_is_started_again(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    airflow = StandInAirflow(settings.airflow_home, lambda *_: None)
    sentences: list[str] = []
    monkeypatch.setenv("BROKERPROOF_SCENARIOS", f"{tmp_path}/mine:")

    class StartedError(Exception):
        pass

    def start(self: EmbeddedAirflow, port: int) -> AirflowSession:
        assert self.find_url() is None
        raise StartedError

    monkeypatch.setattr(EmbeddedAirflow, "_start_supervisor", start)
    try:
        with pytest.raises(StartedError):
            EmbeddedAirflow(from_environment(), sentences.append).start()
    finally:
        airflow.close()
    assert "idle" in sentences[0]
    assert "BROKERPROOF_SCENARIOS" in sentences[0]


def test_the_environment_has_the_port_of_the_api_server(settings: Settings) -> None:
    settings.airflow_home.mkdir(parents=True)
    environment = build_airflow_environment(settings, 8123)
    assert environment["AIRFLOW__API__PORT"] == "8123"
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:8123/execution/"


def test_the_users_spark_connection_wins(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.airflow_home.mkdir(parents=True)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://master:7077")
    assert build_airflow_environment(settings, 1)["AIRFLOW_CONN_SPARK_DEFAULT"] == "spark://master:7077"


def test_a_scheduler_that_ended_after_its_supervisor_is_missed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = (
        "import subprocess, sys, time; "
        "command = [sys.executable, '-c', 'import time; time.sleep(600)', 'airflow scheduler']; "
        "print(subprocess.Popen(command).pid, flush=True); "
        "time.sleep(600)"
    )
    supervisor = subprocess.Popen(
        [sys.executable, "-c", starts], start_new_session=True, stdout=subprocess.PIPE, text=True
    )
    assert supervisor.stdout is not None
    scheduler = psutil.Process(int(supervisor.stdout.readline()))
    airflow = EmbeddedAirflow(settings)
    airflow.check_scheduler()
    created = read_start(supervisor.pid)
    write_pid_file(settings, json.dumps({"pid": supervisor.pid, "created": created, "port": 1}))
    try:
        airflow.check_scheduler()
        supervisor.kill()
        supervisor.wait()
        airflow.check_scheduler()
        # Nobody knows of a process what it is before its program is loaded.
        wait_until(scheduler.cmdline, timeout_s=10, what="the scheduler's program to be loaded")
        for starting in ([], ["python", "-m", "brokerproof.orchestration.embedded.airflow_supervisor"]):
            with monkeypatch.context() as loading:
                loading.setattr(psutil.Process, "cmdline", lambda _, command=starting: command)
                airflow.check_scheduler()
        with monkeypatch.context() as another:
            another.setattr(psutil.Process, "cmdline", lambda _: ["airflow api_server -- port:8080", ""])
            with pytest.raises(AirflowGoneError):
                airflow.check_scheduler()
    finally:
        supervisor.kill()
        scheduler.kill()
    ended = lambda: not scheduler.is_running() or scheduler.status() == psutil.STATUS_ZOMBIE  # noqa: E731
    wait_until(ended, timeout_s=10, what="the scheduler to end")
    with pytest.raises(AirflowGoneError, match="so has the supervisor"):
        airflow.check_scheduler()


def test_nothing_is_started_on_a_machine_of_another_airflow(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "http://api-server:8080/execution/")
    with pytest.raises(InputError, match="start the run in the pages of that Airflow"):
        EmbeddedAirflow(settings).start()
    assert not settings.airflow_home.exists()
