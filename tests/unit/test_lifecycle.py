"""A run begins with a slot that its monitor holds, and ends, or dies, without leaving anything. No node is started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from brokerproof import lifecycle
from brokerproof.errors import MachineError, RunError
from brokerproof.machine import slots
from brokerproof.machine.processes import (
    Mark,
    end_processes,
    find_marked_processes,
    find_recorded_process,
    read_mark,
    start_process,
)
from brokerproof.run.directory import Run

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("BROKERPROOF_LEASES", str(tmp_path / "leases"))
    monkeypatch.setenv("BROKERPROOF_MAX_CLUSTERS", "1")
    yield
    end_processes(find_marked_processes(tmp_path))


@pytest.fixture
def begin(tmp_path: Path) -> Callable[..., Run]:
    def begin(name: str, **options: Any) -> Run:
        return lifecycle.reserve(
            ROOT / "dags" / "scenarios" / "sync_nominal.yaml",
            directory=str(tmp_path / name),
            run_id=name,
            topologies=ROOT / "topologies",
            **options,
        )

    return begin


def begin_and_be_killed(directory: Path) -> None:
    """Begin a run in a process that is killed right after it."""
    code = f"""
import os, signal
from pathlib import Path
from typing import Any
from brokerproof import lifecycle
root = Path({str(ROOT)!r})
lifecycle.reserve(
    root / "dags/scenarios/sync_nominal.yaml", directory={str(directory)!r}, run_id="r", topologies=root / "topologies"
)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL


def processes(run: Path) -> list[str]:
    return sorted(mark.name for process in find_marked_processes(run) if (mark := read_mark(process)) is not None)


def start_node(run: Path) -> psutil.Process:
    """What stands for a node of a run, with something stored."""
    process = start_process(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        mark=Mark(run / "nodes", "n1"),
        record=run / "nodes" / "n1" / "pid.json",
        log=run / "nodes" / "n1" / "log" / "node.log",
        environment=os.environ,
    )
    (run / "nodes" / "n1" / "node.json").write_text('{"data": ["data"]}')
    (run / "nodes" / "n1" / "data").mkdir()
    (run / "nodes" / "n1" / "data" / "x").write_text("message")
    return psutil.Process(process.pid)


def test_a_run_whose_starter_is_killed_keeps_its_slot_as_long_as_its_monitor_lives(
    tmp_path: Path, begin: Callable[..., Run]
) -> None:
    begin_and_be_killed(tmp_path / "run")
    assert processes(tmp_path / "run") == ["monitor"]
    assert slots.are_all_held()
    with pytest.raises(MachineError, match="all 1 slots"):
        begin("next", slot_timeout_s=0.1)
    assert not (tmp_path / "next").exists()


def test_the_run_after_one_that_died_takes_its_slot_and_ends_what_it_left(
    tmp_path: Path, begin: Callable[..., Run]
) -> None:
    begin_and_be_killed(tmp_path / "dead")
    node = start_node(tmp_path / "dead")
    monitor = find_recorded_process(tmp_path / "dead" / "monitor.json")
    assert monitor is not None
    monitor.kill()
    psutil.wait_procs([monitor], timeout=10)
    assert processes(tmp_path / "dead") == ["n1"]
    following = begin("next")
    assert following.facts.slot == 0
    assert processes(tmp_path / "dead") == []
    assert not node.is_running() or node.status() == psutil.STATUS_ZOMBIE
    assert not (tmp_path / "dead" / "nodes" / "n1" / "data").exists()
    assert (tmp_path / "dead" / "nodes" / "n1" / "log").exists()


def test_release_ends_the_monitor_and_the_nodes_and_gives_the_slot_back(
    tmp_path: Path, begin: Callable[..., Run]
) -> None:
    run = begin("run")
    assert slots.list_runs() == [run.directory]
    start_node(tmp_path / "run")
    assert lifecycle.release(run) == ["n1"]
    assert processes(tmp_path / "run") == []
    assert slots.list_runs() == []
    assert not slots.are_all_held()


def test_release_ends_a_monitor_that_does_not_go(tmp_path: Path, begin: Callable[..., Run]) -> None:
    run = begin("run")
    monitor = find_recorded_process(tmp_path / "run" / "monitor.json")
    assert monitor is not None
    monitor.suspend()
    assert lifecycle.release(run, monitor_timeout_s=0.3) == ["monitor"]
    assert slots.list_runs() == []
    assert not slots.are_all_held()


def test_a_run_that_cannot_begin_leaves_the_slot_to_the_next(tmp_path: Path, begin: Callable[..., Run]) -> None:
    lifecycle.release(begin("run"))
    with pytest.raises(RunError, match="holds a run already"):
        begin("run")
    assert not slots.are_all_held()
    begin("next")


def test_down_ends_everything_of_every_run_and_frees_all_slots(tmp_path: Path, begin: Callable[..., Run]) -> None:
    begin("run")
    start_node(tmp_path / "run")
    # Without a directory it ends what other tests and people run on this machine as well.
    assert sorted(lifecycle.down(tmp_path)) == ["monitor", "n1"]
    assert processes(tmp_path) == []
    assert slots.list_runs() == []
    assert not slots.are_all_held()
    assert not (tmp_path / "run" / "nodes" / "n1" / "data").exists()


def test_down_finds_what_no_record_names(tmp_path: Path) -> None:
    """As when a starter is killed right after it started a node, and the slots' directory is lost."""
    start_node(tmp_path / "run")
    (tmp_path / "run" / "nodes" / "n1" / "pid.json").unlink()
    assert lifecycle.down(tmp_path) == ["n1"]
    assert processes(tmp_path) == []
