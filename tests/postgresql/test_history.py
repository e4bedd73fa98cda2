"""A history in a real PostgreSQL: its migrations, and many processes that write and read it at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from brokerproof.clock import wait_until
from brokerproof.experiment.verdict import Verdict
from brokerproof.results.history import open_history
from brokerproof.results.history_database import lock_for_writing
from brokerproof.results.history_schema import Base, RecordedRun
from brokerproof.run.directory import Run
from history_processes import RunShape, make_process, measure_shape, record_runs, run_readers
from installation import SYSTEMS
from planted_runs import plant_run
from sqlalchemy import Connection, Engine, NullPool, create_engine, inspect, select, text
from sqlalchemy.exc import IntegrityError

START = datetime(2026, 1, 1, tzinfo=UTC)
READERS = 10

PlantRuns = Callable[[str, int], list[Run]]


@pytest.fixture
def plant_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlantRuns:
    """Makes the directories of so many runs of a name, each with checks, measurements and anomalies."""
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "testlog=testlog_system.system:TESTLOG")

    def make(name: str, count: int) -> list[Run]:
        return [
            plant_run(
                tmp_path / f"{name}-{index}",
                SYSTEMS / "scenarios" / "nominal.yaml",
                SYSTEMS / "topologies",
                at=START + timedelta(minutes=index),
                verdict=Verdict.FAILED,
                lost=2,
            )
            for index in range(count)
        ]

    return make


@pytest.fixture
def engine(database_url: str) -> Engine:
    """The database, without the history's own code."""
    return create_engine(database_url, poolclass=NullPool)


def read_rows(engine: Engine) -> dict[str, list[Any]]:
    """All that the database holds, by table."""
    with engine.connect() as connection:
        return {
            name: [tuple(row) for row in connection.execute(table.select().order_by(table.c.id))]
            for name, table in Base.metadata.tables.items()
        }


def list_differences(engine: Engine) -> list[Any]:
    """What the tables lack or have that the models have not or have."""
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata))


def make_whole_shape(run: Run) -> RunShape:
    """What a whole record of a planted run looks like."""
    return RunShape(run.run_id, checks=2, measurements=5, anomaly_counts=2)


def count_rows(engine: Engine) -> dict[str, int]:
    """The number of rows of each table."""
    return {name: len(rows) for name, rows in read_rows(engine).items()}


def repeat_runs(connection: Connection, run_id: str = "r-0") -> None:
    """Write a second row of a run."""
    columns = ", ".join(column.name for column in RecordedRun.__table__.columns if column.name != "id")
    connection.execute(text(f"INSERT INTO runs ({columns}) SELECT {columns} FROM runs WHERE run_id = '{run_id}'"))


def count_waiting(engine: Engine) -> int:
    """How many connections wait for the lock of those that write."""
    with engine.connect() as connection:
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        return int(connection.scalar(text(waiting)) or 0)


def start_processes(*calls: tuple[Any, ...]) -> list[Any]:
    """Call functions at once, each in a process of its own."""
    processes = [make_process(function, *arguments) for function, *arguments in calls]
    for process in processes:
        process.start()
    return processes


def end_processes(processes: list[Any]) -> list[int | None]:
    """Wait for processes; their statuses, with None for one that did not end."""
    for process in processes:
        process.join(timeout=120)
    statuses = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
        process.join()
    return statuses


def open_and_close(url: str) -> None:
    """Migrate the history where it has to be."""
    open_history(url).close()


def test_an_empty_database_gets_the_tables_of_the_models(database_url: str, engine: Engine) -> None:
    open_history(database_url).close()
    assert list_differences(engine) == []
    assert set(inspect(engine).get_table_names()) == {*Base.metadata.tables, "alembic_version"}


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("ALTER TABLE runs DROP CONSTRAINT uq_runs_run_id", "add_constraint"),
        ("DROP INDEX ix_measurements_metric_run_key", "add_index"),
        ("ALTER TABLE runs DROP COLUMN marks", "add_column"),
    ],
)
def test_tables_that_are_not_those_of_the_models_are_different(
    database_url: str, engine: Engine, planted: str, found: str
) -> None:
    open_history(database_url).close()
    with engine.begin() as connection:
        connection.execute(text(planted))
    assert [difference[0] for difference in list_differences(engine)] == [found]


