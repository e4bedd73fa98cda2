"""The history: the results of all runs in one database, for trends and regressions.

The default is SQLite in var/history.db. `BROKERPROOF_DATABASE_URL` can name any database that SQLAlchemy supports, and
`BROKERPROOF_HISTORY_READER_URL` the same database for a user who may only read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from sqlalchemy import URL, Engine, delete, func, select, update
from sqlalchemy.orm import Session, aliased, load_only, selectinload

from brokerproof.errors import BrokerproofError, InputError, RunError
from brokerproof.experiment.scenario import Phase
from brokerproof.experiment.verdict import DECISIVE
from brokerproof.results.campaigns import Campaign, select_campaigns
from brokerproof.results.history_database import (
    DATABASE_URL,
    READER_URL,
    HistoryError,
    check_schema,
    describe_url,
    lock_for_writing,
    make_engine,
    make_reading_engine,
    migrate_schema,
    parse_url,
    translate_database_errors,
)
from brokerproof.results.history_rows import make_history_rows
from brokerproof.results.history_schema import (
    ANOMALY_COLUMNS,
    NEWEST_FIRST,
    AnomalySample,
    RecordedMeasurement,
    RecordedRun,
)
from brokerproof.results.regressions import RunComparison, compare_run, count_needed_runs, read_rule
from brokerproof.results.run_difference import RunDifference, compare_two_runs
from brokerproof.results.run_groups import GROUPED_RUNS, GroupBy, RunGroup, group_runs
from brokerproof.results.trends import ScenarioTrend, select_trends
from brokerproof.run.directory import Run
from brokerproof.run.records import TablesDeletion, name_file
from brokerproof.settings import from_environment

log = logging.getLogger(__name__)

# The part of a run that is deleted: its tables of messages or its directory.
DeletedPart = Literal["tables", "run"]
# The largest number of later runs that are compared with a run: the longest window of a rule.
_MOST_COMPARED = 500
# What is loaded with a run, and the columns of a `RunPlace`.
_MEASUREMENTS, _ANOMALY_COUNTS = selectinload(RecordedRun.measurements), selectinload(RecordedRun.anomaly_counts)
_CHECKS, _ANOMALY_SAMPLES = selectinload(RecordedRun.checks), selectinload(RecordedRun.anomaly_samples)
_PLACE_COLUMNS = (
    *(RecordedRun.run_id, RecordedRun.scenario, RecordedRun.run_dir),
    *(RecordedRun.run_deleted_at, RecordedRun.run_deleted_why, RecordedRun.marks),
)


def open_history(url: str | None = None, *, path: Path | None = None) -> History:
    """Open the history and migrate its database to the newest schema. Several processes may call this at once.

    The database is the first that is given: `url`, `$BROKERPROOF_DATABASE_URL`, the SQLite file `path`, or the SQLite
    file `$BROKERPROOF_VAR`/history.db. Raises HistoryError if the database cannot be used, or if another version of
    Brokerproof made it with a schema unknown to this one.
    """
    database = _find_database(url, path)
    with translate_database_errors(database):
        engine = make_engine(database)
        migrate_schema(engine)
    return History(engine)


def open_history_to_read() -> History:
    """Open the history that this machine's settings name, for all that needs no changes in it.

    A process that may write migrates the database first, as `open_history` does. A process that has only the URL in
    `$BROKERPROOF_HISTORY_READER_URL` raises HistoryError if the schema is not the newest.
    """
    settings = from_environment()
    if settings.database_url or not settings.history_reader_url:
        open_history().close()
    database = _find_database_to_read()
    with translate_database_errors(database):
        engine = make_engine(database, read_only=True)
        check_schema(engine)
    return History(engine)


def open_recorded_history(*, to_write: bool = False) -> History | None:
    """Open the history as `open_history_to_read` does, or with `to_write` as `open_history` does.

    Returns None if the settings name an SQLite file that does not exist yet.
    """
    database = _find_database(None, None) if to_write else _find_database_to_read()
    if database.get_backend_name() == "sqlite" and not Path(database.database or "").exists():
        return None
    return open_history() if to_write else open_history_to_read()


class ForeignRunError(RunError):
    """A directory is not the one of this machine's run with its id, so it is not recorded in the history."""


def compare_recorded_run(run: Run) -> tuple[RecordedRun | None, RunComparison | None, str]:
    """Return the row of a run, its comparison with earlier runs, and a text that says why one of the two is None.

    If neither is None, the text is empty. The row is read from the history that this machine's settings name. A row of
    another directory with the same run id does not count.
    """
    recorded: RecordedRun | None = None
    try:
        history = open_recorded_history()
        if history is None:
            return None, None, "this machine has no history yet"
        with history:
            found = history.find_run(run.run_id)
            if found is None:
                return None, None, f"the history in {history.database} has no run {run.run_id}"
            history.refuse_foreign(run, from_environment().runs)
            recorded = found
            return recorded, history.compare(recorded), ""
    except BrokerproofError as error:
        return recorded, None, str(error)


