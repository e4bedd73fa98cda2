"""The users that deploy/airflow/databases.py makes, on a real server: a reader of the history that cannot change it."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml
from own_postgresql import Postgresql
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import Engine, NullPool, create_engine, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from .test_history import PlantRuns, plant_runs

__all__ = ["plant_runs"]

# Airflow reads its configuration when it is first imported.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="brokerproof-airflow-")
atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)

import httpx  # noqa: E402
from airflow.api_fastapi.common.db.common import _get_session  # noqa: E402
from airflow.api_fastapi.core_api.security import get_user  # noqa: E402
from brokerproof.cli import main  # noqa: E402
from brokerproof.orchestration.airflow_pages import report_app  # noqa: E402
from brokerproof.results.history import open_history, open_history_to_read  # noqa: E402
from brokerproof.results.history_database import HistoryError  # noqa: E402
from builders import ROOT  # noqa: E402

AIRFLOW = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
HISTORY, READER = "BROKERPROOF_DATABASE_URL", "BROKERPROOF_HISTORY_READER_URL"


@dataclass(frozen=True, kw_only=True)
class Users:
    """The three URLs of a platform's services."""

    server: Postgresql
    airflow: str
    history: str
    reader: str

    def initialize(self) -> None:
        """What the service `initialize` does before all others start."""
        subprocess.run(
            [sys.executable, ROOT / "deploy" / "airflow" / "databases.py"],
            env={
                **os.environ,
                **self.server.environment,
                **{AIRFLOW: self.airflow, HISTORY: self.history, READER: self.reader},
            },
            check=True,
        )


def connect(url: str) -> Engine:
    return create_engine(url, poolclass=NullPool)


def execute(url: str, statement: str) -> None:
    with connect(url).begin() as connection:
        connection.execute(text(statement))


@contextmanager
def name_users(server: Postgresql) -> Iterator[Users]:
    """URLs of users and databases that the server does not have yet."""
    mark = uuid.uuid4().hex[:8]
    users = Users(
        server=server,
        airflow=server.make_url(f"airflow_{mark}", "airflow's", f"airflow_{mark}"),
        # A password as people write one, with what SQL and URLs write in another way.
        history=server.make_url(f"history_{mark}", "history's \" % :/@", f"history_{mark}"),
        reader=server.make_url(f"reader_{mark}", "reader's", f"history_{mark}"),
    )
    yield users
    for url in (users.airflow, users.history):
        server.drop_database(url)


@pytest.fixture
def users(server: Postgresql) -> Iterator[Users]:
    with name_users(server) as users:
        yield users


@pytest.fixture(scope="module")
def initialized(server: Postgresql) -> Iterator[Users]:
    """The users are made, and the tables of the history."""
    with name_users(server) as users:
        users.initialize()
        open_history(users.history).close()
        yield users


@pytest.fixture
def platform(initialized: Users, monkeypatch: pytest.MonkeyPatch) -> Users:
    """The same, and this process only reads."""
    monkeypatch.setenv(READER, initialized.reader)
    monkeypatch.delenv(HISTORY, raising=False)
    return initialized


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO alembic_version VALUES ('x')",
        "UPDATE runs SET verdict = 'passed'",
        "DELETE FROM runs",
        "TRUNCATE runs CASCADE",
        "ALTER TABLE runs ADD COLUMN planted INTEGER",
        "DROP TABLE checks",
        "CREATE TABLE planted (mine INTEGER)",
        "CREATE TEMPORARY TABLE planted (mine INTEGER)",
        "CREATE SCHEMA planted",
        "CREATE ROLE planted",
        "ALTER TABLE runs OWNER TO CURRENT_USER",
        "COPY runs TO PROGRAM 'true'",
    ],
)
def test_the_server_refuses_every_change_of_the_reader(platform: Users, statement: str) -> None:
    """Without the read-only transactions with which Brokerproof reads."""
    execute(platform.reader, "SELECT count(*) FROM runs")
    with pytest.raises(ProgrammingError) as error:
        execute(platform.reader, statement)
    assert isinstance(error.value.orig, InsufficientPrivilege)


def test_a_transaction_that_reads_changes_nothing_even_of_a_user_who_may(platform: Users) -> None:
    with (
        open_history(platform.history) as history,
        pytest.raises(HistoryError, match="cannot execute DELETE in a read-only transaction"),
        history._begin_reading() as session,
    ):
        session.execute(text("DELETE FROM runs"))


def test_the_reader_and_airflow_reach_no_database_of_another_service(platform: Users) -> None:
    execute(platform.history, "SELECT 1")
    for user, database in ((platform.reader, platform.airflow), (platform.airflow, platform.history)):
        url = f"{user.rpartition('/')[0]}/{database.rpartition('/')[2]}"
        with pytest.raises(OperationalError, match="permission denied for database"):
            execute(url, "SELECT 1")
    with pytest.raises(OperationalError, match="permission denied for database"):
        execute(f"{platform.reader.rpartition('/')[0]}/postgres", "SELECT 1")


