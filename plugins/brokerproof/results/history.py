"""The history: every run's result in one database, for trends and for what got worse.

SQLite in var/history.db by default, any database of SQLAlchemy's through `BROKERPROOF_DATABASE_URL`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, quote_plus

import filelock
import pyarrow as pa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, delete, event, func, make_url, select, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.orm import Session, selectinload

from brokerproof import clock
from brokerproof.errors import BrokerproofError, RunError
from brokerproof.experiment.verdict import JUDGED
from brokerproof.machine.versions import installed_versions
from brokerproof.results.anomaly_samples import anomaly_samples
from brokerproof.results.history_schema import (
    AnomalyCount,
    AnomalySample,
    RecordedCheck,
    RecordedMeasurement,
    RecordedRun,
)
from brokerproof.results.outcome import Judgement, judged_at, outcome, read_judgement, triggered_at
from brokerproof.results.regressions import WINDOW, Comparison, compare, digest
from brokerproof.run.directory import Run
from brokerproof.settings import from_environment

DATABASE_URL = "BROKERPROOF_DATABASE_URL"

_MIGRATIONS = Path(__file__).resolve().parent / "migrations"
_LOCK_TIMEOUT_S = 60
# Any number will do as long as every Brokerproof uses the same and nothing else does.
_ADVISORY_LOCK = 0x62726F6B65727066
_SECRET_PARAMETERS = ("password", "passwd", "pwd", "sslpassword", "passfile", "token")

log = logging.getLogger(__name__)


class HistoryError(BrokerproofError):
    """The history's database cannot be reached, read or written; the message holds no password."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run's value in a series of measurements; `value` is None where it could not be measured."""

    run_id: str
    started_at: datetime
    subject: str
    value: float | None
    unit: str
    minimum: float | None
    maximum: float | None
    verdict: str
    met: bool
    system_version: str


def open_history(url: str | None = None, *, path: Path | None = None) -> History:
    """The history in a database, brought to the newest schema first; several processes may do so at once.

    The database is `url`, else `$BROKERPROOF_DATABASE_URL`, else SQLite in `path`, else in history.db of
    `$BROKERPROOF_VAR`. Raises HistoryError where it cannot be reached or was made by a newer Brokerproof.
    """
    given = url or os.environ.get(DATABASE_URL)
    database = (
        _parse(given) if given else URL.create("sqlite", database=str(path or from_environment().var / "history.db"))
    )
    with _translated(database):
        engine = _engine(database)
        _migrate(engine)
    return History(engine)


class History:
    """An open history. Connections last for one call, so it may be used after a fork and by several threads."""

    def __init__(self, engine: Engine, *, samples: int = 50) -> None:
        self._engine = engine
        self._samples = samples

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    @property
    def database(self) -> str:
        """Where it is, without the password."""
        return _shown(self._engine.url)

    def record(self, run: Run) -> RecordedRun:
        """Keep what a run came to, in the place of what was kept of it before, in one transaction.

        Raises RunError or InputError where its run.json cannot be used; whatever else is missing or damaged is
        recorded as such. Raises HistoryError.
        """
        row = _recorded(run, self._samples)
        with self._session() as session:
            _take_turn(session.connection())
            # Deleted first: SQLite cannot turn a transaction that began by reading into one that writes while
            # another process writes. The children go with it, by their foreign keys.
            session.execute(delete(RecordedRun).where(RecordedRun.run_id == row.run_id))
            session.add(row)
        return row

    def run(self, run_id: str) -> RecordedRun | None:
        """One run with everything that is kept of it."""
        with self._session() as session:
            return session.scalar(
                select(RecordedRun)
                .where(RecordedRun.run_id == run_id)
                .options(
                    selectinload(RecordedRun.checks),
                    selectinload(RecordedRun.measurements),
                    selectinload(RecordedRun.anomaly_counts),
                    selectinload(RecordedRun.anomaly_samples),
                )
            )

    def runs(self, scenarios: Sequence[str] = (), limit: int = 20) -> list[RecordedRun]:
        """The last runs, of some scenarios or of all, newest first, with their measurements and anomaly counts."""
        chosen = select(RecordedRun).options(
            selectinload(RecordedRun.measurements), selectinload(RecordedRun.anomaly_counts)
        )
        if scenarios:
            chosen = chosen.where(RecordedRun.scenario.in_(scenarios))
        with self._session() as session:
            return list(
                session.scalars(chosen.order_by(RecordedRun.started_at.desc(), RecordedRun.id.desc()).limit(limit))
            )

    def scenarios(self) -> dict[str, int]:
        """Scenarios that were run, with the number of their runs, by name."""
        counted = select(RecordedRun.scenario, func.count().label("runs")).group_by(RecordedRun.scenario)
        with self._session() as session:
            return {row.scenario: row.runs for row in session.execute(counted.order_by(RecordedRun.scenario))}

    def measurement_series(self, scenario: str, metric: str, subject: str | None = None) -> list[Point]:
        """What a metric came to in the scenario's runs, oldest first; for one subject (a fault, a phase) or for all."""
        chosen = (
            select(RecordedRun, RecordedMeasurement)
            .join(RecordedMeasurement.run)
            .where(RecordedRun.scenario == scenario, RecordedMeasurement.metric == metric)
            .order_by(RecordedRun.started_at, RecordedRun.id, RecordedMeasurement.id)
        )
        if subject is not None:
            chosen = chosen.where(RecordedMeasurement.subject == subject)
        with self._session() as session:
            return [
                Point(
                    run_id=run.run_id,
                    started_at=run.started_at,
                    subject=row.subject,
                    value=row.value,
                    unit=row.unit,
                    minimum=row.minimum,
                    maximum=row.maximum,
                    verdict=run.verdict,
                    met=run.met,
                    system_version=run.system_version,
                )
                for run, row in session.execute(chosen)
            ]

    def regressions(self, run: RecordedRun) -> Comparison:
        """What a run did worse than the comparable runs before it; regressions.py states the rule."""
        newest_first = (
            select(RecordedRun)
            .where(RecordedRun.scenario == run.scenario, RecordedRun.started_at < run.started_at)
            .order_by(RecordedRun.started_at.desc(), RecordedRun.id.desc())
        )
        same = newest_first.where(RecordedRun.comparable == run.comparable)
        with self._session() as session:
            return compare(
                run,
                judged=session.scalars(
                    same.where(RecordedRun.verdict.in_(JUDGED))
                    .options(selectinload(RecordedRun.measurements))
                    .limit(WINDOW)
                ).all(),
                before=session.scalar(same.limit(1)),
                other=session.scalar(newest_first.where(RecordedRun.comparable != run.comparable).limit(1)),
            )

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """A transaction; what is read in it can be used after it."""
        with _translated(self._engine.url), Session(self._engine, expire_on_commit=False) as session, session.begin():
            yield session


