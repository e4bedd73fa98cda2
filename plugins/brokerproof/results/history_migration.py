"""The migration of the history's database to the newest schema."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import filelock
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from brokerproof.results.history_database import (
    DATABASE_URL,
    LOCK_TIMEOUT_S,
    HistoryError,
    describe_url,
    lock_for_writing,
)

_MIGRATIONS = Path(__file__).resolve().parent / "migrations"


def migrate_schema(engine: Engine) -> None:
    """Migrate the schema to the newest revision, one process at a time.

    Raises HistoryError if another version of Brokerproof made the schema.
    """
    scripts = ScriptDirectory(str(_MIGRATIONS))
    with engine.connect() as connection:
        if _read_revision(connection, scripts) == scripts.get_current_head():
            return
    if engine.dialect.name == "sqlite":
        with filelock.FileLock(f"{engine.url.database}.lock", timeout=LOCK_TIMEOUT_S):
            _turn_on_write_ahead_log(engine)
            with engine.connect() as connection:
                # SQLite alters a table by building it again. With foreign keys on, that would delete the rows that
                # refer to it in other tables.
                connection.connection.execute("PRAGMA foreign_keys=OFF")
                with connection.begin():
                    command.upgrade(make_migration_config(connection), "head")
        return
    with engine.begin() as connection:
        lock_for_writing(connection)
        command.upgrade(make_migration_config(connection), "head")


def make_migration_config(connection: Connection) -> Config:
    """Return Alembic's configuration for the packaged migrations on an open connection."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _read_revision(connection: Connection, scripts: ScriptDirectory) -> str | None:
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
        raise HistoryError(
            f"the history in {describe_url(connection.engine.url)} was made by another version of Brokerproof (its "
            f"schema is {revision}); use that version, or choose another database with {DATABASE_URL}"
        )
    return revision


def _turn_on_write_ahead_log(engine: Engine) -> None:
    """Let readers and a writer work without waiting for each other. The database file keeps this setting."""
    with closing(engine.raw_connection()) as connection:
        connection.driver_connection.execute("PRAGMA journal_mode=WAL")  # type: ignore[union-attr]
