"""A disk without room for a run is said before anything starts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from brokerproof import lifecycle
from brokerproof.errors import MachineError
from brokerproof.machine import slots
from brokerproof.machine.files import check_disk_space
from builders import load_shipped

GB = 2**30


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], None]:
    def of(total_gb: float, free_gb: float) -> None:
        usage = SimpleNamespace(total=total_gb * GB, free=free_gb * GB)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)

    return of


@pytest.mark.parametrize(("total", "free"), [(100, 3.9), (1000, 12.9), (20, 0)])
def test_what_bookies_would_not_use_is_no_room(tmp_path: Path, disk: Callable, total: float, free: float) -> None:
    disk(total, free)
    with pytest.raises(MachineError, match="GB, and a run needs 3"):
        check_disk_space(tmp_path / "not" / "there" / "yet")


@pytest.mark.parametrize(("total", "free"), [(100, 4.1), (1000, 13.1)])
def test_what_is_enough_is_enough(tmp_path: Path, disk: Callable, total: float, free: float) -> None:
    disk(total, free)
    check_disk_space(tmp_path / "not" / "there" / "yet")


def test_a_run_without_room_takes_no_slot_and_makes_no_directory(
    tmp_path: Path, disk: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERPROOF_LEASES", str(tmp_path / "leases"))
    scenario, topology = load_shipped("sync_nominal")
    disk(100, 2)
    with pytest.raises(MachineError, match=r"room for 1\.0 GB, and a run needs 3; free some, or set"):
        lifecycle.reserve(scenario, topology, directory=str(tmp_path / "run"), run_id="r")
    assert not (tmp_path / "run").exists()
    assert slots.list_assigned_runs() == []
    assert not list(slots.directory().iterdir())
