"""How long runs are kept: which tables and directories are old enough to be deleted, and their deletion.

The history says of a run what is deleted before the first file goes, and so does a record in the run's directory
(run/deletion.py). Where the history cannot be written, nothing is deleted. A deletion that was broken off is finished,
whatever the settings say by then.

A run that goes on is never touched, however old: its slot is held, a process of this machine belongs to it, or, for
runs of other machines and runs that are judged again, a file of it was written within `QUIET`. Nor is a directory that
is no run, or one that is a link.
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

# A run that goes on samples its cluster all the time, and judging takes less than this.
QUIET = timedelta(days=1)


class Part(StrEnum):
    """What is deleted of a run."""

    TABLES = "tables"
    RUN = "run"


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """What is deleted, or would be. `run_id` is None for what an earlier deletion left behind."""

    directory: str
    run_id: str | None
    part: Part
    size: int
    why: str
    # Whether an earlier deletion of it was broken off.
    is_resumed: bool = False


@dataclass(frozen=True, kw_only=True)
class LeftRun:
    """A directory that is left although it is old enough, or nobody can say whether it is; `why` is a sentence."""

    directory: str
    why: str
    # Whether somebody has to look at it.
    is_problem: bool


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """What a pruning deleted, or would delete, and what it left."""

    deletions: tuple[Deletion, ...]
    left: tuple[LeftRun, ...]

    @property
    def size(self) -> int:
        """The bytes of all that is deleted."""
        return sum(deletion.size for deletion in self.deletions)


def prune_runs(
    runs: str,
    settings: Settings,
    history: History | None,
    *,
    dry_run: bool = False,
    now: Callable[[], int] = clock.now_us,
) -> Pruning:
    """Delete what is older than the settings keep, below the location `runs`; with `dry_run` only list it.

    `now` gives microseconds since the epoch. Raises HistoryError where the history cannot be written: then the run in
    question is whole.
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
    """One pruning of the runs below a location."""

    def __init__(self, runs: str, settings: Settings, history: History | None, *, dry_run: bool, now_us: int) -> None:
        self._runs, self._settings, self._history, self._dry_run = runs, settings, history, dry_run
        self._now = now_us
        self._busy = {str(Path(run).absolute()) for run in slots.list_held_runs()}
        marks = [mark for process in find_marked_processes() if (mark := read_mark(process)) is not None]
        self._marked = [mark.directory for mark in marks]

    def list_directories(self) -> list[str]:
        """The directories below the location, each of which may be a run."""
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
        """Delete what has to go of a directory; None where nothing has to.

        Raises RunError where it is damaged, and OSError where something cannot be deleted.
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
        """Delete what was renamed by a deletion that was broken off."""
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
        """What is older than it is kept, and the words for why."""
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
        """What says that a run goes on; None where nothing does."""
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
    """Nothing is deleted, so nothing may say so; unless a part of it was deleted before."""
    if not is_resumed:
        remove_record(run, kind)


def _is_as_expected(run: Run) -> bool:
    """Whether the outcome is the expected one. A run without an outcome, or with a damaged one, is not."""
    try:
        outcome = read_record(run, Outcome)
    except RunError:
        return False
    return outcome is not None and outcome.met


def _sum_sizes(files: Iterator[FoundFile]) -> int:
    return sum(file.size for file in files)
