"""Files that are written whole: under another name, and renamed, so that no reader ever sees half of one."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import fsspec
import psutil

from brokerproof.errors import MachineError

_UNFINISHED = re.compile(r"\..+\.(?P<pid>\d+)-\d+")

# For a file that only this user may read.
PRIVATE = 0o600


def write_whole(path: Path, content: str | bytes, *, permissions: int = 0o666) -> None:
    """Write a file of this machine; the process's umask takes from its permissions, as always.

    Raises MachineError where it cannot be written.
    """
    try:
        with stage_file(path) as unfinished:
            # The file has its permissions from the first moment on, because it may hold a secret.
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, permissions)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise _describe_failure(str(path), error) from error


@contextmanager
def stage_file(path: Path) -> Iterator[Path]:
    """A name beside `path` to write a file under, which becomes `path` at the end of the block.

    For files that another program writes. Nothing is left where the block fails.
    """
    unfinished = path.with_name(_unfinished_name(path.name))
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def stage_object(location: str, mode: str) -> Iterator[IO[Any]]:
    """A file at any location that fsspec knows, open for writing, which gets its name at the end of the block.

    Makes the directory. Raises MachineError where it cannot be written; nothing is left then.
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
            raise _describe_failure(location, error) from error
        raise


def remove_abandoned_files(directory: Path) -> None:
    """Remove what processes of this machine were writing below a directory when they were killed."""
    for file in directory.rglob(".*"):
        if (name := _UNFINISHED.fullmatch(file.name)) and not psutil.pid_exists(int(name["pid"])):
            file.unlink(missing_ok=True)


def _unfinished_name(name: str) -> str:
    # Spark takes files whose names begin with a dot for no part of a table.
    return f".{name}.{os.getpid()}-{threading.get_ident()}"


def _describe_failure(location: str, error: OSError) -> MachineError:
    reason = error.strerror or str(error)
    return MachineError(f"{location} cannot be written: {reason}; make room, or let the directory be written to")
