"""Slots: no two runs in one address range, and the kernel frees the slot of whoever dies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokerproof.errors import MachineError
from brokerproof.machine import slots

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_LEASES", str(tmp_path / "leases"))
    monkeypatch.setenv("BROKERPROOF_MAX_CLUSTERS", "2")


@pytest.fixture
def monitors() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def begin(run: Path) -> tuple[int, subprocess.Popen[bytes]]:
    """Take a slot as a run does: the number, and the process that stands for its monitor."""
    with slots.take(timeout_s=1) as slot:
        slot.assign(str(run))
        return slot.number, subprocess.Popen(SLEEPER, pass_fds=[slot.descriptor])


def test_two_live_runs_get_two_slots_and_a_third_has_to_wait(
    tmp_path: Path, monitors: list[subprocess.Popen[bytes]]
) -> None:
    taken = []
    for name in ("a", "b"):
        number, monitor = begin(tmp_path / name)
        taken.append(number)
        monitors.append(monitor)
    assert taken == [0, 1]
    assert slots.list_assigned_runs() == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert slots.are_all_held()
    with pytest.raises(MachineError, match=r"all 2 slots.*brokerproof down"):
        slots.take(timeout_s=0.1)


def test_a_slot_is_free_as_soon_as_its_monitor_died_and_names_the_run_that_it_had(tmp_path: Path) -> None:
    _, monitor = begin(tmp_path / "dead")
    monitor.kill()
    monitor.wait()
    with slots.take(timeout_s=0) as slot:
        assert (slot.number, slot.runs) == (0, [str(tmp_path / "dead")])


def test_a_slot_that_was_given_back_names_no_run(tmp_path: Path) -> None:
    _, monitor = begin(tmp_path / "a")
    assert slots.take_from_run(str(tmp_path / "a"), timeout_s=0.1) is None
    monitor.kill()
    monitor.wait()
    slot = slots.take_from_run(str(tmp_path / "a"), timeout_s=5)
    assert slot is not None
    with slot:
        slot.clear()
    assert slots.list_assigned_runs() == []
    with slots.take(timeout_s=0) as slot:
        assert slot.runs == []


def test_a_run_whose_slot_another_one_took_gets_it_back_no_more(
    tmp_path: Path, monitors: list[subprocess.Popen[bytes]]
) -> None:
    _, monitor = begin(tmp_path / "dead")
    monitor.kill()
    monitor.wait()
    monitors.append(begin(tmp_path / "next")[1])
    assert slots.take_from_run(str(tmp_path / "dead"), timeout_s=5) is None
    assert slots.list_assigned_runs() == [str(tmp_path / "next")]


def test_a_run_whose_slot_another_one_took_and_left_meanwhile_gets_it_back_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the record and the lock."""
    _, monitor = begin(tmp_path / "dead")
    monitor.kill()
    monitor.wait()
    lock = slots._lock

    def lock_late(number: int) -> slots.Slot | None:
        with slots.take(timeout_s=0) as slot:
            slot.assign(str(tmp_path / "next"))
        return lock(number)

    with monkeypatch.context() as patch:
        patch.setattr(slots, "_lock", lambda number: (patch.undo(), lock_late(number))[1])
        assert slots.take_from_run(str(tmp_path / "dead"), timeout_s=0) is None
    assert slots.list_assigned_runs() == [str(tmp_path / "next")]
    assert not slots.are_all_held()


def test_a_slot_is_held_without_a_gap_from_its_taker_to_the_monitor(
    tmp_path: Path, monitors: list[subprocess.Popen[bytes]]
) -> None:
    with slots.take(timeout_s=0) as slot:
        assert slots._lock(slot.number) is None
        monitors.append(subprocess.Popen(SLEEPER, pass_fds=[slot.descriptor]))
    assert slots._lock(0) is None


def test_a_process_that_the_taker_starts_besides_does_not_hold_its_slot(
    tmp_path: Path, monitors: list[subprocess.Popen[bytes]]
) -> None:
    with slots.take(timeout_s=0) as slot:
        monitors.append(subprocess.Popen(SLEEPER))
    with slots.take(timeout_s=0) as again:
        assert again.number == slot.number


def test_a_slot_whose_taker_was_killed_is_free(tmp_path: Path) -> None:
    code = f"""
import os
from brokerproof.machine import slots
slots.take(timeout_s=1).assign({str(tmp_path / "a")!r})
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    with slots.take(timeout_s=0) as slot:
        assert (slot.number, slot.runs) == (0, [str(tmp_path / "a")])


def test_asking_whether_slots_are_held_takes_none(tmp_path: Path) -> None:
    assert not slots.are_all_held()
    with slots.take(timeout_s=0), slots.take(timeout_s=0):
        assert slots.are_all_held()
        assert slots.are_all_held()
    assert not slots.are_all_held()


def test_no_process_of_the_machine_is_looked_at(
    tmp_path: Path, monitors: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are: a lock is asked of the kernel."""
    monkeypatch.setattr("psutil.process_iter", lambda *_, **__: pytest.fail("all processes were looked at"))
    monitors.append(begin(tmp_path / "a")[1])
    assert slots.list_assigned_runs() == [str(tmp_path / "a")]
    assert not slots.are_all_held()
    assert slots.take_from_run(str(tmp_path / "a"), timeout_s=0) is None


def test_the_directory_of_slots_is_nobody_elses(tmp_path: Path) -> None:
    assert slots.directory().parent.stat().st_mode & 0o077 == 0


def test_a_directory_of_slots_that_is_another_users_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.raises(MachineError, match="belongs to another user; set BROKERPROOF_LEASES"):
        slots.directory()


def test_the_runs_that_hold_slots_are_listed_until_they_die(
    tmp_path: Path, monitors: list[subprocess.Popen[bytes]]
) -> None:
    _, monitor = begin(tmp_path / "run")
    monitors.append(monitor)
    assert slots.list_held_runs() == [str(tmp_path / "run")]
    monitor.kill()
    monitor.wait()
    assert slots.list_held_runs() == []
    assert slots.list_assigned_runs() == [str(tmp_path / "run")]
