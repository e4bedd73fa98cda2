"""A real PostgreSQL for tests, on loopback, with a directory, a port and a password of its own."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from brokerproof.clock import wait_until
from missing_parts import leave_out
from sqlalchemy import URL, NullPool, create_engine, text
from sqlalchemy.exc import OperationalError

_USER = "brokerproof"
# Debian keeps the programs of each version in a directory of its own, which is not on PATH.
_DEBIAN = Path("/usr/lib/postgresql")
# Root may not run a server. Debian's package makes this user.
_UNPRIVILEGED = "postgres"


def _find_programs() -> Path | None:
    """The directory of `initdb` and `postgres`, the newest one; None where there is none."""
    if (initdb := shutil.which("initdb")) is not None:
        return Path(initdb).resolve().parent
    found = [file.parent for file in _DEBIAN.glob("*/bin/initdb")]
    return max(found, key=lambda programs: float(programs.parent.name), default=None)


class Postgresql:
    """Makes databases in a PostgreSQL that runs."""

    def __init__(self, url: URL) -> None:
        self._url = url

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which libpq reaches it as its superuser."""
        names = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "username", "PGPASSWORD": "password"}
        return {name: str(getattr(self._url, part)) for name, part in names.items()}

    def make_url(self, user: str, password: str, database: str) -> str:
        """The URL of a user of a database, whether they exist or not."""
        url = self._url.set(username=user, password=password, database=database)
        return url.render_as_string(hide_password=False)

    def create_database(self) -> str:
        """The URL of a new, empty database, with its password."""
        name = f"test_{uuid.uuid4().hex}"
        self._execute(f"CREATE DATABASE {name}")
        return self._url.set(database=name).render_as_string(hide_password=False)

    def drop_database(self, url: str) -> None:
        """Remove a database, whoever is connected to it."""
        self._execute(f"DROP DATABASE {url.rsplit('/', 1)[-1]} WITH (FORCE)")

    def is_ready(self) -> bool:
        """Whether it lets its user in."""
        try:
            self._execute("SELECT 1")
        except OperationalError:
            return False
        return True

    def _execute(self, statement: str) -> None:
        # Databases are not made and removed in transactions.
        engine = create_engine(self._url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            connection.execute(text(statement))


@contextmanager
def run_postgresql() -> Iterator[Postgresql]:
    """Run a new server whose databases are empty. A machine without PostgreSQL leaves the test out.

    Its isolation, locks and limits are those of the defaults. Only what protects its files from a machine that goes
    down is turned off, because they are removed at the end.
    """
    programs = _find_programs()
    if programs is None:
        leave_out("no PostgreSQL: install the package postgresql")
    password = secrets.token_hex(16)
    identity: dict[str, Any] = {}
    # Not in pytest's directory, in which another user may look at nothing.
    with tempfile.TemporaryDirectory(prefix="brokerproof-postgresql-") as name:
        directory = Path(name)
        password_file = directory / "password"
        password_file.write_text(password)
        if os.getuid() == 0:
            account = pwd.getpwnam(_UNPRIVILEGED)
            identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            for path in (directory, password_file):
                os.chown(path, account.pw_uid, account.pw_gid)
        options = {"username": _USER, "pwfile": password_file, "auth": "scram-sha-256", "encoding": "UTF8"}
        subprocess.run(
            [programs / "initdb", "--no-sync", *_list_options(options), directory / "data"],
            cwd=directory,
            stdout=subprocess.PIPE,
            check=True,
            **identity,
        )
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off"}
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [programs / "postgres", "-D", directory / "data", *_list_options(settings)],
                cwd=directory,
                stdout=log,
                stderr=log,
                **identity,
            )
        try:
            address = {"host": "127.0.0.1", "port": port, "database": "postgres"}
            server = Postgresql(URL.create("postgresql+psycopg", username=_USER, password=password, **address))

            def is_up() -> bool:
                assert process.poll() is None, (directory / "log").read_text(errors="replace")
                return server.is_ready()

            wait_until(is_up, timeout_s=60, what="PostgreSQL to let its user in")
            yield server
        finally:
            # It ends the connections, and does not wait until their clients end them.
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


def _list_options(values: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]