def test_the_reader_reads_tables_that_are_made_later(platform: Users) -> None:
    execute(platform.history, "CREATE TABLE made_later (number INTEGER)")
    execute(platform.reader, "SELECT * FROM made_later")


def test_a_platform_of_an_earlier_version_gets_the_reader_and_keeps_its_runs(
    users: Users, plant_runs: PlantRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The volume was made by the script of that version, which knew two users."""
    name = users.history.rpartition("/")[2]
    superuser = users.server.environment
    at = users.server.make_url(superuser["PGUSER"], superuser["PGPASSWORD"], "postgres")
    with create_engine(at, isolation_level="AUTOCOMMIT", poolclass=NullPool).connect() as connection:
        for statement in (
            f"CREATE USER {name} PASSWORD 'an older one'",
            f"CREATE DATABASE {name} OWNER {name} ENCODING 'UTF8' TEMPLATE template0",
            f"REVOKE ALL ON DATABASE {name} FROM PUBLIC",
        ):
            connection.execute(text(statement))
    older = users.server.make_url(name, "an older one", name)
    [run] = plant_runs("r", 1)
    with open_history(older) as history:
        history.record(run)
    users.initialize()
    monkeypatch.setenv(READER, users.reader)
    with open_history_to_read() as history:
        assert history.list_run_ids() == ["r-0"]
    with open_history(users.history) as history:
        assert history.list_run_ids() == ["r-0"]


def test_a_changed_password_takes_effect_at_the_next_start(users: Users) -> None:
    urls = {name: getattr(users, name).replace("%27s", "%27s-new") for name in ("airflow", "history", "reader")}
    changed = replace(users, **urls)
    assert changed != users
    for each in (users, changed):
        each.initialize()
    for name in ("airflow", "history", "reader"):
        execute(getattr(changed, name), "SELECT 1")
        with pytest.raises(OperationalError, match="password authentication failed"):
            execute(getattr(users, name), "SELECT 1")


def test_no_password_is_in_the_servers_statements(platform: Users) -> None:
    """The server keeps what it needs to check a password, and never sees the password itself."""
    superuser = platform.server.environment
    at = platform.server.make_url(superuser["PGUSER"], superuser["PGPASSWORD"], "postgres")
    with connect(at).connect() as connection:
        kept = connection.scalars(text("SELECT rolpassword FROM pg_authid WHERE rolname LIKE 'reader_%'")).all()
    assert kept
    assert all(each.startswith("SCRAM-SHA-256$") for each in kept)


def test_a_history_whose_tables_are_not_made_yet_is_named(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    users.initialize()
    monkeypatch.setenv(READER, users.reader)
    with pytest.raises(HistoryError, match="has no tables yet, and this process may only read it"):
        open_history_to_read()


def test_only_what_records_runs_may_write_and_only_initialize_is_superuser() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]

    def list_services(secret: str) -> set[str]:
        return {name for name, service in services.items() if secret in service.get("secrets", [])}

    assert list_services("history_database_url") == {"scheduler", "initialize"}
    assert list_services("postgres_password") == {"postgres", "initialize"}
    readers = {"results", "api-server", "dag-processor", "scheduler", "initialize"}
    assert list_services("history_reader_url") == readers


@pytest.fixture
def fetch(platform: Users, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], httpx.Response]:
    """Fetch a page as a user who may read every scenario, from an API server that may only read the history."""
    monkeypatch.setattr(report_app, "_authorize", lambda scenario, user: None)
    monkeypatch.setattr(report_app, "_link_to_airflow", lambda session, place, page: ([], []))
    monkeypatch.setattr(report_app, "_list_readable_scenarios", lambda user: {"nominal"})
    app = report_app.make_report_app()
    app.dependency_overrides = {get_user: lambda: None, _get_session: lambda: None}

    def get(path: str) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://brokerproof") as client:
                return await client.get(path)

        return asyncio.run(send())

    return get


def test_every_page_metric_and_reading_command_works_as_the_reader(
    platform: Users,
    plant_runs: PlantRuns,
    fetch: Callable[[str], httpx.Response],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with open_history(platform.history) as history:
        for run in plant_runs("r", 3):
            history.record(run)
    for path in (
        "/",
        "/scenarios/nominal",
        "/scenarios/nominal/groups",
        "/campaigns",
        "/runs/r-0",
        "/runs/r-0/tables/publishes",
        "/runs/r-0/messages/p0/0",
        "/compare?a=r-0&b=r-1",
        "/dags/nominal",
    ):
        answer = fetch(path)
        assert answer.status_code == 200, (path, answer.text[:300])
    assert "brokerproof_last_run_verdict" in fetch("/metrics").text
    for command in (["history", "nominal"], ["history", "--compare", "r-0", "r-1"], ["badge"], ["metrics"]):
        assert main(command) == 0, command
    assert 'scenario="nominal"' in capsys.readouterr().out


def test_a_process_that_may_only_read_refuses_to_prune(
    platform: Users, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path))
    assert main(["prune"]) == 2
    assert "this process may only read the history; set BROKERPROOF_DATABASE_URL" in capsys.readouterr().err
