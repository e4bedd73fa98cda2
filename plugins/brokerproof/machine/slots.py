"""Slots: numbered ranges of this machine's addresses. A run needs one, and only one run at a time may use it.

A process holds a slot by a lease (leases.py). The run's monitor inherits the lease and lives until the run ends. A
record next to the lock file names the run, and the run whose nodes it uses if these are not its own. If a slot has a
record but no process holds it, the run has died. Its processes and containers must be ended before the slot is used
again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from brokerproof import clock
from brokerproof.errors import DeadlineError, MachineError
from brokerproof.machine import leases
from brokerproof.machine.files import write_whole
from brokerproof.settings import from_environment


def count_slots() -> int:
    """Return how many clusters may run at a time: `max_clusters` of the settings, or one per 6 GiB of memory."""
    given = from_environment().max_clusters
    return given or max(1, min(200, psutil.virtual_memory().total // (6 * 2**30)))


def directory() -> Path:
    """Return the directory of this user's slots. All checkouts share it, because they share the machine's addresses.

    Raises MachineError if the parent of this directory belongs to another user.
    """
    return leases.find_directory("slots")


class Slot:
    """A slot that this process holds until `close` or the end of a `with` block.

    A process that inherits `descriptor` holds the slot too, until it ends.
    """

    def __init__(self, number: int, record: Path, descriptor: int) -> None:
        self.number, self.descriptor = number, descriptor
        self._record = record

    @property
    def runs(self) -> list[str]:
        """The directories of the runs in the slot's record: the run that has the slot first; empty without a record."""
        return _read_runs(self._record)

    def assign(self, run_directory: str, *others: str) -> None:
        """Record that the slot belongs to a run, and which other runs' directories its nodes are in.

        The caller must have ended all processes of the slot's earlier runs, except those in `others`.
        """
        write_whole(self._record, json.dumps({"runs": [run_directory, *others]}))

    def clear(self) -> None:
        """Remove the record of the slot's runs, because all their processes have ended."""
        self._record.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the slot, unless another process inherited `descriptor`."""
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def take(*, timeout_s: float, excluded: Collection[int] = ()) -> Slot:
    """Wait until a slot whose number is not in `excluded` is free, and take it.

    Raises MachineError if no slot becomes free within `timeout_s` seconds.
    """

    def find_first_free() -> Slot | None:
        numbers = (number for number in range(count_slots()) if number not in excluded)
        return next((slot for number in numbers if (slot := _lock(number)) is not None), None)

    try:
        return clock.wait_until(find_first_free, timeout_s=timeout_s, what="a free slot", every_s=1.0)
    except DeadlineError:
        raise MachineError(
            f"all {count_slots()} slots of this machine are held by running clusters; wait for one, end them with "
            "`brokerproof down`, or raise BROKERPROOF_MAX_CLUSTERS"
        ) from None


def take_from_run(run_directory: str, *, timeout_s: float) -> Slot | None:
    """Take the slot of a run once the run's monitor has ended.

    Returns None if the monitor does not end within `timeout_s` seconds, or if no slot's record names the run.
    """

    def taken() -> tuple[Slot | None] | None:
        number = next((number for number, runs in _read_records().items() if runs[0] == run_directory), None)
        if number is None:
            return (None,)
        if (slot := _lock(number)) is None:
            return None
        if slot.runs[:1] == [run_directory]:
            return (slot,)
        slot.close()
        return (None,)

    try:
        return clock.wait_until(taken, timeout_s=timeout_s, what="the run's monitor to end")[0]
    except DeadlineError:
        return None


def list_assigned_runs() -> list[str]:
    """Return the directory of each run to which a slot is assigned by its record. Some of these runs may have died."""
    return [runs[0] for runs in _read_records().values()]


def list_held_runs() -> list[str]:
    """Return the directories of the runs whose slots are held by a process, and of those in which their nodes are."""
    return [run for number, runs in _read_records().items() if _is_held(number) for run in runs]


def are_all_held() -> bool:
    """Return whether every slot is held, by a run that goes on or by a process that is about to begin a run."""
    return all(_is_held(number) for number in range(count_slots()))


def _lock(number: int) -> Slot | None:
    """Lock and return the slot; None if another process holds it."""
    path = directory()
    descriptor = leases.lock_file(path / f"{number}.lock")
    return None if descriptor is None else Slot(number, path / f"{number}.json", descriptor)


def _is_held(number: int) -> bool:
    try:
        descriptor = os.open(directory() / f"{number}.lock", os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # A shared lock, so that two processes that look at the same time do not take each other for a holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read_records() -> dict[int, list[str]]:
    """Return {number of a slot: directories of the runs in its record}."""
    numbers = sorted(int(file.stem) for file in directory().glob("*.json"))
    return {number: runs for number in numbers if (runs := _read_runs(directory() / f"{number}.json"))}


def _read_runs(record: Path) -> list[str]:
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    # Records of an older version have one run.
    return [str(run) for run in content.get("runs") or [content["run"]]]
