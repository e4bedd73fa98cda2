"""Deletes old runs: their tables of messages, or their whole directories, after the days that the settings name.

The history records a deletion before the first file is deleted, so the next pruning finishes an interrupted deletion,
even if the settings have changed. In a run's directory, run.json is deleted first, so that no command mistakes the rest
for a run. A run whose tables were deleted keeps the small tables from which reports are drawn.

An active run is never deleted. A run is active if it holds a slot of this machine, or if a process of this machine
belongs to it. A run with a file that was written within `QUIET` may be active on another machine, so it stays too. A
link, or a directory that is not a run, is never deleted, and no link is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import fsspec

from brokerproof import clock
from brokerproof.errors import MachineError, RunError
from brokerproof.machine import slots
from brokerproof.machine.processes import find_marked_processes, read_mark
from brokerproof.results.history import DeletedPart, History
from brokerproof.run.directory import Run
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import RunReleased, TablesDeletion, read_record, write_record
from brokerproof.settings import Settings, variable

# An active run samples its cluster all the time, and judging takes less time than this.
QUIET = timedelta(days=1)
# The tables with one or more rows per message, or a row per anomaly.
MESSAGE_TABLES = ("publishes", "deliveries", "stored", "outputs", "messages", "anomalies")
# What is deleted below a run's directory, in this order.
_PATHS: Mapping[DeletedPart, tuple[str, ...]] = {
    "tables": (*(f"/tables/{table}" for table in MESSAGE_TABLES), "/clients"),
    "run": ("/run.json", ""),
}


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """A deletion that was done, or that a dry run would do. `size` is in bytes."""

    directory: str
    run_id: str
    part: DeletedPart
    size: int
    why: str
    # Whether this deletion continues an interrupted one, which the history already states.
    is_resumed: bool


@dataclass(frozen=True, kw_only=True)
class LeftRun:
    """A directory that pruning did not change, with the reason: it is a link, not a run, maybe active, or damaged."""

    directory: str
    why: str
    # Whether a person has to examine the directory.
    is_problem: bool = False


def prune_runs(
    runs: str,
    settings: Settings,
    history: History | None,
    *,
    dry_run: bool = False,
    now: Callable[[], int] = clock.now_us,
) -> list[Deletion | LeftRun]:
    """Delete the runs below `runs`, or their tables, that the settings no longer keep; with `dry_run`, only list them.

    `now` returns microseconds since the epoch. If `history` is None, deletions are not recorded. Raises HistoryError if
    a deletion cannot be recorded; then this call has deleted no file of that run.
    """
    pruner = _Pruner(settings, history, dry_run=dry_run, now_us=now())
    filesystem, root = fsspec.url_to_fs(runs)
    found: list[Deletion | LeftRun | None] = []
    for entry in sorted(filesystem.ls(root, detail=True), key=lambda entry: entry["name"]):
        directory = f"{runs}/{entry['name'].rstrip('/').rpartition('/')[2]}"
        if entry.get("islink"):
            found.append(LeftRun(directory=directory, why="it is a link, which is not followed"))
        elif entry["type"] == "directory":
            try:
                found.append(pruner.prune(directory))
            except (RunError, MachineError, OSError, ValueError) as error:
                found.append(LeftRun(directory=directory, why=str(error), is_problem=True))
    return [one for one in found if one is not None]


class _Pruner:
    def __init__(self, settings: Settings, history: History | None, *, dry_run: bool, now_us: int) -> None:
        self._settings, self._history, self._dry_run, self._now = settings, history, dry_run, now_us
        self._stated = {} if history is None else history.list_deletions()
        marks = [mark for process in find_marked_processes() if (mark := read_mark(process)) is not None]
        self._active = [*(Path(run).absolute() for run in slots.list_held_runs()), *(mark.directory for mark in marks)]

    def prune(self, directory: str) -> Deletion | LeftRun | None:
        """Delete a run or its tables if they are old enough, and return the deletion. A dry run only returns it.

        Return a LeftRun if the directory is not a run or may be active, and None if there is nothing to delete. Raises
        RunError if the directory is damaged, or if it contains a link and only the tables are to be deleted. Raises
        OSError or ValueError if a file cannot be deleted.
        """
        run = Run(directory)
        chosen = stated = self._stated.get(directory)
        if stated is None or stated[0] == "tables":
            if not run.exists("run.json"):
                return LeftRun(directory=directory, why="it is no run: it holds no run.json")
            chosen = self._choose(run) or stated
        if chosen is None:
            return None
        part, why = chosen
        filesystem, root = fsspec.url_to_fs(directory)
        paths = [f"{root}{path}" for path in _PATHS[part] if filesystem.exists(f"{root}{path}")]
        if not paths:
            return None
        is_resumed = stated is not None and stated[0] == part
        if (reason := self._find_life(run, is_resumed=is_resumed)) is not None:
            return LeftRun(directory=directory, why=reason)
        links = [entry["name"] for entry in filesystem.ls(root, detail=True) if entry.get("islink")]
        if part == "tables" and links:
            raise RunError(f"{links[0]} is a link: what it points to is not deleted; delete it by hand")
        run_id = directory.rpartition("/")[2]
        files = {name: facts for path in paths for name, facts in filesystem.find(path, detail=True).items()}
        size = sum(facts.get("size") or 0 for facts in files.values())
        if not self._dry_run:
            if self._history is not None:
                self._history.record_deletion(run_id, directory, part, at=clock.to_utc(self._now), why=why)
            if part == "tables":
                write_record(run, TablesDeletion(why=why, at=self._now))
            for path in paths:
                filesystem.rm(path, recursive=True)
        return Deletion(directory=directory, run_id=run_id, part=part, size=size, why=why, is_resumed=is_resumed)

    def _choose(self, run: Run) -> tuple[DeletedPart, str] | None:
        """Return (`run` or `tables`, reason as a phrase) for the part that is too old; None if neither is too old."""
        age = clock.to_utc(self._now) - run.facts.created_at
        failed_days = self._settings.keep_failed_days
        parts: tuple[tuple[DeletedPart, str], ...] = (("run", "keep_runs_days"), ("tables", "keep_tables_days"))
        for part, setting in parts:
            days, reason = getattr(self._settings, setting), setting
            if days is None or age <= timedelta(days=days):
                continue
            if failed_days is not None and failed_days > days and not _is_as_expected(run):
                days, reason = failed_days, "keep_failed_days"
            if age > timedelta(days=days):
                return part, f"after {days} days ({variable(reason)})"
        return None

    def _find_life(self, run: Run, *, is_resumed: bool) -> str | None:
        """Return a sentence that says why the run is or may be active; None if no evidence says so."""
        filesystem, root = fsspec.url_to_fs(run.directory)
        if "file" in filesystem.protocol and any(place.is_relative_to(root) for place in self._active):
            return "it is active: its slot on this machine is held, or a process of this machine belongs to it"
        if is_resumed:
            # The interrupted deletion itself may have written a file.
            return None
        times = []
        for file in filesystem.find(root):
            # A file may be gone, or the filesystem may not know when it was written.
            with suppress(FileNotFoundError, NotImplementedError):
                times.append(filesystem.modified(file))
        if times and clock.to_utc(self._now) - max(times) < QUIET:
            return f"it may be active: one of its files was written at {max(times):%Y-%m-%d %H:%M} UTC"
        if not times and read_record(run, RunReleased) is None:
            return "it may be active: there is no record of its end, and the times of its files are not known"
        return None


def _is_as_expected(run: Run) -> bool:
    """Return whether the run's outcome is the expected one; False if the outcome is missing or damaged."""
    try:
        outcome = read_record(run, Outcome)
    except RunError:
        return False
    return outcome is not None and outcome.met