def test_two_processes_that_find_an_empty_database_migrate_it_once(database_url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        lock_for_writing(connection)
        processes = start_processes(*[(open_and_close, database_url)] * 2)
        # Both have found no schema by then. A process that does not wait for the other one is never counted.
        wait_until(lambda: count_waiting(engine) == 2, timeout_s=60, what="both processes to wait for their turn")
    assert end_processes(processes) == [0, 0]
    assert list_differences(engine) == []


def test_a_process_that_cannot_record_says_so(database_url: str, tmp_path: Path) -> None:
    assert end_processes(start_processes((record_runs, database_url, [str(tmp_path)]))) == [1]


def test_a_run_that_is_recorded_twice_has_one_row(database_url: str, engine: Engine, plant_runs: PlantRuns) -> None:
    [run] = plant_runs("r", 1)
    record_runs(database_url, [run.directory], times=2)
    assert count_rows(engine) == {
        "runs": 1, "checks": 2, "measurements": 5, "anomaly_counts": 2, "anomaly_samples": 5
    }  # fmt: skip


def test_a_second_row_of_a_run_is_refused(database_url: str, engine: Engine, plant_runs: PlantRuns) -> None:
    record_runs(database_url, [run.directory for run in plant_runs("r", 1)])
    with pytest.raises(IntegrityError, match="uq_runs_run_id"), engine.begin() as connection:
        repeat_runs(connection)


def test_processes_record_while_others_read_and_nothing_is_lost_repeated_or_half_there(
    database_url: str, engine: Engine, plant_runs: PlantRuns
) -> None:
    different, [same] = plant_runs("different", 8), plant_runs("same", 1)
    writers = [(record_runs, database_url, [run.directory for run in different[part::4]], 3) for part in range(4)]
    writers += [(record_runs, database_url, [same.directory], 8)] * 3
    with run_readers(database_url, count=READERS) as sights:
        assert end_processes(start_processes(*writers)) == [0] * 7
    whole = {make_whole_shape(run) for run in (*different, same)}
    assert len(sights) == READERS
    for sight in sights:
        assert (sight.shapes, sight.repeated, sight.lost) == (whole, set(), set())
        # The first and the last read are before and after the writing.
        assert sight.reads > 2
    assert count_rows(engine) == {
        "runs": 9, "checks": 18, "measurements": 45, "anomaly_counts": 18, "anomaly_samples": 45
    }  # fmt: skip


def test_a_reader_sees_what_is_half_there_lost_and_repeated(
    database_url: str, engine: Engine, plant_runs: PlantRuns
) -> None:
    half, lost, repeated = plant_runs("r", 3)
    record_runs(database_url, [run.directory for run in (half, lost, repeated)])
    with run_readers(database_url, count=1) as sights, engine.begin() as connection:
        connection.execute(text("DELETE FROM checks WHERE run_key = (SELECT id FROM runs WHERE run_id = 'r-0')"))
        connection.execute(text("DELETE FROM runs WHERE run_id = 'r-1'"))
        connection.execute(text("ALTER TABLE runs DROP CONSTRAINT uq_runs_run_id"))
        repeat_runs(connection, "r-2")
    [sight] = sights
    assert RunShape("r-0", checks=0, measurements=5, anomaly_counts=2) in sight.shapes
    assert (sight.lost, sight.repeated) == ({"r-1"}, {"r-2"})


def test_all_queries_of_a_reader_see_one_state(database_url: str, plant_runs: PlantRuns) -> None:
    [run] = plant_runs("r", 1)
    record_runs(database_url, [run.directory])
    with open_history(database_url) as history, history._begin_reading() as session:
        # A reader asks for the run first, and for its checks later.
        [row] = session.scalars(select(RecordedRun))
        record_runs(database_url, [run.directory])
        assert measure_shape(row) == make_whole_shape(run)


def test_queries_that_see_the_newest_state_each_miss_the_rows_of_a_run(
    database_url: str, plant_runs: PlantRuns
) -> None:
    [run] = plant_runs("r", 1)
    record_runs(database_url, [run.directory])
    with open_history(database_url) as history, history._begin(history._engine) as session:
        [row] = session.scalars(select(RecordedRun))
        record_runs(database_url, [run.directory])
        assert measure_shape(row) == RunShape(run.run_id, checks=0, measurements=0, anomaly_counts=0)
