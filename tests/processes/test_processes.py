"""Processes that outlive their starter: found by their record, by their mark, and never mistaken for another one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from brokerproof.clock import wait_until
from brokerproof.errors import MachineError
from brokerproof.machine.processes import (
    MARK,
    SERVICE_MARK,
    Mark,
    end_processes,
    find_marked_processes,
    find_process,
    find_recorded_process,
    read_environment,
    read_mark,
    read_start,
    start_process,
)

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


@pytest.fixture(autouse=True)
def ended(tmp_path: Path) -> Iterator[None]:
    yield
    end_processes(find_marked_processes(tmp_path))


def start(directory: Path, name: str = "node", command: list[str] = SLEEPER) -> psutil.Process:
    process = start_process(
        command,
        mark=Mark(directory, name),
        record=directory / f"{name}.json",
        log=directory / "logs" / f"{name}.log",
        environment={"PATH": os.environ["PATH"]},
    )
    started = psutil.Process(process.pid)
    # Linux closes the pipe that tells the starter of the new program a moment before the program has its environment.
    wait_until(lambda: read_mark(started) is not None, timeout_s=5, what="the environment of the process")
    return started


def test_a_process_is_found_by_its_record_and_by_its_mark(tmp_path: Path) -> None:
    process = start(tmp_path / "run")
    assert find_recorded_process(tmp_path / "run" / "node.json") == process
    assert read_mark(process) == Mark(tmp_path / "run", "node")
    assert list(find_marked_processes(tmp_path)) == [process]
    assert process in list(find_marked_processes())


def test_a_process_leads_a_session_of_its_own_and_its_output_is_kept(tmp_path: Path) -> None:
    process = start(tmp_path / "run")
    assert os.getsid(process.pid) == process.pid
    log = tmp_path / "run" / "logs" / "node.log"
    wait_until(lambda: log.read_text() == "up\n", timeout_s=30, what="the first words of the process")


def test_a_process_without_a_record_is_found_by_its_mark_alone(tmp_path: Path) -> None:
    """As when its starter is killed between its start and its record."""
    process = start(tmp_path / "run")
    (tmp_path / "run" / "node.json").unlink()
    assert find_recorded_process(tmp_path / "run" / "node.json") is None
    assert list(find_marked_processes(tmp_path)) == [process]
    assert end_processes(find_marked_processes(tmp_path)) == ["node"]
    assert list(find_marked_processes(tmp_path)) == []


def test_a_record_that_cannot_be_written_leaves_a_process_that_its_mark_finds(tmp_path: Path) -> None:
    (tmp_path / "run" / "node.json").mkdir(parents=True)
    with pytest.raises(MachineError, match=r"node\.json cannot be written"):
        start(tmp_path / "run")
    assert end_processes(find_marked_processes(tmp_path / "run")) == ["node"]


def test_what_belongs_to_a_directory_below_belongs_to_a_run_and_its_namesake_does_not(tmp_path: Path) -> None:
    node, other = start(tmp_path / "run-1" / "nodes"), start(tmp_path / "run-10" / "nodes")
    assert list(find_marked_processes(tmp_path / "run-1")) == [node]
    assert list(find_marked_processes(tmp_path / "run-10")) == [other]


def test_a_mark_of_another_kind_is_another_mark(tmp_path: Path) -> None:
    start_process(
        SLEEPER,
        mark=Mark(tmp_path, "server"),
        record=tmp_path / "server.json",
        log=tmp_path / "server.log",
        environment={},
        variable="BROKERPROOF_OF_THIS_TEST",
    )
    (server,) = find_marked_processes(tmp_path, variable="BROKERPROOF_OF_THIS_TEST")
    assert list(find_marked_processes(tmp_path)) == []
    server.kill()
    server.wait()


def test_the_starters_own_marks_do_not_pass_on(tmp_path: Path) -> None:
    """A task of Airflow starts a run's monitor, which is no process of Airflow's."""
    process = start_process(
        SLEEPER,
        mark=Mark(tmp_path / "run", "monitor"),
        record=tmp_path / "monitor.json",
        log=tmp_path / "log",
        environment={**os.environ, SERVICE_MARK: str(Mark(tmp_path, "airflow")), MARK: str(Mark(tmp_path, "node"))},
    )
    assert list(find_marked_processes(tmp_path, variable=SERVICE_MARK)) == []
    assert read_mark(psutil.Process(process.pid)) == Mark(tmp_path / "run", "monitor")


def test_a_starter_that_is_killed_takes_no_process_with_it(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from brokerproof.machine.processes import Mark, start_process
here = Path({str(tmp_path)!r})
start_process({SLEEPER!r}, mark=Mark(here, "node"), record=here / "node.json", log=here / "log", environment=os.environ)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert find_recorded_process(tmp_path / "node.json") is not None


def test_another_process_under_a_recorded_pid_is_not_the_one(tmp_path: Path) -> None:
    (tmp_path / "node.json").write_text(json.dumps({"pid": os.getpid(), "created": 1.0}))
    assert find_recorded_process(tmp_path / "node.json") is None


def test_ending_processes_ends_those_that_ignore_everything_else(tmp_path: Path) -> None:
    stubborn = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    process = start(tmp_path, command=[sys.executable, "-c", stubborn])
    assert end_processes([process]) == ["node"]
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_this_process_is_not_among_the_marked(tmp_path: Path) -> None:
    code = "import sys; from brokerproof.machine.processes import find_marked_processes; from pathlib import Path; "
    code += f"sys.exit(len(list(find_marked_processes(Path({str(tmp_path)!r})))))"
    environment = {**os.environ, MARK: str(Mark(tmp_path, "node"))}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_a_process_is_itself_though_the_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    me, created = psutil.Process(), read_start(os.getpid())
    # The time of day of the boot is in whole seconds, and follows the clock.
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: 1.0)
    assert psutil.Process().create_time() < 1e9
    assert find_process(me.pid, created) == me


@pytest.mark.parametrize("earlier_s", [0.01, 3600.0])
def test_another_one_under_its_pid_is_not(earlier_s: float) -> None:
    assert find_process(os.getpid(), read_start(os.getpid()) - earlier_s) is None


def test_the_start_of_a_process_that_is_not_there_is_not_told() -> None:
    with pytest.raises(psutil.NoSuchProcess):
        read_start(2**22 + 1)


def test_one_that_ended_is_not_even_before_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = psutil.Process(child.pid)
    created = read_start(process.pid)
    assert find_process(child.pid, created) == process
    child.kill()
    deadline = time.monotonic() + 10
    while process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.01)
    assert find_process(child.pid, created) is None
    # It is reaped by now, so that nothing has its pid any more.
    assert not psutil.pid_exists(child.pid)
    child.communicate()


def test_the_environment_of_a_process_that_begins_its_program_is_not_read_as_empty() -> None:
    """Of 3,000 environments that were read at once, the kernel showed 98 as empty."""
    for _ in range(300):
        process = psutil.Popen(["/bin/sleep", "60"], env={MARK: "/run|node"})
        try:
            assert read_environment(process) == {MARK: "/run|node"}
        finally:
            process.kill()
            process.wait()


def test_an_environment_that_is_empty_is_read_at_once() -> None:
    process = psutil.Popen(["/bin/sleep", "60"], env={})
    try:
        began = time.monotonic()
        assert read_environment(process) == {}
        assert time.monotonic() - began < 1
    finally:
        process.kill()
        process.wait()
