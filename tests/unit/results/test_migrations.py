"""The migrations make the tables of the models, and can be reversed."""

from __future__ import annotations

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from brokerproof.results.history import open_history
from brokerproof.results.history_database import HistoryError, make_migration_config
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


@pytest.mark.parametrize("revision", ["0006", "9999"])
def test_a_history_of_another_version_is_refused(history, database_url, revision):
    with create_engine(database_url).begin() as connection:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{revision}'"))

    with pytest.raises(HistoryError, match=rf"made by another version of Brokerproof \(its schema is {revision}\)"):
        open_history(database_url)
