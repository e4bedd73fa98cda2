"""Leases: locked files by which all processes of this user share the machine, whichever checkout they belong to.

A process holds a lease by locking its file. A process that inherits the file's descriptor holds the lease too. The
kernel frees the lock when the last process with the open file ends, so a killed process leaves no lease.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from brokerproof.errors import MachineError
from brokerproof.settings import from_environment


def find_directory(kind: str) -> Path:
    """Return the directory of this user's leases of one kind, such as `slots`.

    Raises MachineError if the parent of this directory belongs to another user.
    """
    path = from_environment().leases
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise MachineError(f"{path} belongs to another user; set BROKERPROOF_LEASES to a directory of your own")
    directory = path / kind
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def lock_file(path: Path) -> int | None:
    """Lock a file, and return its descriptor; None if another process holds the lock.

    Raises MachineError if the file system has no locks.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # Not fcntl or lockf: their locks belong to this process and end with it, even if another one has the file open.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise MachineError(
            f"no file can be locked in {path.parent}: {error.strerror}; set BROKERPROOF_LEASES"
        ) from error
    return descriptor