def _resolve(directory: str) -> str:
    directory = directory.removeprefix("file://")
    return directory if "://" in directory else str(Path(directory).resolve())


def _holds_run(directory: str) -> bool:
    """Whether a directory holds a run; also true if that cannot be found out."""
    try:
        return Run(directory).exists("run.json")
    except (OSError, ValueError, ImportError):
        return True


def _find_database(url: str | None, path: Path | None) -> URL:
    settings = from_environment()
    if text := url or settings.database_url:
        return parse_url(text)
    if path is None and settings.history_reader_url:
        raise HistoryError(
            f"this process may only read the history; set {DATABASE_URL} to the URL of a user who may write"
        )
    return URL.create("sqlite", database=str(path or settings.var / "history.db"))


def _find_database_to_read() -> URL:
    reader = from_environment().history_reader_url
    return parse_url(reader, READER_URL) if reader else _find_database(None, None)


@dataclass(frozen=True, kw_only=True)
class RunPlace:
    """The directory of a recorded run, and the regressions of the run."""

    run_id: str
    scenario: str
    run_dir: str
    # A sentence that says when and why the directory was deleted; None if it was not.
    deletion: str | None = None
    # A sentence for each regression against the runs before, and for each suspected one.
    worse: tuple[str, ...] = ()
    suspected: tuple[str, ...] = ()


