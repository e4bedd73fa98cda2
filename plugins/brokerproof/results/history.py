"""The history: the results of all runs in one database, for trends and regressions.

SQLite in var/history.db by default, any database of SQLAlchemy's through `BROKERPROOF_DATABASE_URL`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import URL, Engine, delete, func, select
from sqlalchemy.orm import Session, selectinload

from brokerproof.experiment.verdict import DECISIVE
from brokerproof.results.history_database import (
    describe_url,
    lock_for_writing,
    make_engine,
    parse_url,
    translate_errors,
)
from brokerproof.results.history_migration import migrate_schema
from brokerproof.results.history_rows import make_history_rows
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.regressions import WINDOW, RunComparison, compare_run
from brokerproof.run.directory import Run
from brokerproof.settings import from_environment


def open_history(url: str | None = None, *, path: Path | None = None) -> History:
    """Open the history in a database and migrate it to the newest schema. Several processes may do so at once.

    The database is `url`, else `$BROKERPROOF_DATABASE_URL`, else SQLite in `path`, else in history.db of
    `$BROKERPROOF_VAR`. Raises HistoryError where the database cannot be reached or a newer Brokerproof made it.
    """
    settings = from_environment()
    text = url or settings.database_url
    database = parse_url(text) if text else URL.create("sqlite", database=str(path or settings.var / "history.db"))
    with translate_errors(database):
        engine = make_engine(database)
        migrate_schema(engine)
    return History(engine)


class History:
    """An open history. A connection lasts for one call, so forked processes and several threads may use it."""

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
        """Close the database."""
        self._engine.dispose()

    @property
    def database(self) -> str:
        """The URL of the database, without the password."""
        return describe_url(self._engine.url)

    def record(self, run: Run) -> RecordedRun:
        """Write the result of a run, in the place of an earlier result of the same run, in one transaction.

        Raises RunError or InputError where its run.json cannot be used, and HistoryError. Whatever else is missing or
        damaged is recorded as such.
        """
        row = make_history_rows(run, self._samples)
        with self._begin() as session:
            lock_for_writing(session.connection())
            # In SQLite, a transaction that begins by reading cannot write while another process writes, so this one
            # begins with the deletion. The foreign keys delete the child rows too.
            session.execute(delete(RecordedRun).where(RecordedRun.run_id == row.run_id))
            session.add(row)
        return row

    def find_run(self, run_id: str) -> RecordedRun | None:
        """One run with all its rows, None where it is not recorded."""
        with self._begin() as session:
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

    def list_runs(self, scenarios: Sequence[str] = (), limit: int = 20) -> list[RecordedRun]:
        """The last runs, of some scenarios or of all, newest first, with checks, measurements and anomaly counts."""
        chosen = select(RecordedRun).options(
            selectinload(RecordedRun.checks),
            selectinload(RecordedRun.measurements),
            selectinload(RecordedRun.anomaly_counts),
        )
        if scenarios:
            chosen = chosen.where(RecordedRun.scenario.in_(scenarios))
        with self._begin() as session:
            return list(
                session.scalars(chosen.order_by(RecordedRun.started_at.desc(), RecordedRun.id.desc()).limit(limit))
            )

    def count_runs(self) -> dict[str, int]:
        """The number of recorded runs of each scenario, by name."""
        counted = select(RecordedRun.scenario, func.count().label("runs")).group_by(RecordedRun.scenario)
        with self._begin() as session:
            return {row.scenario: row.runs for row in session.execute(counted.order_by(RecordedRun.scenario))}

    def compare(self, run: RecordedRun) -> RunComparison:
        """Compare a run with the runs before it; regressions.py states the rule."""
        newest_first = (
            select(RecordedRun)
            .where(RecordedRun.scenario == run.scenario, RecordedRun.started_at < run.started_at)
            .order_by(RecordedRun.started_at.desc(), RecordedRun.id.desc())
        )
        same = newest_first.where(RecordedRun.comparable == run.comparable)
        with self._begin() as session:
            return compare_run(
                run,
                baseline=session.scalars(
                    same.where(RecordedRun.verdict.in_(DECISIVE))
                    .options(selectinload(RecordedRun.measurements))
                    .limit(WINDOW)
                ).all(),
                previous=session.scalar(same.limit(1)),
                incomparable=session.scalar(newest_first.where(RecordedRun.comparable != run.comparable).limit(1)),
            )

    @contextmanager
    def _begin(self) -> Iterator[Session]:
        """A transaction. The objects that are read in it stay usable after it."""
        with (
            translate_errors(self._engine.url),
            Session(self._engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session
