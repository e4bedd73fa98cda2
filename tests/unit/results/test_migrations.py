"""The migrations make the tables of the models, and can be reversed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from brokerproof.results.history import open_history
from brokerproof.results.history_database import HistoryError
from brokerproof.results.history_migration import make_migration_config
from brokerproof.results.history_schema import Base
from sqlalchemy import create_engine, inspect, text


def test_models_and_migrations_do_not_differ(history, database_url):
    with create_engine(database_url).connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})

        assert compare_metadata(context, Base.metadata) == []


def test_a_table_that_the_models_do_not_have_is_a_difference(history, database_url):
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE checks ADD COLUMN planted INTEGER"))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)

        assert [difference[0] for difference in compare_metadata(context, Base.metadata)] == ["remove_column"]


def test_a_downgrade_removes_every_table_and_an_upgrade_creates_them_again(history, plant, judgement, database_url):
    history.record(plant(judged=judgement()))
    engine = create_engine(database_url)

    with engine.begin() as connection:
        command.downgrade(make_migration_config(connection), "base")
    assert inspect(engine).get_table_names() == ["alembic_version"]

    with open_history(database_url) as again:
        assert again.list_runs() == []
        again.record(plant("r2", judged=judgement()))
    assert set(inspect(engine).get_table_names()) == {*Base.metadata.tables, "alembic_version"}


def test_runs_recorded_before_a_migration_compare_with_runs_after_it(history, plant, judgement, database_url):
    history.record(plant(judged=judgement()))
    engine = create_engine(database_url)
    with engine.begin() as connection:
        (told,) = connection.execute(text("SELECT comparable FROM runs")).scalars()
        command.downgrade(make_migration_config(connection), "0001")
        connection.execute(text("UPDATE runs SET comparable = 'as it was told before'"))

    with open_history(database_url):
        pass

    with engine.begin() as connection:
        assert connection.execute(text("SELECT comparable FROM runs")).scalars().all() == [told]


def test_opening_again_changes_nothing(history, plant, judgement, database_url):
    history.record(plant(judged=judgement()))

    with open_history(database_url) as again:
        assert [run.run_id for run in again.list_runs()] == ["r1"]


def test_a_failed_migration_leaves_no_table(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 'history.db'}"
    engine = create_engine(url)
    # Planted: a table in the way of the last that the first migration makes.
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE anomaly_samples (mine INTEGER)"))

    with pytest.raises(HistoryError, match="anomaly_samples already exists"):
        open_history(url)

    assert inspect(engine).get_table_names() == ["anomaly_samples"]


def test_a_history_of_a_newer_version_is_refused(history, database_url):
    with create_engine(database_url).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(HistoryError, match="made by a newer Brokerproof"):
        open_history(database_url)


def test_of_a_run_recorded_before_deletions_nothing_was_deleted(history, plant, judgement, database_url):
    history.record(plant(judged=judgement()))
    with create_engine(database_url).begin() as connection:
        command.downgrade(make_migration_config(connection), "0003")
        assert "run_deleted_at" not in {column["name"] for column in inspect(connection).get_columns("runs")}

    with open_history(database_url) as again:
        [run] = again.list_runs()
        assert (run.deletion, run.verdict) == (None, "passed")
        at, why = datetime(2026, 1, 1, tzinfo=UTC), "after 30 days (BROKERPROOF_KEEP_RUNS_DAYS)"
        again.record_deletion("r1", run.run_dir, "run", at=at, why=why)
        assert again.find_run("r1").deletion == (
            "its directory was deleted on 2026-01-01, after 30 days (BROKERPROOF_KEEP_RUNS_DAYS)"
        )