class History:
    """An open history. Forked processes and threads may share it, because each method opens its own connection."""

    def __init__(self, engine: Engine, *, samples: int = 50) -> None:
        self._engine = engine
        self._reading = make_reading_engine(engine)
        self._samples = samples

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    @property
    def database(self) -> str:
        """The URL of the database, without the password."""
        return describe_url(self._engine.url)

    def record(self, run: Run) -> RecordedRun:
        """Write the results of a run, in place of its earlier results, and return them.

        If the run was judged again, the regressions of the runs after it are found anew. Evidence other than run.json
        that is missing or damaged is left out. Raises RunError or InputError if run.json cannot be used, and
        HistoryError if the history cannot be written.
        """
        row = make_history_rows(run, self._samples)
        before = self.find_run(row.run_id)
        if before is not None and run.exists("state", name_file(TablesDeletion)):
            # After the tables were deleted, only the history still has the samples of anomalies. If the record of the
            # deletion is damaged, only the history still has its time and reason, too.
            if row.tables_deleted_at is None:
                row.tables_deleted_at, row.tables_deleted_why = before.tables_deleted_at, before.tables_deleted_why
            row.anomaly_samples = [
                AnomalySample(**{name: getattr(sample, name) for name in ANOMALY_COLUMNS})
                for sample in before.anomaly_samples
            ]
        row.marks = self._find_marks(row)
        with self._begin_writing() as session:
            # In SQLite, a transaction that begins with a read cannot write while another process writes. So this one
            # begins with the deletion, which also deletes the child rows through their foreign keys.
            session.execute(delete(RecordedRun).where(RecordedRun.run_id == row.run_id))
            session.add(row)
        if before is not None:
            self._mark_later_runs(row)
        return row

    def refuse_foreign(self, run: Run, runs: Path) -> None:
        """Raises ForeignRunError unless a run's directory is the recorded one, or has the run's id below `runs`.

        If the recorded directory is another one that still holds a run, the place below `runs` does not help: the
        directory is a copy. Symbolic links are resolved first.
        """
        place = self.find_run_place(run.run_id)
        here = _resolve(run.directory)
        if place is not None:
            if here == _resolve(place.run_dir):
                return
            if _holds_run(place.run_dir):
                raise ForeignRunError(f"the history has run {run.run_id} from {place.run_dir}, not from {here}")
        # The id is not resolved: an id such as `../elsewhere` must not lead out of the directory.
        if here != f"{_resolve(str(runs))}/{run.run_id}":
            raise ForeignRunError(f"{here} is not below {runs} under its id, {run.run_id}")

    def _mark_later_runs(self, run: RecordedRun) -> None:
        """Find the regressions of later runs anew, because they were compared with earlier results of this run."""
        chosen = (
            select(RecordedRun)
            .where(RecordedRun.scenario == run.scenario, RecordedRun.comparable == run.comparable)
            .where(RecordedRun.started_at > run.started_at)
            .options(_MEASUREMENTS)
            .order_by(RecordedRun.started_at)
            .limit(_MOST_COMPARED)
        )
        with self._begin_reading() as session:
            marks = {later.id: self._find_marks(later) for later in session.scalars(chosen).all()}
        with self._begin_writing() as session:
            for key, found in marks.items():
                session.execute(update(RecordedRun).where(RecordedRun.id == key).values(marks=found))

    def _find_marks(self, run: RecordedRun) -> list[dict[str, Any]] | None:
        """Return confirmed and suspected regressions of a run for its column `marks`; None if it cannot be compared."""
        try:
            found = self.compare(run)
        except InputError as error:
            log.warning("%s is not compared: %s", run.run_id, error)
            return None
        return [
            {"metric": mark.metric, "subject": mark.subject, "reason": mark.reason, "suspected": suspected}
            for suspected, marks in ((False, found.marks), (True, found.suspicions))
            for mark in marks
        ]

    def record_deletion(self, run_id: str, directory: str, part: DeletedPart, *, at: datetime, why: str) -> None:
        """Record that the tables or the directory of a run are deleted.

        Nothing is recorded if the history does not have the run, or if it names another directory for the run and that
        directory still has a run.json. Raises HistoryError if the history cannot be written.
        """
        recorded = self.find_run_place(run_id)
        if recorded is None or (recorded.run_dir != directory and Run(recorded.run_dir).exists("run.json")):
            return
        values = {f"{part}_deleted_at": at, f"{part}_deleted_why": why}
        with self._begin_writing() as session:
            session.execute(update(RecordedRun).where(RecordedRun.run_id == run_id).values(**values))

    def list_deletions(self) -> dict[str, tuple[DeletedPart, str]]:
        """Return (deleted part, reason) of each recorded deletion, by run directory."""
        of_run, of_tables = RecordedRun.run_deleted_why, RecordedRun.tables_deleted_why
        chosen = select(RecordedRun.run_dir, of_run, of_tables).where(func.coalesce(of_run, of_tables).is_not(None))
        with self._begin_reading() as session:
            return {
                directory: ("tables", str(why)) if why_run is None else ("run", why_run)
                for directory, why_run, why in session.execute(chosen)
            }

    def find_run(self, run_id: str) -> RecordedRun | None:
        """Return a run with its checks, measurements, anomaly counts and samples; None if it is not recorded."""
        with self._begin_reading() as session:
            return session.scalar(
                select(RecordedRun)
                .where(RecordedRun.run_id == run_id)
                .options(_CHECKS, _MEASUREMENTS, _ANOMALY_COUNTS, _ANOMALY_SAMPLES)
            )

    def list_runs(self, scenarios: Sequence[str] = (), limit: int = 20) -> list[RecordedRun]:
        """Return the last `limit` runs of `scenarios` (of all scenarios if empty), newest first.

        The runs have their checks, measurements and anomaly counts.
        """
        chosen = select(RecordedRun).options(_CHECKS, _MEASUREMENTS, _ANOMALY_COUNTS)
        if scenarios:
            chosen = chosen.where(RecordedRun.scenario.in_(scenarios))
        with self._begin_reading() as session:
            return list(session.scalars(chosen.order_by(*NEWEST_FIRST).limit(limit)))

    def list_trends(self, *, per_scenario: int = 30, scenarios: Sequence[str] | None = None) -> list[ScenarioTrend]:
        """Return the trends of `scenarios` (None for all scenarios), each with at most `per_scenario` runs."""
        with self._begin_reading() as session:
            return select_trends(session, per_scenario=per_scenario, scenarios=scenarios)

    def list_campaigns(self, *, stamp: str | None = None) -> list[Campaign]:
        """Return the newest campaigns, newest first. If `stamp` is given, return only the campaign with this stamp."""
        with self._begin_reading() as session:
            return select_campaigns(session, stamp=stamp)

    def list_run_ids(self, scenario: str | None = None) -> list[str]:
        """Return the ids of all recorded runs of a scenario (None for all scenarios), newest first."""
        chosen = select(RecordedRun.run_id).order_by(*NEWEST_FIRST)
        if scenario is not None:
            chosen = chosen.where(RecordedRun.scenario == scenario)
        with self._begin_reading() as session:
            return list(session.scalars(chosen))

    def find_run_place(self, run_id: str) -> RunPlace | None:
        """Return a run's directory and regressions without reading the rest of its row; None if it is not recorded."""
        with self._begin_reading() as session:
            row = session.scalar(
                select(RecordedRun).where(RecordedRun.run_id == run_id).options(load_only(*_PLACE_COLUMNS))
            )
        if row is None:
            return None
        marks = row.marks or ()
        return RunPlace(
            run_id=row.run_id,
            scenario=row.scenario,
            run_dir=row.run_dir,
            deletion=row.deletion if row.run_deleted_at is not None else None,
            worse=tuple(mark["reason"] for mark in marks if not mark["suspected"]),
            suspected=tuple(mark["reason"] for mark in marks if mark["suspected"]),
        )

    def list_last_runs(self) -> list[RecordedRun]:
        """Return the last run of each scenario, sorted by scenario, with measurements and anomaly counts."""
        place = func.row_number().over(partition_by=RecordedRun.scenario, order_by=NEWEST_FIRST).label("place")
        placed = select(RecordedRun.id, place).subquery()
        chosen = (
            select(RecordedRun)
            .join(placed, placed.c.id == RecordedRun.id)
            .where(placed.c.place == 1)
            .options(_MEASUREMENTS, _ANOMALY_COUNTS)
            .order_by(RecordedRun.scenario)
        )
        with self._begin_reading() as session:
            return list(session.scalars(chosen))

    def list_held_shares(self, since: datetime, limit: int = 500) -> list[tuple[RecordedRun, float | None]]:
        """Return the last `limit` runs since a time, newest first, each with the `rate_held` of its steady phase.

        Runs without a row for this measurement are left out.
        """
        steady = aliased(RecordedMeasurement)
        chosen = (
            select(RecordedRun, steady.value)
            .join(steady, (steady.run_key == RecordedRun.id) & (steady.metric == "rate_held"))
            .where(steady.subject == Phase.STEADY, RecordedRun.started_at >= since)
            .order_by(*NEWEST_FIRST)
            .limit(limit)
        )
        with self._begin_reading() as session:
            return [(run, share) for run, share in session.execute(chosen)]

    def count_runs(self) -> dict[str, int]:
        """Return the number of recorded runs by scenario."""
        counted = select(RecordedRun.scenario, func.count().label("runs")).group_by(RecordedRun.scenario)
        with self._begin_reading() as session:
            return {row.scenario: row.runs for row in session.execute(counted.order_by(RecordedRun.scenario))}

    def compare(self, run: RecordedRun) -> RunComparison:
        """Compare a run with the runs before it, as regressions.py describes.

        Raises InputError if the regression rule in the run's parameters cannot be used.
        """
        newest_first = (
            select(RecordedRun)
            .where(RecordedRun.scenario == run.scenario, RecordedRun.started_at < run.started_at)
            .order_by(*NEWEST_FIRST)
        )
        same = newest_first.where(RecordedRun.comparable == run.comparable)
        with self._begin_reading() as session:
            return compare_run(
                run,
                baseline=session.scalars(
                    same.where(RecordedRun.verdict.in_(DECISIVE))
                    .options(_MEASUREMENTS)
                    .limit(count_needed_runs(read_rule(run)))
                ).all(),
                previous=session.scalar(same.limit(1)),
                incomparable=session.scalar(newest_first.where(RecordedRun.comparable != run.comparable).limit(1)),
            )

    def compare_two(self, a: RecordedRun, b: RecordedRun) -> RunDifference:
        """Return how run b differs from run a. The noise is estimated from runs before the newer of the two.

        Raises InputError if the regression rule in the parameters of b cannot be used.
        """
        needed = count_needed_runs(read_rule(b))
        with self._begin_reading() as session:
            earlier = [
                run
                for digest in dict.fromkeys((a.comparable, b.comparable))
                for run in session.scalars(
                    select(RecordedRun)
                    .where(
                        RecordedRun.scenario.in_((a.scenario, b.scenario)),
                        RecordedRun.comparable == digest,
                        RecordedRun.started_at < max(a.started_at, b.started_at),
                        RecordedRun.run_id.not_in((a.run_id, b.run_id)),
                    )
                    .options(_MEASUREMENTS, _ANOMALY_COUNTS)
                    .order_by(*NEWEST_FIRST)
                    .limit(needed)
                )
            ]
        return compare_two_runs(a, b, earlier)

    def group(self, scenarios: Sequence[str], by: GroupBy, limit: int = GROUPED_RUNS) -> list[RunGroup]:
        """Return the last `limit` runs of `scenarios` in groups; the largest group of the first scenario comes first.

        Raises InputError if several scenarios are grouped by anything but settings, or if the regression rule in the
        parameters of the newest run cannot be used.
        """
        if len(scenarios) > 1 and by is not GroupBy.SETTINGS:
            raise InputError(
                "the runs of one scenario are grouped", field="--by", remedy="name one scenario, or group by settings"
            )
        return group_runs(self.list_runs(scenarios, limit=limit), by, scenario=scenarios[0])

    @contextmanager
    def _begin_writing(self) -> Iterator[Session]:
        """Begin a transaction that may write. Other writers wait for its end. Loaded objects stay usable afterwards."""
        with self._begin(self._engine) as session:
            lock_for_writing(session.connection())
            yield session

    def _begin_reading(self) -> AbstractContextManager[Session]:
        """Begin a transaction that sees the history as of its first query. Loaded objects stay usable afterwards."""
        return self._begin(self._reading)

    @contextmanager
    def _begin(self, engine: Engine) -> Iterator[Session]:
        with translate_database_errors(engine.url), Session(engine, expire_on_commit=False) as session, session.begin():
            yield session
