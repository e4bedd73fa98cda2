"""Where a run is that a command is given: a directory of this machine, or a URL that fsspec knows."""

from __future__ import annotations

from pathlib import Path

from brokerproof.errors import InputError
from brokerproof.run.directory import Run


def open_run(location: str) -> Run:
    """The run at a directory or URL. Raises InputError where there is none, or where nobody can look."""
    run = Run(make_absolute(location))
    remedy = "give a directory of var/runs/, or the URL of a run's directory"
    try:
        found = run.exists("run.json")
    except (OSError, ValueError, ImportError) as error:
        # No file can have this name, or nothing that is installed reads such a URL.
        raise InputError(f"cannot be read: {error}", file=run.directory, remedy=remedy) from None
    if not found:
        raise InputError("holds no run", file=run.directory, remedy=remedy)
    return run


def make_absolute(location: str) -> str:
    """The location wherever it is named from; a URL is absolute."""
    return location.rstrip("/") if "://" in location else str(Path(location).expanduser().resolve())
