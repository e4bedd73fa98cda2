"""Deletes a run's tables of messages, or its whole directory, so that an interrupted deletion can be finished.

A record in the run's directory announces the deletion before the first file is deleted. On a local disk the data is
first renamed into a directory `.deleted`, so that no reader finds half of it. Elsewhere renaming would copy, so the
files are deleted one by one, `run.json` and the record last. If the process is ended in between, the record or
`.deleted` remains, and the next deletion does the rest. No link is followed.

The deletion of the tables keeps the small ones, from which reports are drawn: faults, samples, places of copies and
measurements.
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

# The tables with one or more rows per message, or a row per anomaly.
MESSAGE_TABLES = ("publishes", "deliveries", "stored", "messages", "anomalies")
TRASH = ".deleted"
# The files that are deleted last, in this order: the one that makes the directory a run, and the deletion's record.
_LAST = ("run.json", f"state/{RunDeletion.KIND}.json")


@dataclass(frozen=True)
class FoundFile:
    """A file below a directory. `size` is in bytes. `modified` is None if the filesystem does not know it."""

    path: str
    size: int
    modified: datetime | None


def describe_deletion(run: Run) -> str | None:
    """Return what was deleted from a run's directory, when and why, or None if nothing was. Raises RunError."""
    if (whole := read_record(run, RunDeletion)) is not None:
        return describe_run_deletion(clock.to_utc(whole.at), whole.why)
    tables = read_record(run, TablesDeletion)
    return None if tables is None else describe_tables_deletion(clock.to_utc(tables.at), tables.why)


def require_tables(run: Run) -> None:
    """Raises InputError if the run's tables of messages were deleted, and RunError if the record of that is damaged."""
    if (deletion := describe_deletion(run)) is not None:
        raise InputError(deletion, file=run.directory, remedy="`brokerproof history` has what the run came to")


def describe_tables_deletion(at: datetime, why: str) -> str:
    """Return the description of a deletion of a run's tables of messages."""
    return f"its tables were deleted on {at:%Y-%m-%d}, {why}"


def describe_run_deletion(at: datetime, why: str) -> str:
    """Return the description of a deletion of a run's directory."""
    return f"its directory was deleted on {at:%Y-%m-%d}, {why}"


def list_files(location: str) -> Iterator[FoundFile]:
    """Yield the files below a location; none if the location does not exist. Links are listed but not followed."""
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
    """Yield the files that `delete_tables` deletes: the tables of messages, the records of clients, and the trash."""
    for parts in _list_message_places():
        yield from list_files(run.path(*parts))
    yield from list_files(run.path(TRASH))


def is_link(location: str) -> bool:
    """Whether a location is a symbolic link. Only a local disk has links."""
    filesystem, root = fsspec.url_to_fs(location)
    return isinstance(filesystem, LocalFileSystem) and Path(root).is_symlink()


def require_own_directory(run: Run) -> None:
    """Raises RunError if the run's directory, or a part of it that a deletion touches, is a symbolic link."""
    for parts in ((), ("state",), ("tables",), (TRASH,), *_list_message_places()):
        if is_link(run.path(*parts)):
            raise RunError(f"{run.path(*parts)} is a link: what it points to is not deleted; delete it by hand")


def delete_tables(run: Run) -> None:
    """Delete the tables of messages and the records of clients. `TablesDeletion` must exist. Raises OSError."""
    filesystem, root = fsspec.url_to_fs(run.directory)
    for parts in _list_message_places():
        _delete(filesystem, root, "/".join(parts))
    _empty_trash(filesystem, root)


def delete_run(directory: str) -> None:
    """Delete a run's directory. `RunDeletion` must exist. Raises OSError."""
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
        # Some filesystems keep the empty directories.
        filesystem.rm(root, recursive=True)


def has_trash(location: str) -> bool:
    """Whether a deletion below a location was interrupted after it had renamed something."""
    filesystem, root = fsspec.url_to_fs(f"{location}/{TRASH}")
    return bool(filesystem.exists(root))


def empty_trash(location: str) -> None:
    """Delete the data that an interrupted deletion has renamed. Raises OSError."""
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
        # An earlier deletion of the same name was interrupted.
        shutil.rmtree(target)
    try:
        Path(root, name).rename(target)
    except FileNotFoundError:
        return


def _empty_trash(filesystem: fsspec.AbstractFileSystem, root: str) -> None:
    if isinstance(filesystem, LocalFileSystem) and Path(root, TRASH).is_dir():
        # `rmtree` follows no link.
        shutil.rmtree(Path(root, TRASH))


def _find_modification(facts: dict[str, Any]) -> datetime | None:
    """Return when a file was last written. Each filesystem has its own key for this time."""
    for name in ("mtime", "LastModified", "last_modified", "modified", "updated", "created"):
        found = facts.get(name)
        if isinstance(found, datetime):
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        if isinstance(found, int | float):
            return datetime.fromtimestamp(found, UTC)
    return None
