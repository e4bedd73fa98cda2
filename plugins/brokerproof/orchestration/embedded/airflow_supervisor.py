"""The supervisor: the process that starts the embedded Airflow's components, such as the scheduler.

Its command is `python -m THIS_MODULE HOME DAGS SOURCES COMPONENT …`. It migrates Airflow's database, starts the
components, restarts a component that ended, and ends all of them on SIGTERM or SIGINT. SOURCES are directories,
separated by `:`. If a file in them changes, the supervisor makes Airflow parse the files of the directory DAGS again.
It loads Airflow once, and each component is a fork of it, which saves processor time at the start, and memory.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from setproctitle import setproctitle

DATABASE_URL = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
_PAUSE_BEFORE_RESTART_S = 5
# Airflow is imported only by name, because Brokerproof's command line imports this module and must not load Airflow.
_PROGRAM = "airflow.__main__"
# The modules of Airflow that take longest to load.
_LARGEST_MODULES = (
    _PROGRAM,
    "airflow.cli.cli_config",
    "airflow.cli.commands.api_server_command",
    "airflow.cli.commands.dag_processor_command",
    "airflow.cli.commands.scheduler_command",
    "airflow.api_fastapi.app",
    "airflow.api_fastapi.core_api.app",
    "airflow.api_fastapi.execution_api.app",
    "airflow.dag_processing.manager",
    "airflow.jobs.scheduler_job_runner",
)


class Component:
    """A process that runs `airflow NAME`, and writes its output to `NAME.log` in the directory `logs`."""

    def __init__(self, name: str, logs: Path) -> None:
        self.name = name
        self._log = logs / f"{name}.log"
        # The scheduler's log server would listen on all addresses. The API server reads the log files without it.
        self._arguments = [name, "--skip-serve-logs"] if name == "scheduler" else [name]
        self.process = fork_airflow(self._arguments, self._log)

    def restart_if_ended(self) -> None:
        if (status := self.process.exitcode) is not None:
            print(f"{self.name} ended with status {status}; starting it again, see {self._log}", flush=True)
            self.process = fork_airflow(self._arguments, self._log)


def fork_airflow(arguments: Sequence[str], log: Path) -> BaseProcess:
    """Start `airflow ARGUMENTS` as a copy of this process, so that Airflow is loaded once for all components."""
    # By this name, Airflow's scheduler recognizes the process in which it has to end on SIGTERM.
    process = multiprocessing.get_context("fork").Process(
        target=_run_airflow, name="MainProcess", args=(arguments, log)
    )
    process.start()
    return process


def _run_airflow(arguments: Sequence[str], log: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    sys.argv = ["airflow", *arguments]
    setproctitle(" ".join(sys.argv))
    importlib.import_module(_PROGRAM).main()


def load_airflow() -> None:
    """Import what the components have in common, and keep the garbage collector from touching it in each of them."""
    for module in _LARGEST_MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()


class DagFiles:
    """The files from which Airflow makes DAGs, and the scenarios, topologies and suites that these files read."""

    def __init__(self, dags: Path, sources: Sequence[Path]) -> None:
        self._dags, self._sources = dags, sources
        self._seen = self._read_times()

    def refresh_if_changed(self) -> None:
        """Give the DAG files a new time of change if a source has changed. Airflow parses a file with a new time soon.

        If these files belong to another user, Airflow parses them only at its own interval.
        """
        if (found := self._read_times()) == self._seen:
            return
        self._seen = found
        for file in self._dags.glob("*.py"):
            with suppress(OSError):
                os.utime(file)

    def _read_times(self) -> dict[str, int]:
        times: dict[str, int] = {}
        for directory in self._sources:
            # A directory or a file may vanish meanwhile.
            with suppress(OSError), os.scandir(directory) as entries:
                times |= {entry.path: entry.stat().st_mtime_ns for entry in entries}
        return times


def make_own_url(home: Path) -> str:
    """Return the URL of the embedded Airflow's own database, a SQLite file."""
    return f"sqlite:///{home / 'airflow.db'}"


def migrate_database(home: Path) -> None:
    """Migrate Airflow's database to the installed version of Airflow. If that fails, exit with status 1.

    The embedded Airflow's own database file is migrated once for each version. A database that the user names is
    migrated at every start, because other people can empty it or replace it with an older one.
    """
    own_file = home / "airflow.db" if os.environ.get(DATABASE_URL) == make_own_url(home) else None
    done = home / f"database-{importlib.metadata.version('apache-airflow-core')}"
    if own_file is not None and own_file.exists() and done.exists():
        return
    log = home / "logs" / "migration.log"
    migration = fork_airflow(["db", "migrate"], log)
    migration.join()
    if migration.exitcode:
        sys.exit(f"`airflow db migrate` ended with status {migration.exitcode}, see {log}")
    if own_file is not None:
        done.touch()


def main() -> None:
    home, dags, sources, *names = sys.argv[1:]
    run(Path(home), DagFiles(Path(dags), [Path(source) for source in sources.split(os.pathsep)]), names)


def run(home: Path, files: DagFiles, names: Sequence[str]) -> None:
    """Run the components until a signal ends this process."""
    end_requested = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: end_requested.set())
    signal.signal(signal.SIGINT, lambda *_: end_requested.set())
    load_airflow()
    migrate_database(home)
    components = [Component(name, home / "logs") for name in names]
    while not end_requested.wait(_PAUSE_BEFORE_RESTART_S):
        for component in components:
            component.restart_if_ended()
        files.refresh_if_changed()
    for component in components:
        component.process.terminate()
    for component in components:
        component.process.join()


if __name__ == "__main__":
    os.umask(0o022)
    main()
