"""The retention of runs: which tables and directories are old enough to be deleted, and their deletion.

Before the first file of a run is deleted, a record in its directory (run/deletion.py) and the history state the
deletion. If the history cannot be written, no file is deleted. An interrupted deletion is always finished, even if the
settings have changed.

An active run is never deleted, however old. A run counts as active if its slot is held, or if a process of this
machine belongs to it. It also does if a file of it was written within `QUIET`, because another machine may run it, or
because it may be judged again. A directory that is no run, or that is a link, is never deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

import fsspec

from brokerproof import clock
from brokerproof.errors import BrokerproofError, RunError
from brokerproof.machine import slots
from brokerproof.machine.processes import find_marked_processes, read_mark
from brokerproof.results.history import History
from brokerproof.run.deletion import (
    TRASH,
    FoundFile,
    delete_run,
    delete_tables,
    empty_trash,
    has_trash,
    is_link,
    list_files,
    list_message_files,
    require_own_directory,
)
from brokerproof.run.directory import Run
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import RunDeletion, RunReleased, TablesDeletion, read_record, remove_record, write_record
from brokerproof.settings import Settings, variable

# An active run samples its cluster all the time, and judging takes less time than this.
QUIET = timedelta(days=1)


class Part(StrEnum):
    """The part of a run that is deleted: its tables of messages or its directory."""

    TABLES = "tables"
    RUN = "run"


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """A deletion that was done, or that a dry run would do. `run_id` is None for remains of an interrupted deletion."""

    directory: str
    run_id: str | None
    part: Part
    size: int
    why: str
    # Whether it continues an earlier deletion that was interrupted.
    is_resumed: bool = False


@dataclass(frozen=True, kw_only=True)
class LeftRun:
    """A directory that a pruning left although it is old enough, or because its age is not known. `why` says why."""

    directory: str
    why: str
    # Whether a person has to examine the directory.
    is_problem: bool


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """The deletions that a pruning did, or would do in a dry run, and the directories that it left."""

    deletions: tuple[Deletion, ...]
    left: tuple[LeftRun, ...]

    @property
    def size(self) -> int:
        """The sum of all deletions in bytes."""
        return sum(deletion.size for deletion in self.deletions)


def prune_runs(
    runs: str,
    settings: Settings,
    history: History | None,
    *,
    dry_run: bool = False,
    now: Callable[[], int] = clock.now_us,
) -> Pruning:
    """Delete the tables and directories below `runs` that the settings no longer keep; with `dry_run`, only list them.

    `now` returns microseconds since the epoch. Raises HistoryError if the history cannot record the deletion of a run;
    then no file of that run is deleted.
    """
    pruner = _Pruner(runs.rstrip("/"), settings, history, dry_run=dry_run, now_us=now())
    deletions: list[Deletion] = []
    left: list[LeftRun] = []
    for directory in pruner.list_directories():
        try:
            found = pruner.prune(directory)
        except (RunError, OSError) as error:
            left.append(LeftRun(directory=directory, why=str(error), is_problem=True))
            continue
        if isinstance(found, Deletion):
            deletions.append(found)
        elif found is not None:
            left.append(found)
    try:
        deletions += pruner.empty_trash()
    except OSError as error:
        left.append(LeftRun(directory=f"{runs.rstrip('/')}/{TRASH}", why=str(error), is_problem=True))
    return Pruning(deletions=tuple(deletions), left=tuple(left))


class _Pruner:
    def __init__(self, runs: str, settings: Settings, history: History | None, *, dry_run: bool, now_us: int) -> None:
        self._runs, self._settings, self._history, self._dry_run = runs, settings, history, dry_run
        self._now = now_us
        self._busy = {str(Path(run).absolute()) for run in slots.list_held_runs()}
        marks = [mark for process in find_marked_processes() if (mark := read_mark(process)) is not None]
        self._marked = [mark.directory for mark in marks]

    def list_directories(self) -> list[str]:
        """Return the directories that may be runs, sorted."""
        filesystem, root = fsspec.url_to_fs(self._runs)
        if not filesystem.exists(root):
            return []
        names = [
            entry["name"].rstrip("/").rsplit("/", 1)[-1]
            for entry in filesystem.ls(root, detail=True)
            if entry["type"] == "directory" or entry.get("islink")
        ]
        return [f"{self._runs}/{name}" for name in sorted(names) if name != TRASH]

    def prune(self, directory: str) -> Deletion | LeftRun | None:
        """Delete a run or its tables if they are old enough. Return None if the directory needs no deletion.

        Raises RunError if the directory is damaged, and OSError if a file cannot be deleted.
        """
        run = Run(directory)
        if is_link(directory):
            return LeftRun(directory=directory, why="it is a link, which is not followed", is_problem=False)
        if (whole := read_record(run, RunDeletion)) is not None:
            require_own_directory(run)
            return self._delete(run, whole.run_id, whole, is_resumed=True)
        if not run.exists("run.json"):
            return LeftRun(directory=directory, why="it is no run: it holds no run.json", is_problem=False)
        tables = read_record(run, TablesDeletion)
        chosen = self._choose(run, with_tables=tables is None)
        if chosen is None:
            if tables is not None and any(True for _ in list_message_files(run)):
                require_own_directory(run)
                return self._delete(run, run.run_id, tables, is_resumed=True)
            return None
        part, why = chosen
        if (reason := self._find_life(run)) is not None:
            return LeftRun(directory=directory, why=reason, is_problem=False)
        require_own_directory(run)
        if part is Part.RUN:
            return self._delete(run, run.run_id, RunDeletion(run_id=run.run_id, why=why, at=self._now))
        if not any(True for _ in list_message_files(run)):
            return None
        return self._delete(run, run.run_id, TablesDeletion(why=why, at=self._now))

    def empty_trash(self) -> Iterator[Deletion]:
        """Delete the files that an interrupted deletion renamed into `.deleted`."""
        if not has_trash(self._runs):
            return
        place = f"{self._runs}/{TRASH}"
        size = _sum_sizes(list_files(place))
        if not self._dry_run:
            empty_trash(self._runs)
        yield Deletion(
            directory=place, run_id=None, part=Part.RUN, size=size, why="an earlier deletion was broken off",
            is_resumed=True,
        )  # fmt: skip

    def _choose(self, run: Run, *, with_tables: bool) -> tuple[Part, str] | None:
        """Return the part that is too old and the reason as a phrase, or None."""
        age = clock.to_utc(self._now) - run.facts.created_at
        if (why := self._explain_age(run, age, "keep_runs_days")) is not None:
            return Part.RUN, why
        if with_tables and (why := self._explain_age(run, age, "keep_tables_days")) is not None:
            return Part.TABLES, why
        return None

    def _explain_age(self, run: Run, age: timedelta, setting: str) -> str | None:
        days, failed_days = getattr(self._settings, setting), self._settings.keep_failed_days
        if days is None or age <= timedelta(days=days):
            return None
        if failed_days is not None and failed_days > days and not _is_as_expected(run):
            days, setting = failed_days, "keep_failed_days"
            if age <= timedelta(days=days):
                return None
        return f"after {days} days ({variable(setting)})"

    def _find_life(self, run: Run) -> str | None:
        """Return the evidence that the run is or may be active, as a sentence, or None."""
        filesystem, root = fsspec.url_to_fs(run.directory)
        is_local = "file" in filesystem.protocol
        if is_local:
            here = Path(root).absolute()
            if str(here) in self._busy:
                return "it goes on: its slot of this machine is held"
            if any(place.is_relative_to(here) for place in self._marked):
                return "it goes on: a process of this machine belongs to it"
        times = [file.modified for file in list_files(run.directory)]
        known = [moment for moment in times if moment is not None]
        if known and clock.to_utc(self._now) - max(known) < QUIET:
            return f"it may go on: a file of it was written at {max(known):%Y-%m-%d %H:%M} UTC"
        if not known and read_record(run, RunReleased) is None:
            return "it may go on: nothing says that it ended, nor when its files were written"
        return None

    def _delete(
        self, run: Run, run_id: str, deletion: TablesDeletion | RunDeletion, *, is_resumed: bool = False
    ) -> Deletion:
        part = Part.TABLES if isinstance(deletion, TablesDeletion) else Part.RUN
        size = _sum_sizes(list_message_files(run) if part is Part.TABLES else list_files(run.directory))
        if not self._dry_run:
            write_record(run, deletion)
            try:
                if self._history is not None:
                    self._history.record_deletion(run_id, run.directory, deletion)
            except BrokerproofError:
                _take_back(run, type(deletion), is_resumed)
                raise
            if part is Part.TABLES:
                delete_tables(run)
            else:
                delete_run(run.directory)
        return Deletion(
            directory=run.directory, run_id=run_id, part=part, size=size, why=deletion.why, is_resumed=is_resumed
        )


def _take_back(run: Run, kind: type[TablesDeletion | RunDeletion], is_resumed: bool) -> None:
    """Remove the record of a deletion that did not begin. A resumed deletion began earlier, so its record stays."""
    if not is_resumed:
        remove_record(run, kind)


def _is_as_expected(run: Run) -> bool:
    """Whether the outcome is the expected one. It is not if the outcome is missing or damaged."""
    try:
        outcome = read_record(run, Outcome)
    except RunError:
        return False
    return outcome is not None and outcome.met


def _sum_sizes(files: Iterator[FoundFile]) -> int:
    return sum(file.size for file in files)
