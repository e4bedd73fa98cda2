from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from brokerproof.orchestration import embedded_airflow
from brokerproof.orchestration.airflow_environment import build_airflow_environment
from brokerproof.orchestration.airflow_session import AirflowSession
from brokerproof.orchestration.embedded_airflow import EmbeddedAirflow
from brokerproof.settings import Settings, from_environment


@pytest.fixture
def settings(scenarios: Path) -> Settings:
    return from_environment()


def write_pid_file(settings: Settings, content: str) -> None:
    settings.airflow_home.mkdir(parents=True)
    (settings.airflow_home / "supervisor.json").write_text(content)


def test_a_pid_file_of_a_dead_process_means_that_nothing_runs(settings: Settings) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    write_pid_file(settings, json.dumps({"pid": gone.pid, "created": 1.0, "port": 1}))
    assert not EmbeddedAirflow(settings).read_status().running
    assert not EmbeddedAirflow(settings).stop()


def test_a_process_under_a_recycled_pid_is_left_alone(settings: Settings) -> None:
    """The pid file names a process that lived an hour before the one that has its pid now."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        created = psutil.Process(other.pid).create_time() - 3600
        write_pid_file(settings, json.dumps({"pid": other.pid, "created": created, "port": 1}))
        assert not EmbeddedAirflow(settings).read_status().running
        assert not EmbeddedAirflow(settings).stop()
        assert other.poll() is None
    finally:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()


def test_a_pid_file_that_a_crash_cut_short_means_that_nothing_runs(settings: Settings) -> None:
    write_pid_file(settings, '{"pid": 1')
    assert not EmbeddedAirflow(settings).read_status().running


def test_members_are_found_after_their_leader_died(settings: Settings) -> None:
    code = (
        "import os, subprocess, sys;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], process_group=0);"
        "print(child.pid, flush=True)"
    )
    leader = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE, text=True)
    created = psutil.Process(leader.pid).create_time()
    assert leader.stdout is not None
    child = int(leader.stdout.readline())
    leader.wait()
    try:
        members = AirflowSession(pid=leader.pid, created=created, port=1).list_members()
        assert [member.pid for member in members] == [child]
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_taken_port_is_left_to_its_owner(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setenv("AIRFLOW__API__PORT", str(port))
        assert embedded_airflow._find_free_port() != port


def test_tasks_find_airflow_at_its_port(settings: Settings) -> None:
    settings.airflow_home.mkdir(parents=True)
    environment = build_airflow_environment(settings, 8123)
    assert environment["AIRFLOW__API__PORT"] == "8123"
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:8123/execution/"


def test_the_user_s_spark_connection_wins(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.airflow_home.mkdir(parents=True)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://master:7077")
    assert build_airflow_environment(settings, 1)["AIRFLOW_CONN_SPARK_DEFAULT"] == "spark://master:7077"