def migration_config(connection: Connection) -> Config:
    """Alembic's configuration for the packaged migrations on an open connection."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _recorded(run: Run, samples: int) -> RecordedRun:
    """The rows for a run."""
    scenario, topology = run.scenario, run.topology
    came_to = outcome(run)
    judgement: Judgement | None
    try:
        judgement = read_judgement(run)
    except RunError:
        judgement = None
    parameters: dict[str, Any] = {
        "scenario": scenario.model_dump(mode="json"),
        "topology": topology.model_dump(mode="json"),
        "machine": run.facts.get("machine") or {"architecture": os.uname().machine, "processors": os.cpu_count()},
    }
    return RecordedRun(
        run_id=run.run_id,
        scenario=scenario.name,
        topology=scenario.topology,
        runtime=scenario.runtime,
        system=topology.system,
        system_version=scenario.version,
        guarantee=str(scenario.guarantee),
        verdict=came_to["verdict"],
        expected_verdict=str(scenario.expect.verdict),
        met=came_to["met"],
        why=_plain(came_to["why"]),
        suites=came_to["suites"],
        started_at=triggered_at(run),
        finished_at=judged_at(run),
        recorded_at=clock.utc(clock.now_us()),
        total_s=came_to["seconds"]["total"],
        phases_s=came_to["seconds"]["phases"],
        overhead_s=came_to["seconds"]["overhead"],
        **{name: value for name, value in came_to["counts"].items() if name not in ("legal", "illegal")},
        run_dir=came_to["run_dir"],
        report=came_to["report"],
        parameters=parameters,
        comparable=digest(parameters),
        versions={**installed_versions(), **run.facts.get("versions", {}), topology.system: scenario.version},
        checks=[
            RecordedCheck(
                suite=str(suite),
                expectation=_plain(check.name),
                description=_plain(check.description),
                verdict=str(check.verdict),
                unexpected=check.unexpected,
            )
            for suite, judged in (judgement.suites.items() if judgement else ())
            for check in judged.expectations
        ],
        measurements=[
            RecordedMeasurement(
                suite=str(row.suite),
                metric=row.metric,
                subject=_plain(row.subject or ""),
                value=row.value,
                unit=row.unit,
                minimum=row.minimum,
                maximum=row.maximum,
            )
            for row in (judgement.measurements if judgement else ())
        ],
        anomaly_counts=[
            AnomalyCount(anomaly=anomaly, legal=legal, count=count)
            for legal, kinds in ((False, came_to["counts"]["illegal"]), (True, came_to["counts"]["legal"]))
            for anomaly, count in kinds.items()
            if count
        ],
        anomaly_samples=[AnomalySample(**row) for row in _samples(run, judgement, samples)],
    )


def _samples(run: Run, judgement: Judgement | None, limit: int) -> list[dict[str, Any]]:
    """Rows for anomaly_samples. A table that cannot be read costs the samples, not the record of the run."""
    if judgement is None:
        return []
    try:
        rows = anomaly_samples(run, judgement.counts, limit)
    except (OSError, pa.ArrowException) as error:
        log.warning("no samples of the anomalies of run %s are kept: %s", run.run_id, error)
        return []
    return [
        {name: _plain(value) if isinstance(value, str) else value for name, value in row.items() if name != "run_id"}
        for row in rows
    ]


def _plain(value: str) -> str:
    """Text that every database takes: PostgreSQL refuses NUL, which logs of a killed process may hold."""
    return value.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def _parse(given: str) -> URL:
    try:
        # Heroku's and others' way to write it, which SQLAlchemy does not take.
        url = make_url(given.replace("postgres://", "postgresql://", 1) if given.startswith("postgres://") else given)
    except (ArgumentError, ValueError):
        raise HistoryError(
            "the history's database is not written as a URL; write `sqlite:////path/to/history.db` or "
            f"`postgresql+psycopg://user:password@host/database` in {DATABASE_URL}"
        ) from None
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise HistoryError("a history in memory keeps nothing; write `sqlite:////path/to/history.db`")
    return url


def _engine(url: URL) -> Engine:
    """An engine without a pool: a history is used a few times a run, and by processes that fork."""
    if url.get_backend_name() != "sqlite":
        waits = {"connect_timeout": 10} if url.get_backend_name() in ("postgresql", "mysql", "mariadb") else {}
        return create_engine(url, poolclass=NullPool, connect_args=waits)
    assert url.database is not None
    Path(url.database).expanduser().parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": 30})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # Python's own transactions would leave CREATE TABLE outside of them; begun by hand, a migration is whole.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def _migrate(engine: Engine) -> None:
    """Bring the schema to the newest revision, one process at a time."""
    scripts = ScriptDirectory(str(_MIGRATIONS))
    with engine.connect() as connection:
        if _revision(connection, scripts) == scripts.get_current_head():
            return
    if engine.dialect.name == "sqlite":
        with filelock.FileLock(f"{engine.url.database}.lock", timeout=_LOCK_TIMEOUT_S):
            _prepare_file(engine)
            with engine.connect() as connection:
                # Rebuilding a table, SQLite's only way to alter much, would otherwise delete what points to it.
                connection.connection.execute("PRAGMA foreign_keys=OFF")
                with connection.begin():
                    command.upgrade(migration_config(connection), "head")
        return
    with engine.begin() as connection:
        _take_turn(connection)
        command.upgrade(migration_config(connection), "head")


def _take_turn(connection: Connection) -> None:
    """Let this transaction wait until no other one of Brokerproof's writes.

    Without it PostgreSQL lets two processes delete and insert the same run side by side, and one of them fails; SQLite
    has one writer at a time anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})


