"""The database of the embedded Airflow is its own file, or the one that the user names."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from brokerproof.orchestration.embedded import airflow_supervisor
from brokerproof.orchestration.embedded.airflow_supervisor import DagFiles, migrate_database
from brokerproof.orchestration.embedded.environment import (
    ASYNC_DATABASE_URL,
    CLEANED_DATABASE_URL,
    DATABASE_URL,
    build_airflow_environment,
    build_database_environment,
)
from brokerproof.settings import from_environment

HOME = Path("/home/of/airflow")
PSYCOPG = "postgresql+psycopg://me:secret@db/airflow"


@pytest.mark.parametrize(
    ("given", "used"),
    [
        pytest.param({}, {DATABASE_URL: f"sqlite:///{HOME}/airflow.db"}, id="nothing"),
        pytest.param({DATABASE_URL: ""}, {DATABASE_URL: f"sqlite:///{HOME}/airflow.db"}, id="empty"),
        pytest.param(
            {DATABASE_URL: "postgresql://me:secret@db/airflow"},
            {DATABASE_URL: PSYCOPG, ASYNC_DATABASE_URL: PSYCOPG},
            id="no driver",
        ),
        pytest.param(
            {DATABASE_URL: "postgres://me:secret@db/airflow"},
            {DATABASE_URL: PSYCOPG, ASYNC_DATABASE_URL: PSYCOPG},
            id="the short name",
        ),
        pytest.param({DATABASE_URL: PSYCOPG}, {DATABASE_URL: PSYCOPG, ASYNC_DATABASE_URL: PSYCOPG}, id="psycopg"),
        pytest.param(
            {DATABASE_URL: "postgresql+psycopg2://db/airflow"},
            {DATABASE_URL: "postgresql+psycopg2://db/airflow"},
            id="another driver",
        ),
        pytest.param(
            {DATABASE_URL: PSYCOPG, ASYNC_DATABASE_URL: "postgresql+asyncpg://db/airflow"},
            {DATABASE_URL: PSYCOPG, ASYNC_DATABASE_URL: "postgresql+asyncpg://db/airflow"},
            id="both",
        ),
        pytest.param({DATABASE_URL: "mysql://db/airflow"}, {DATABASE_URL: "mysql://db/airflow"}, id="another system"),
    ],
)
def test_the_users_database_is_used_and_otherwise_a_file(given: dict[str, str], used: dict[str, str]) -> None:
    assert build_database_environment(HOME, given) == used


@pytest.mark.parametrize("url", ["", PSYCOPG])
def test_airflows_processes_get_it_and_no_second_variable_of_another_database(
    scenarios: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    settings = from_environment()
    settings.airflow_home.mkdir(parents=True)
    monkeypatch.setenv(DATABASE_URL, url)
    monkeypatch.setenv(ASYNC_DATABASE_URL, "")
    environment = build_airflow_environment(settings, 1)
    assert environment[DATABASE_URL] == (url or f"sqlite:///{settings.airflow_home}/airflow.db")
    assert environment.get(ASYNC_DATABASE_URL) == (url or None)
    assert environment[CLEANED_DATABASE_URL] == environment[DATABASE_URL]


def test_its_own_file_is_migrated_once_and_another_database_whenever_airflow_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    migrated: list[list[str]] = []

    def migrate(arguments: list[str], _: Path) -> SimpleNamespace:
        migrated.append(arguments)
        (tmp_path / "airflow.db").touch()
        return SimpleNamespace(join=lambda: None, exitcode=0)

    monkeypatch.setattr(airflow_supervisor, "fork_airflow", migrate)
    for url, times in ((PSYCOPG, 1), (PSYCOPG, 2), ("", 3), ("", 3), (PSYCOPG, 4)):
        for name, value in build_database_environment(tmp_path, {DATABASE_URL: url}).items():
            monkeypatch.setenv(name, value)
        migrate_database(tmp_path)
        assert migrated == [["db", "migrate"]] * times


def test_the_dag_files_have_a_new_time_if_a_source_changes_and_only_then(tmp_path: Path) -> None:
    dags, scenarios, missing = tmp_path / "dags", tmp_path / "scenarios", tmp_path / "missing"
    dags.mkdir()
    scenarios.mkdir()
    dag, scenario = dags / "resilience.py", scenarios / "mine.yaml"

    def was_refreshed(files: DagFiles) -> bool:
        os.utime(dag, (0, 0))
        files.refresh_if_changed()
        return dag.stat().st_mtime > 0

    dag.touch()
    files = DagFiles(dags, [scenarios, missing])
    assert not was_refreshed(files)
    scenario.touch()
    assert was_refreshed(files)
    assert not was_refreshed(files)
    os.utime(scenario, (1, 1))
    assert was_refreshed(files)
    missing.mkdir()
    (missing / "suite.json").touch()
    assert was_refreshed(files)
    scenario.unlink()
    assert was_refreshed(files)
    assert not was_refreshed(files)
