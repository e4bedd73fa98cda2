"""Slots of this machine: each is one address range, held by one run at a time.

A slot is held by a lock on a file. Whoever takes a slot hands the locked file on to the run's monitor, which lives as
long as the run does; when the last process that has it open ends, however it ends, the kernel frees the lock. A record
beside it names the run. A record whose slot nobody holds means that its run died: what that run left has to be ended
before the slot is used again.
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
from brokerproof.machine.files import write_whole
from brokerproof.settings import from_environment


def count_slots() -> int:
    """How many clusters this machine carries at a time: `max_clusters` of the settings, or one per 6 GiB of memory."""
    given = from_environment().max_clusters
    return given or max(1, min(200, psutil.virtual_memory().total // (6 * 2**30)))


def directory() -> Path:
    """Where this user's slots are; one place for all checkouts, because addresses are the machine's."""
    path = from_environment().leases
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise MachineError(f"{path} belongs to another user; set BROKERPROOF_LEASES to a directory of your own")
    slots = path / "slots"
    slots.mkdir(exist_ok=True)
    return slots


class Slot:
    """A slot that this process holds, until `close` or the end of a `with` block.

    A process that inherits `descriptor` goes on holding it.
    """

    def __init__(self, number: int, record: Path, descriptor: int) -> None:
        self.number, self.descriptor = number, descriptor
        self._record = record

    @property
    def run(self) -> str | None:
        """The directory of the run that the slot was assigned to last, None where nothing of it is left."""
        return _read_run(self._record)

    def assign(self, run_directory: str) -> None:
        """Record whose the slot is. What the run before left must have been ended."""
        write_whole(self._record, json.dumps({"run": run_directory}))

    def clear(self) -> None:
        """Record that nothing is left of the run."""
        self._record.unlink(missing_ok=True)

    def close(self) -> None:
        """Hold it no longer."""
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def take(*, timeout_s: float, besides: Collection[int] = ()) -> Slot:
    """Take a slot that is none of `besides`, waiting for a free one. Raises MachineError where none becomes free."""

    def find_first_free() -> Slot | None:
        numbers = (number for number in range(count_slots()) if number not in besides)
        return next((slot for number in numbers if (slot := _lock(number)) is not None), None)

    try:
        return clock.wait_until(find_first_free, timeout_s=timeout_s, what="a free slot", every_s=1.0)
    except DeadlineError:
        raise MachineError(
            f"all {count_slots()} slots of this machine are held by running clusters; wait for one, end them with "
            "`brokerproof down`, or raise BROKERPROOF_MAX_CLUSTERS"
        ) from None


def take_back(run_directory: str, *, timeout_s: float) -> Slot | None:
    """Take the slot of a run as soon as its monitor has ended; None where it does not end in time.

    It is also None where the slot no longer belongs to the run: it was given back, or another run took it.
    """

    def taken() -> tuple[Slot | None] | None:
        number = next((number for number, run in _read_records().items() if run == run_directory), None)
        if number is None:
            return (None,)
        if (slot := _lock(number)) is None:
            return None
        if slot.run == run_directory:
            return (slot,)
        slot.close()
        return (None,)

    try:
        return clock.wait_until(taken, timeout_s=timeout_s, what="the run's monitor to end")[0]
    except DeadlineError:
        return None


def list_runs() -> list[str]:
    """The directories of the runs that have slots. A run that died is listed until its slot is taken again."""
    return list(_read_records().values())


def list_held_runs() -> list[str]:
    """The directories of the runs whose slots are held: they go on."""
    return [run for number, run in _read_records().items() if _is_held(number)]


def are_all_held() -> bool:
    """Whether every slot is held by a run that goes on, or by somebody who is just taking it."""
    return all(_is_held(number) for number in range(count_slots()))


def _lock(number: int) -> Slot | None:
    """The slot, None while another process holds it."""
    path = directory()
    descriptor = os.open(path / f"{number}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # Not a lock of fcntl or lockf: that would belong to this process and end with it.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise MachineError(f"no file can be locked in {path}: {error.strerror}; set BROKERPROOF_LEASES") from error
    return Slot(number, path / f"{number}.json", descriptor)


def _is_held(number: int) -> bool:
    try:
        descriptor = os.open(directory() / f"{number}.lock", os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # The lock is shared, so that two processes that look at the same time do not see each other as a holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read_records() -> dict[int, str]:
    """The run that the record of each slot names."""
    numbers = sorted(int(file.stem) for file in directory().glob("*.json"))
    return {number: run for number in numbers if (run := _read_run(directory() / f"{number}.json")) is not None}


def _read_run(record: Path) -> str | None:
    try:
        return str(json.loads(record.read_text(encoding="utf-8"))["run"])
    except FileNotFoundError:
        return None
