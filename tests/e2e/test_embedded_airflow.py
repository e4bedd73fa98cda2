"""The embedded Airflow itself: who may talk to it, what it leaves, what it survives."""

from __future__ import annotations

import os
import signal
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest
from brokerproof.clock import wait_until
from brokerproof.errors import InputError
from brokerproof.orchestration.embedded.embedded_airflow import EmbeddedAirflow
from foreign_server import run_foreign_servers
from installation import Installation, lay_out_log_server


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody asks for its exit status does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_two_starters_at_once_start_one(installation: Installation) -> None:
    installation.airflow.stop()
    with ThreadPoolExecutor() as pool:
        urls = set(pool.map(lambda _: installation.airflow.start(), range(2)))
    assert len(urls) == 1
    assert installation.airflow.read_status().healthy


def test_it_shows_a_dag_for_each_scenario(running: Installation) -> None:
    client = running.client()
    for name in ("nominal", "losing", "refusing", "endless", "campaign"):
        client.wait_for_dag(name)


def test_a_broken_scenario_is_named_and_takes_no_other_down(running: Installation) -> None:
    file = running.scenarios / "broken.yaml"
    file.write_text("title: [")
    try:
        client = running.client()
        with pytest.raises(InputError, match=r"broken\.yaml: line 1: not valid YAML"):
            client.wait_for_dag("broken")
        running.add_scenario("made_later")
        client.wait_for_dag("made_later")
    finally:
        file.unlink()


@pytest.mark.parametrize("path", ["/api/v2/dags", "/api/v2/connections", "/api/v2/dags/nominal/dagRuns"])
def test_nobody_is_let_in_without_a_password(running: Installation, path: str) -> None:
    assert httpx.get(running.airflow.read_status().url + path, timeout=60).status_code == 401


def test_the_usual_password_is_wrong(running: Installation) -> None:
    url = running.airflow.read_status().url
    answer = httpx.post(f"{url}/auth/token", json={"username": "admin", "password": "admin"}, timeout=60)
    assert answer.status_code == 401


def test_secrets_are_for_their_owner_only(running: Installation) -> None:
    home = running.airflow.home
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    for name in ("passwords.json", "secrets.json"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600


def test_it_listens_on_loopback_only(running: Installation) -> None:
    addresses = set()
    for pid in running.airflow.read_status().pids:
        with suppress(psutil.NoSuchProcess):  # Airflow starts parsers of files and ends them again
            connections = psutil.Process(pid).net_connections("inet")
            addresses |= {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
    assert addresses == {"127.0.0.1"}


def test_password_and_keys_survive_a_restart(running: Installation) -> None:
    files = [running.airflow.home / name for name in ("passwords.json", "secrets.json")]
    before = [file.read_text() for file in files]
    running.airflow.stop()
    running.airflow.start()
    assert [file.read_text() for file in files] == before
    running.client().wait_for_dag("nominal")


def test_stopping_leaves_no_process(running: Installation) -> None:
    pids = running.airflow.read_status().pids
    assert len(pids) > 3
    assert running.airflow.stop()
    assert not [pid for pid in pids if alive(pid)]
    assert "Exiting gracefully" in running.airflow.scheduler_log.read_text()
    assert not running.airflow.read_status().running
    assert not running.airflow.stop()


def test_two_checkouts_that_start_at_once_get_two_ports(installation: Installation, tmp_path: Path) -> None:
    """Both prefer the same port, and a server of somebody else that answers 401 takes it from the one that gets it."""
    installation.airflow.stop()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        preferred = probe.getsockname()[1]
    leases = installation.environment["BROKERPROOF_LEASES"]
    other = lay_out_log_server(tmp_path, BROKERPROOF_LEASES=leases)
    sentences: list[str] = []
    with (
        run_foreign_servers() as foreign,
        pytest.MonkeyPatch.context() as patch,
        ThreadPoolExecutor() as pool,
    ):
        patch.setenv("AIRFLOW__API__PORT", str(preferred))

        def notify(sentence: str) -> None:
            sentences.append(sentence)
            # The start that has reserved the preferred port says so without naming the port.
            if sentence == "starting Airflow (12 to 30 s)" and not foreign.processes:
                foreign.start(preferred)

        try:
            starting = [pool.submit(EmbeddedAirflow(each.settings, notify).start) for each in (installation, other)]
            urls = [start.result() for start in starting]
            for each, url in zip((installation, other), urls, strict=True):
                assert each.airflow.read_status().healthy
                assert each.client().list_unfinished_runs() == []
                assert each.airflow.read_status().url == url
        finally:
            other.airflow.stop()
    assert len({*urls, f"http://127.0.0.1:{preferred}"}) == 3
    [lost] = [sentence for sentence in sentences if "is answered by process" in sentence]
    assert lost.startswith(f"port {preferred} is answered by process {foreign.processes[0].pid} of ")
    assert lost.endswith("and not by this Airflow; Airflow starts again on another port")


def test_a_component_that_died_comes_back(running: Installation) -> None:
    session = running.airflow.read_session()
    assert session is not None

    def find_scheduler() -> psutil.Process | None:
        children = psutil.Process(session.pid).children()
        living = (child for child in children if child.status() != psutil.STATUS_ZOMBIE)
        return next((child for child in living if "airflow scheduler" in " ".join(child.cmdline())), None)

    scheduler = find_scheduler()
    assert scheduler is not None
    scheduler.kill()
    wait_until(
        lambda: (found := find_scheduler()) is not None and found.pid != scheduler.pid,
        timeout_s=60,
        what="the scheduler to be started again",
    )
    assert session.is_supervised()


def test_after_the_supervisor_was_killed_start_replaces_what_it_left(running: Installation) -> None:
    session = running.airflow.read_session()
    assert session is not None
    left = [member.pid for member in session.list_members()]
    os.kill(session.pid, signal.SIGKILL)
    wait_until(lambda: not session.is_supervised(), timeout_s=10, what="the supervisor to die")
    running.airflow.start()
    assert running.airflow.read_status().healthy
    assert not [pid for pid in left if alive(pid)]


def test_after_the_supervisor_was_killed_stop_finds_what_it_left(running: Installation) -> None:
    session = running.airflow.read_session()
    assert session is not None
    os.kill(session.pid, signal.SIGKILL)
    wait_until(lambda: not session.is_supervised(), timeout_s=10, what="the supervisor to die")
    left = [member.pid for member in session.list_members()]
    assert left
    assert running.airflow.stop()
    assert not [pid for pid in left if alive(pid)]