def _revision(connection: Connection, scripts: ScriptDirectory) -> str | None:
    """The revision of the database. Raises HistoryError for one that only a newer Brokerproof knows."""
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
        raise HistoryError(
            f"the history in {_shown(connection.engine.url)} was made by a newer Brokerproof (its schema is "
            f"{revision}); update this one, or choose another database with {DATABASE_URL}"
        )
    return revision


def _prepare_file(engine: Engine) -> None:
    """Turn on the write-ahead log, so that readers and a writer do not wait for each other; the file remembers it."""
    with closing(engine.raw_connection()) as connection:
        connection.driver_connection.execute("PRAGMA journal_mode=WAL")  # type: ignore[union-attr]


@contextmanager
def _translated(url: URL) -> Iterator[None]:
    """Errors of the database as a HistoryError, whose text and causes hold no password."""
    try:
        yield
    except (SQLAlchemyError, OSError, filelock.Timeout, ModuleNotFoundError) as error:
        raise HistoryError(_sentence(url, error)) from None


def _sentence(url: URL, error: Exception) -> str:
    where = _shown(url)
    if isinstance(error, ModuleNotFoundError | NoSuchModuleError):
        return (
            f"the history in {where} needs a database driver that is not installed ({error}); install it, for "
            "PostgreSQL with `pip install 'psycopg[binary]'` and a URL that starts with `postgresql+psycopg://`"
        )
    if isinstance(error, filelock.Timeout):
        return f"the history in {where} was being migrated by another process for over {_LOCK_TIMEOUT_S} s; try again"
    said = str(getattr(error, "orig", None) or error).strip().splitlines()
    reason = _without_secrets(url, said[0] if said else type(error).__name__)
    return f"the history in {where} cannot be used: {reason}; check that it runs and accepts you, or {DATABASE_URL}"


def _shown(url: URL) -> str:
    return _without_secrets(url, url.render_as_string(hide_password=True))


def _without_secrets(url: URL, said: str) -> str:
    """The text without the URL's passwords, however they are written in it."""
    query: Mapping[str, str | tuple[str, ...]] = url.query
    secrets = [url.password] if url.password else []
    for name in _SECRET_PARAMETERS:
        value = query.get(name, ())
        secrets += [value] if isinstance(value, str) else list(value)
    for secret in filter(None, secrets):
        for written in {str(secret), quote(str(secret), safe=""), quote_plus(str(secret))}:
            said = said.replace(written, "***")
    return said
