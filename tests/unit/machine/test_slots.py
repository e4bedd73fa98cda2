"""Slots: no two runs in one address range, and nothing left behind by a dead one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from brokerproof.errors import MachineError
from brokerproof.machine import slots
from brokerproof.runtimes.processes import MARK


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_LEASES", str(tmp_path / "leases"))
    monkeypatch.setenv("BROKERPROOF_MAX_CLUSTERS", "2")


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def process_of(run: Path, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, MARK: f"{run / 'nodes'}|{name}"}
    )


def test_two_live_runs_get_two_slots_and_a_third_is_told_to_wait(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    runs = [tmp_path / "a", tmp_path / "b"]
    taken = []
    for run in runs:
        taken.append(slots.take(str(run), timeout_s=1))
        processes.append(process_of(run, "keeper"))
        slots.confirm(str(run))
    assert sorted(taken) == [0, 1]
    with pytest.raises(MachineError, match=r"all 2 slots.*brokerproof down"):
        slots.take(str(tmp_path / "c"), timeout_s=0.1)
    slots.give_back(str(runs[1]))
    assert slots.take(str(tmp_path / "c"), timeout_s=1) == taken[1]


def test_a_slot_whose_keeper_died_is_taken_over_and_its_nodes_are_ended(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    dead = tmp_path / "dead"
    slots.take(str(dead), timeout_s=1)
    slots.confirm(str(dead))
    node = process_of(dead, "broker-eu-1")
    processes.append(node)
    assert slots.take(str(tmp_path / "next"), timeout_s=1) == 0
    assert not psutil.pid_exists(node.pid) or psutil.Process(node.pid).status() == psutil.STATUS_ZOMBIE


def test_a_slot_that_is_being_taken_is_nobody_elses(tmp_path: Path) -> None:
    assert slots.take(str(tmp_path / "a"), timeout_s=1) == 0
    assert slots.take(str(tmp_path / "b"), timeout_s=1) == 1


def test_a_slot_whose_taker_was_killed_is_free(tmp_path: Path) -> None:
    taken = f"slots.take({str(tmp_path / 'a')!r}, timeout_s=1)"
    code = f"import os; from brokerproof.machine import slots; {taken}; os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert slots.take(str(tmp_path / "b"), timeout_s=1) == 0


def test_a_run_is_not_taken_for_one_whose_name_it_begins_with(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    processes.append(process_of(tmp_path / "run-10", "keeper"))
    assert slots.keeper_alive(str(tmp_path / "run-10"))
    assert not slots.keeper_alive(str(tmp_path / "run-1"))


def test_the_directory_of_slots_is_nobody_elses(tmp_path: Path) -> None:
    assert slots.directory().stat().st_mode & 0o077 == 0
