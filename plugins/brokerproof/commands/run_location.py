"""The location of a run as the user gives it: a directory of this machine, or a URL that fsspec knows."""

from __future__ import annotations

from pathlib import Path

from brokerproof.errors import InputError
from brokerproof.run.directory import Run


def open_run(location: str) -> Run:
    """Return the run in a directory or at a URL. Raises InputError if it has no run or cannot be read."""
    run = Run(make_absolute(location))
    remedy = "give a directory of var/runs/, or the URL of a run's directory"
    try:
        found = run.exists("run.json")
    except (OSError, ValueError, ImportError) as error:
        # No file can have this name, or no installed package reads such a URL.
        raise InputError(f"cannot be read: {error}", file=run.directory, remedy=remedy) from None
    if not found:
        raise InputError("holds no run", file=run.directory, remedy=remedy)
    return run


def make_absolute(location: str) -> str:
    """Return the absolute path of a directory, or the URL without a slash at its end."""
    return location.rstrip("/") if "://" in location else str(Path(location).expanduser().resolve())
