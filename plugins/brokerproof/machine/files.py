"""Writes whole files, and checks that their disk has room for a run.

A file is written under a temporary name and then renamed, so that a reader never sees half a file.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import fsspec
import psutil

from brokerproof.errors import MachineError

# The permissions of a file that only this user may read.
PRIVATE = 0o600
# The unpacked distribution takes 0.5 GB, its archive 0.4 GB, a run's nodes up to 1 GB. The rest is for its tables.
NEEDED_GB = 3
# Nodes are configured to stop writing if their disk is fuller than this share. The default 0.95 leaves much unused.
FULL_SHARE = 0.99


def write_whole(path: Path, content: str | bytes, *, permissions: int = 0o666) -> None:
    """Write or replace a local file. Its permissions are `permissions` minus the process's umask.

    Raises MachineError if the file cannot be written.
    """
    try:
        with stage_file(path) as unfinished:
            # The file is created with its final permissions, because it may contain a secret.
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, permissions)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise describe_failure(str(path), error) from error


@contextmanager
def stage_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`, at which the block writes a file. The file is then renamed to `path`.

    If the block fails, the file is removed.
    """
    unfinished = path.with_name(_unfinished_name(path.name))
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def stage_object(location: str, mode: str) -> Iterator[IO[Any]]:
    """Yield a new file that is open in `mode`. At the end of the block, it gets its final name `location`.

    `location` is any path or URL that fsspec knows; missing directories are made. If the block fails, the unfinished
    file is removed. Raises MachineError if the file cannot be written.
    """
    filesystem, path = fsspec.url_to_fs(location)
    directory, _, name = path.rpartition("/")
    unfinished = f"{directory}/{_unfinished_name(name)}"
    try:
        filesystem.makedirs(directory, exist_ok=True)
        with filesystem.open(unfinished, mode) as file:
            yield file
        filesystem.mv(unfinished, path)
    except BaseException as error:
        with suppress(OSError):
            filesystem.rm(unfinished)
        if isinstance(error, OSError):
            raise describe_failure(location, error) from error
        raise


def find_link(directory: Path, *, shallow: Collection[str] = ()) -> Path | None:
    """Return a symbolic link below a directory, or None. No link is followed, and `directory` itself may be one.

    Of the directories that `shallow` names, only the direct entries are examined.
    """
    for folder, folders, files in os.walk(directory):
        here = Path(folder)
        if link := next((here / name for name in sorted((*folders, *files)) if (here / name).is_symlink()), None):
            return link
        if here != directory and str(here.relative_to(directory)) in shallow:
            folders.clear()
    return None


def remove_abandoned_files(directory: Path) -> None:
    """Remove each unfinished file below a directory if a process of this machine wrote it, and no longer runs.

    Other machines may share the directory. Their files stay, because this machine cannot see their processes.
    """
    # Another program may append an ending, as Java does.
    ours = re.compile(rf"\..+@{re.escape(socket.gethostname())}\.(?P<pid>\d+)-\d+(\.\w+)?")
    for file in directory.rglob(".*"):
        if (name := ours.fullmatch(file.name)) and not psutil.pid_exists(int(name["pid"])):
            file.unlink(missing_ok=True)


def measure_usable_gb(path: Path) -> float:
    """Return how many GiB nodes can write to a directory before they report the disk as full.

    The directory need not exist yet.
    """
    disk = shutil.disk_usage(next(parent for parent in (path, *path.parents) if parent.exists()))
    return (disk.free - (1 - FULL_SHARE) * disk.total) / 2**30


def check_disk_space(path: Path) -> None:
    """Raises MachineError if nodes can write less than `NEEDED_GB` to a directory."""
    found = measure_usable_gb(path.absolute())
    if found < NEEDED_GB:
        raise MachineError(
            f"the disk of {path} has room for {max(found, 0):.1f} GB, and a run needs {NEEDED_GB}; free some, or set "
            "BROKERPROOF_VAR to a directory on another disk"
        )


def _unfinished_name(name: str) -> str:
    # The name begins with a dot, because Spark ignores such files when it reads a table.
    return f".{name}@{socket.gethostname()}.{os.getpid()}-{threading.get_ident()}"


def describe_failure(location: str, error: OSError) -> MachineError:
    """Return the error that says that a file or directory cannot be written, and what to do."""
    reason = error.strerror or str(error)
    return MachineError(
        f"{location} cannot be written: {reason}; free space on the disk, or allow this user to write to the directory"
    )
