"""The supervisor: the process that starts the embedded Airflow's components, such as the scheduler.

Its command is `python -m THIS_MODULE HOME DAGS SOURCES COMPONENT …`. It migrates Airflow's database, starts the
components, restarts a component that ended, and ends all of them on SIGTERM or SIGINT. SOURCES are directories,
separated by `:`. If a file in them changes, the supervisor makes Airflow parse the files of the directory DAGS again.
To stay small, it does not import Airflow.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

DATABASE_URL = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
_PAUSE_BEFORE_RESTART_S = 5


class Component:
    """A process that runs `airflow NAME`, and writes its output to `NAME.log` in the directory `logs`."""

    def __init__(self, name: str, logs: Path) -> None:
        self.name = name
        self._log = logs / f"{name}.log"
        # The scheduler's log server would listen on all addresses. The API server reads the log files without it.
        self._arguments = [name, "--skip-serve-logs"] if name == "scheduler" else [name]
        self.process = self._start_process()

    def _start_process(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "airflow", *self._arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def restart_if_ended(self) -> None:
        if (status := self.process.poll()) is not None:
            print(f"{self.name} ended with status {status}; starting it again, see {self._log}", flush=True)
            self.process = self._start_process()


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
    with (home / "logs" / "migration.log").open("ab") as log:
        status = subprocess.call([sys.executable, "-m", "airflow", "db", "migrate"], stdout=log, stderr=log)
    if status:
        sys.exit(f"`airflow db migrate` ended with status {status}, see {home / 'logs' / 'migration.log'}")
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
    migrate_database(home)
    components = [Component(name, home / "logs") for name in names]
    while not end_requested.wait(_PAUSE_BEFORE_RESTART_S):
        for component in components:
            component.restart_if_ended()
        files.refresh_if_changed()
    for component in components:
        component.process.terminate()
    for component in components:
        component.process.wait()


if __name__ == "__main__":
    os.umask(0o022)
    main()
