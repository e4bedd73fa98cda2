"""Slots of this machine: each is one address range, held by one run at a time.

A slot is a file with the run's directory in it. It is taken under a lock, freed by `release`, and taken over when its
run has ended without freeing it: no process of that run is left and its keeper, which lives as long as the run
does, is gone.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from filelock import FileLock

from brokerproof import clock
from brokerproof.errors import DeadlineError, MachineError
from brokerproof.machine.process_identity import living
from brokerproof.runtimes.processes import ProcessRuntime, end, marked_processes, process_mark


def slots() -> int:
    """How many clusters this machine carries at a time: `$BROKERPROOF_MAX_CLUSTERS`, or one per 6 GiB of memory."""
    if given := os.environ.get("BROKERPROOF_MAX_CLUSTERS"):
        return int(given)
    return max(1, min(200, psutil.virtual_memory().total // (6 * 2**30)))


def directory() -> Path:
    """Where this user's slots are; one place for all checkouts, because addresses are the machine's."""
    path = Path(os.environ.get("BROKERPROOF_LEASES") or Path(tempfile.gettempdir()) / f"brokerproof-{os.getuid()}")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise MachineError(f"{path} belongs to another user; set BROKERPROOF_LEASES to a directory of your own")
    return path


@contextmanager
def locked() -> Iterator[Path]:
    """The slots' directory, with everybody else kept out."""
    path = directory()
    with FileLock(path / "slots.lock", timeout=60):
        yield path


def take(run_directory: str, *, timeout_s: float) -> int:
    """Take a slot, waiting for a free one. Cleans up what a dead holder left running. Raises MachineError."""

    def attempt() -> tuple[int] | None:
        with locked() as path:
            for slot in range(slots()):
                file = path / f"slot-{slot}.json"
                holder = _holder(file)
                if holder is not None and (keeper_alive(holder) or _being_taken(file)):
                    continue
                if holder is not None:
                    end_run(holder)
                me = psutil.Process()
                _write(file, {"run": run_directory, "taking": {"pid": me.pid, "created": me.create_time()}})
                return (slot,)
        return None

    try:
        return clock.wait_until(attempt, timeout_s=timeout_s, what="a free slot", every_s=1.0)[0]
    except DeadlineError:
        raise MachineError(
            f"all {slots()} slots of this machine are held by running clusters; wait for one, end them with "
            "`python -m brokerproof down`, or raise BROKERPROOF_MAX_CLUSTERS"
        ) from None


def confirm(run_directory: str) -> None:
    """From now on the run's keeper holds its slot, and no longer the process that took it."""
    with locked() as path:
        for file in path.glob("slot-*.json"):
            if _holder(file) == run_directory:
                _write(file, {"run": run_directory})


def give_back(run_directory: str) -> None:
    """Free the slot that a run holds, if it does."""
    with locked() as path:
        for file in path.glob("slot-*.json"):
            if _holder(file) == run_directory:
                file.unlink()


def holders() -> list[str]:
    """Directories of the runs that hold a slot."""
    with locked() as path:
        return [holder for file in sorted(path.glob("slot-*.json")) if (holder := _holder(file)) is not None]


def keeper_alive(run_directory: str) -> bool:
    """Whether the process that watches over a run lives."""
    return any(
        process_mark(process).endswith("|keeper") and _belongs(process, run_directory) for process in marked_processes()
    )


def end_run(run_directory: str) -> list[str]:
    """End every process of a run and remove what its nodes stored; the names of those that ran."""
    ended = end([process for process in marked_processes() if _belongs(process, run_directory)])
    ProcessRuntime(Path(run_directory, "nodes")).forget()
    return ended


def _belongs(process: psutil.Process, run_directory: str) -> bool:
    return process_mark(process).rpartition("|")[0] == str(Path(run_directory, "nodes").absolute())


def _being_taken(file: Path) -> bool:
    """Whether the process that took the slot lives and has not started its keeper yet."""
    taking = json.loads(file.read_text(encoding="utf-8")).get("taking")
    return taking is not None and living(taking["pid"], taking["created"]) is not None


def _write(file: Path, content: dict[str, object]) -> None:
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(file)


def _holder(file: Path) -> str | None:
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["run"])
    except FileNotFoundError:
        return None
