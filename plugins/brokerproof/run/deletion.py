"""The deletion of a run's tables of messages, or of its whole directory: said first, then done, and finished later.

A record in the run's directory says what is deleted before the first file goes. On a local disk, what goes is renamed
first, into a directory `.deleted` beside it, so that no reader meets half of it. Elsewhere renaming would copy, and the
files go one by one, those that make the directory a run last. Whatever ends the process in between, the record or the
directory `.deleted` is still there, and the next deletion does the rest. No link is followed.

The small tables stay: faults, samples, places of copies and measurements, which reports are drawn from.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from brokerproof import clock
from brokerproof.errors import InputError, RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import RunDeletion, TablesDeletion, read_record

# The tables with a row for every message, or for every anomaly of one.
MESSAGE_TABLES = ("publishes", "deliveries", "stored", "messages", "anomalies")
TRASH = ".deleted"
# What says that a directory is a run, and that it is being deleted, in the order in which they go.
_LAST = ("run.json", f"state/{RunDeletion.KIND}.json")


@dataclass(frozen=True)
class FoundFile:
    """A file below a directory. `modified` is None where its filesystem does not say."""

    path: str
    size: int
    modified: datetime | None


def describe_deletion(run: Run) -> str | None:
    """What was deleted of a run's directory, when and why; None where everything was kept. Raises RunError."""
    if (whole := read_record(run, RunDeletion)) is not None:
        return describe_run_deletion(clock.to_utc(whole.at), whole.why)
    tables = read_record(run, TablesDeletion)
    return None if tables is None else describe_tables_deletion(clock.to_utc(tables.at), tables.why)


def require_tables(run: Run) -> None:
    """Raises InputError where the run's tables of messages were deleted, and RunError where nobody can say."""
    if (deletion := describe_deletion(run)) is not None:
        raise InputError(deletion, file=run.directory, remedy="`brokerproof history` has what the run came to")


def describe_tables_deletion(at: datetime, why: str) -> str:
    """The sentence for a run whose tables of messages were deleted."""
    return f"its tables were deleted on {at:%Y-%m-%d}, {why}"


def describe_run_deletion(at: datetime, why: str) -> str:
    """The sentence for a run whose directory was deleted."""
    return f"its directory was deleted on {at:%Y-%m-%d}, {why}"


def list_files(location: str) -> Iterator[FoundFile]:
    """The files below a location; none where nothing is there. Links are listed, and not followed."""
    filesystem, root = fsspec.url_to_fs(location)
    if isinstance(filesystem, LocalFileSystem):
        for directory, below, names in os.walk(root):
            for name in [*names, *(one for one in below if Path(directory, one).is_symlink())]:
                file = Path(directory, name)
                try:
                    status = file.lstat()
                except FileNotFoundError:
                    continue
                yield FoundFile(str(file), status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))
    elif filesystem.exists(root):
        for path, facts in filesystem.find(root, detail=True).items():
            yield FoundFile(path, int(facts.get("size") or 0), _find_modification(facts))


def list_message_files(run: Run) -> Iterator[FoundFile]:
    """The files that `delete_tables` deletes: of the tables of messages, and the records of clients behind them."""
    for parts in _list_message_places():
        yield from list_files(run.path(*parts))
    yield from list_files(run.path(TRASH))


def is_link(location: str) -> bool:
    """Whether a location is a link to another place. Only a local disk has links."""
    filesystem, root = fsspec.url_to_fs(location)
    return isinstance(filesystem, LocalFileSystem) and Path(root).is_symlink()


def require_own_directory(run: Run) -> None:
    """Raises RunError where the run, or what is deleted of it, is a link to another place."""
    for parts in ((), ("state",), ("tables",), (TRASH,), *_list_message_places()):
        if is_link(run.path(*parts)):
            raise RunError(f"{run.path(*parts)} is a link: what it points to is not deleted; delete it by hand")


def delete_tables(run: Run) -> None:
    """Delete the tables of messages. The record `TablesDeletion` must be there. Raises OSError where it cannot."""
    filesystem, root = fsspec.url_to_fs(run.directory)
    for parts in _list_message_places():
        _delete(filesystem, root, "/".join(parts))
    _empty_trash(filesystem, root)


def delete_run(directory: str) -> None:
    """Delete a run's directory. The record `RunDeletion` must be there. Raises OSError where it cannot."""
    filesystem, root = fsspec.url_to_fs(directory.rstrip("/"))
    parent, _, name = root.rpartition("/")
    if isinstance(filesystem, LocalFileSystem):
        _delete(filesystem, parent, name)
        _empty_trash(filesystem, parent)
        return
    last = [f"{root}/{name}" for name in _LAST]
    for path in filesystem.find(root):
        if path not in last:
            filesystem.rm_file(path)
    for path in last:
        if filesystem.exists(path):
            filesystem.rm_file(path)
    if filesystem.exists(root):
        # What is left are empty directories, on a filesystem that has such.
        filesystem.rm(root, recursive=True)


def has_trash(location: str) -> bool:
    """Whether a deletion was broken off below a location, after the renaming."""
    filesystem, root = fsspec.url_to_fs(f"{location}/{TRASH}")
    return bool(filesystem.exists(root))


def empty_trash(location: str) -> None:
    """Delete what was renamed and not deleted yet. Raises OSError where it cannot."""
    _empty_trash(*fsspec.url_to_fs(location))


def _list_message_places() -> tuple[tuple[str, ...], ...]:
    return (*(("tables", table) for table in MESSAGE_TABLES), ("clients",))


def _delete(filesystem: fsspec.AbstractFileSystem, root: str, name: str) -> None:
    """Delete a directory below `root`, if it is there. On a local disk it is only renamed."""
    if not isinstance(filesystem, LocalFileSystem):
        if filesystem.exists(f"{root}/{name}"):
            filesystem.rm(f"{root}/{name}", recursive=True)
        return
    trash = Path(root, TRASH)
    if trash.is_symlink():
        raise OSError(f"{trash} is a link")
    trash.mkdir(exist_ok=True)
    target = trash / name.replace("/", "-")
    if target.exists():
        # An earlier deletion of the same name was broken off.
        shutil.rmtree(target)
    try:
        Path(root, name).rename(target)
    except FileNotFoundError:
        return


def _empty_trash(filesystem: fsspec.AbstractFileSystem, root: str) -> None:
    if isinstance(filesystem, LocalFileSystem) and Path(root, TRASH).is_dir():
        # It follows no link.
        shutil.rmtree(Path(root, TRASH))


def _find_modification(facts: dict[str, Any]) -> datetime | None:
    """When a file was written, under the name that its filesystem has for it."""
    for name in ("mtime", "LastModified", "last_modified", "modified", "updated", "created"):
        found = facts.get(name)
        if isinstance(found, datetime):
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        if isinstance(found, int | float):
            return datetime.fromtimestamp(found, UTC)
    return None
