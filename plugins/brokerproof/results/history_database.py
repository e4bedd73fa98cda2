"""The database of the history: its URL, connections and schema, and its errors as sentences without a password."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import filelock
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from brokerproof.errors import BrokerproofError
from brokerproof.settings import variable

DATABASE_URL, READER_URL = variable("database_url"), variable("history_reader_url")
LOCK_TIMEOUT_S = 60

# An arbitrary number that every Brokerproof uses and that other programs are unlikely to use.
_ADVISORY_LOCK = 0x62726F6B65727066
_SECRET_PARAMETERS = ("password", "passwd", "pwd", "sslpassword", "passfile", "token")
_MIGRATIONS = Path(__file__).resolve().parent / "migrations"


class HistoryError(BrokerproofError):
    """The history's database cannot be reached, read or written. The message contains no password."""


def parse_url(text: str, name: str = DATABASE_URL) -> URL:
    """Return `text`, the value of the setting `name`, as a URL.

    A `~` at the beginning of an SQLite file's path is replaced by the home directory. Raises HistoryError if `text` is
    no URL or names a database in memory.
    """
    try:
        # Heroku and other services write `postgres://`, which SQLAlchemy does not accept.
        url = make_url(text.replace("postgres://", "postgresql://", 1) if text.startswith("postgres://") else text)
    except (ArgumentError, ValueError):
        raise HistoryError(
            "the history's database is not written as a URL; write `sqlite:////path/to/history.db` or "
            f"`postgresql+psycopg://user:password@host/database` in {name}"
        ) from None
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise HistoryError("a history in memory keeps nothing; write `sqlite:////path/to/history.db`")
    if url.get_backend_name() == "sqlite" and url.database is not None and url.database.startswith("~"):
        try:
            return url.set(database=str(Path(url.database).expanduser()))
        except RuntimeError as error:
            raise HistoryError(f"the history's file `{url.database}` cannot be found: {error}") from None
    return url


def make_engine(url: URL, *, read_only: bool = False) -> Engine:
    """Return an engine without a connection pool: a run uses the history only a few times and from forked processes.

    With `read_only`, SQLite opens an existing file for reading. In other databases, only transactions of
    `make_reading_engine` are read-only.
    """
    if url.get_backend_name() != "sqlite":
        waits = {"connect_timeout": 10} if url.get_backend_name() in ("postgresql", "mysql", "mariadb") else {}
        return create_engine(url, poolclass=NullPool, connect_args=waits)
    assert url.database is not None
    if not read_only:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": 30})

    @event.listens_for(engine, "do_connect")
    def open_file(_dialect: Any, _record: Any, arguments: list[Any], parameters: dict[str, Any]) -> None:
        # A URL with `uri=true` is given to SQLite as it is.
        if read_only and "uri" not in url.query:
            arguments[0] = f"file:{quote(str(url.database))}?mode=ro"
            parameters["uri"] = True

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # Python's own transactions do not include CREATE TABLE. Those begun below do, so that a migration is atomic.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def make_reading_engine(engine: Engine) -> Engine:
    """Return an engine for transactions that only read. All queries of such a transaction see the same state.

    PostgreSQL refuses every change in such a transaction.

    By default, each query in PostgreSQL sees all that was committed before this query. So if a run were recorded again
    between two queries, a reader could see the run without its checks.
    """
    if engine.dialect.name != "postgresql":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def lock_for_writing(connection: Connection) -> None:
    """Make this transaction wait until no other transaction of Brokerproof writes to the same PostgreSQL database.

    Without this lock, two processes can delete and insert the same run at once, and one of them fails.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})


@contextmanager
def translate_database_errors(url: URL) -> Iterator[None]:
    """Turn errors of the database into a HistoryError whose message and causes contain no password."""
    try:
        yield
    except (SQLAlchemyError, OSError, filelock.Timeout, ModuleNotFoundError) as error:
        raise HistoryError(_explain(url, error)) from None


def describe_url(url: URL) -> str:
    """Return the URL without its passwords."""
    return _remove_secrets(url, url.render_as_string(hide_password=True))


def _explain(url: URL, error: Exception) -> str:
    where = describe_url(url)
    if isinstance(error, ModuleNotFoundError | NoSuchModuleError):
        return (
            f"the history in {where} needs a database driver that is not installed ({error}); install it, for "
            "PostgreSQL with `pip install 'psycopg[binary]'` and a URL that starts with `postgresql+psycopg://`"
        )
    if isinstance(error, filelock.Timeout):
        return f"the history in {where} was being migrated by another process for over {LOCK_TIMEOUT_S} s; try again"
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    reason = _remove_secrets(url, lines[0] if lines else type(error).__name__)
    return (
        f"the history in {where} cannot be used: {reason}; check that it runs and accepts you, or its URL in "
        f"{DATABASE_URL} or {READER_URL}"
    )


def _remove_secrets(url: URL, message: str) -> str:
    """Return the message without the URL's passwords, whether they are written plainly or percent-encoded."""
    query: Mapping[str, str | tuple[str, ...]] = url.query
    secrets = [url.password] if url.password else []
    for name in _SECRET_PARAMETERS:
        value = query.get(name, ())
        secrets += [value] if isinstance(value, str) else list(value)
    for secret in filter(None, secrets):
        for written in {str(secret), quote(str(secret), safe=""), quote_plus(str(secret))}:
            message = message.replace(written, "***")
    return message


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


def check_schema(engine: Engine) -> None:
    """Check that the schema is the newest revision. Raises HistoryError with what must be done if it is not."""
    scripts = ScriptDirectory(str(_MIGRATIONS))
    with engine.connect() as connection:
        revision = _read_revision(connection, scripts)
    if revision != scripts.get_current_head():
        found = f"the schema {revision} of an older version" if revision else "no tables yet"
        raise HistoryError(
            f"the history in {describe_url(engine.url)} has {found}, and this process may only read it; run "
            f"`brokerproof history` once with the {DATABASE_URL} of a user who may write"
        )


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
