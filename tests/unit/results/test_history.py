"""The history records the result of a run, in every kind of database alike."""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from brokerproof.errors import BrokerproofError
from brokerproof.results.history import open_history, open_recorded_history
from brokerproof.results.history_database import DATABASE_URL, HistoryError
from brokerproof.results.history_schema import (
    AnomalyCount,
    AnomalySample,
    Base,
    RecordedCheck,
    RecordedMeasurement,
    RecordedRun,
)
from brokerproof.run.judgement import TOTALS
from brokerproof.run.measurement import Measurement
from brokerproof.run.records import StepProblem, write_record
from builders import leave_judgement
from sqlalchemy import create_engine, func, inspect, select, text
from sqlalchemy.orm import Session

START = datetime(2026, 1, 1, tzinfo=UTC)


def count_rows(url: str) -> dict[str, int]:
    """The number of rows of each table."""
    with Session(create_engine(url)) as session:
        return {
            model.__tablename__: session.scalar(select(func.count()).select_from(model)) or 0
            for model in (RecordedRun, RecordedCheck, RecordedMeasurement, AnomalyCount, AnomalySample)
        }


def test_the_path_of_an_sqlite_file_may_begin_with_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv(DATABASE_URL, "sqlite:///~/history.db")
    assert open_recorded_history() is None
    open_history().close()
    assert (home / "history.db").exists()
    assert not list(elsewhere.iterdir())
    recorded = open_recorded_history()
    assert recorded is not None
    recorded.close()


def test_a_home_directory_that_no_user_has_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATABASE_URL, "sqlite:///~nosuchuser/history.db")
    with pytest.raises(HistoryError, match=r"~nosuchuser/history\.db"):
        open_recorded_history()


def refuse_inserts(url: str, table: str) -> None:
    """Make the database refuse every new row of a table."""
    engine = create_engine(url)
    refusal = {
        "sqlite": f"CREATE TRIGGER refuse BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'refused'); END",
        "postgresql": f"ALTER TABLE {table} ADD CONSTRAINT refuse CHECK (false) NOT VALID",
    }
    with engine.begin() as connection:
        connection.execute(text(refusal[engine.dialect.name]))
    engine.dispose()


def anomaly(name: str, seq: int, *, legal: bool = False, **columns: object) -> dict[str, object]:
    """A row of a run's table `anomalies`."""
    return {"run_id": "r1", "anomaly": name, "legal": legal, "cluster": "main", "producer": "p0", "seq": seq, **columns}


def test_a_recorded_run_has_its_whole_result(plant, judgement, history):
    run = plant(
        judged=judgement(
            "failed",
            failed=("completeness",),
            illegal={"lost": 2},
            legal={"delivered_twice": 5_000_000_000},
            measured={("rto_s", "kill_us"): 52.25, ("rpo_s", "kill_us"): None},
        ),
        versions={"java": "21.0.8"},
    )
    run.append("anomalies", [anomaly("lost", 7, key="k1", cause="segment 4 is gone", detail="…")])

    history.record(run)
    kept = history.find_run("r1")

    assert (kept.scenario, kept.topology, kept.runtime, kept.system, kept.system_version, kept.guarantee) == (
        "kill_region",
        "stretched",
        "process",
        "pulsar",
        "4.0.8",
        "at_least_once",
    )
    assert (kept.verdict, kept.expected_verdict, kept.met) == ("failed", "passed", False)
    assert kept.why.startswith("failed instead of passed")
    assert (kept.started_at, kept.finished_at) == (START, START + timedelta(seconds=130.5))
    assert (kept.total_s, kept.phases_s, kept.overhead_s) == (130.5, 100.0, 30.5)
    assert (kept.publishes, kept.messages, kept.acked, kept.failed, kept.unknown) == (1005, 1000, 990, 4, 6)
    assert (kept.recovered, kept.stored, kept.deliveries) == (2, 992, 1100)
    assert kept.run_dir == run.directory
    assert kept.parameters["scenario"] == run.facts.scenario
    assert kept.parameters["topology"] == run.facts.topology
    assert (kept.suites["completeness"], kept.suites["ordering"]) == ("failed", "passed")
    assert [(c.suite, c.expectation, c.description, c.verdict, c.unexpected) for c in kept.checks][:2] == [
        ("completeness", "expect_completeness", "The demand of expect_completeness.", "failed", 3),
        ("uniqueness", "expect_uniqueness", "The demand of expect_uniqueness.", "passed", 0),
    ]
    assert [(m.suite, m.metric, m.subject, m.value, m.unit) for m in kept.measurements] == [
        ("recovery", "rto_s", "kill_us", 52.25, "s"),
        ("recovery", "rpo_s", "kill_us", None, "s"),
    ]
    assert {(a.anomaly, a.legal, a.count) for a in kept.anomaly_counts} == {
        ("lost", False, 2),
        ("delivered_twice", True, 5_000_000_000),
    }
    assert [(a.anomaly, a.legal, a.seq, a.key, a.cause) for a in kept.anomaly_samples] == [
        ("lost", False, 7, "k1", "segment 4 is gone")
    ]


def test_a_recorded_run_names_the_versions_of_everything_that_it_used(plant, judgement, sqlite_history):
    versions = sqlite_history.record(plant(judged=judgement(), versions={"java": "21.0.8"})).versions

    assert set(versions) >= {
        "python", "airflow", "spark", "great_expectations", "pulsar-client", "java", "pulsar", "brokerproof",
    }  # fmt: skip
    assert (versions["pulsar"], versions["java"]) == ("4.0.8", "21.0.8")
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))


def test_times_are_read_as_aware_times_in_utc(plant, judgement, history):
    history.record(plant(judged=judgement()))

    kept = history.list_runs()[0]

    assert kept.started_at.tzinfo is UTC
    assert kept.finished_at.tzinfo is UTC


def test_a_time_of_another_zone_is_the_same_moment(plant, judgement, history, database_url):
    history.record(plant(judged=judgement()))
    with Session(create_engine(database_url)) as session, session.begin():
        session.scalars(select(RecordedRun)).one().started_at = START.astimezone(timezone(timedelta(hours=5)))

    assert history.list_runs()[0].started_at == START


def test_a_time_without_a_zone_is_refused(plant, judgement, sqlite_history, tmp_path):
    row = sqlite_history.record(plant(judged=judgement()))
    row.started_at = START.replace(tzinfo=None)

    with pytest.raises(HistoryError, match="naive"), sqlite_history._begin_writing() as session:
        session.add(row)


def test_recording_again_replaces_the_run_and_its_children(plant, judgement, history, database_url):
    found = judgement("failed", failed=("ordering",), illegal={"lost": 1}, measured={("rto_s", "kill_us"): 9.0})
    run = plant(judged=found)
    run.append("anomalies", [anomaly("lost", 1)])
    history.record(run)
    before = count_rows(database_url)
    assert before == {"runs": 1, "checks": 5, "measurements": 1, "anomaly_counts": 1, "anomaly_samples": 1}

    history.record(run)
    assert count_rows(database_url) == before

    leave_judgement(run, judgement())
    history.record(run)
    assert count_rows(database_url) == {
        "runs": 1,
        "checks": 5,
        "measurements": 0,
        "anomaly_counts": 0,
        "anomaly_samples": 0,
    }
    assert history.find_run("r1").verdict == "passed"


def test_a_recording_that_fails_leaves_the_earlier_record(plant, judgement, history, database_url):
    run = plant(judged=judgement())
    history.record(run)
    refuse_inserts(database_url, "checks")

    with pytest.raises(HistoryError):
        history.record(run)

    assert (history.find_run("r1").verdict, len(history.find_run("r1").checks)) == ("passed", 5)


def test_threads_that_record_the_same_run_leave_one_row(plant, judgement, history, database_url):
    run = plant(judged=judgement())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: history.record(run), range(4)))

    assert (count_rows(database_url)["runs"], count_rows(database_url)["checks"]) == (1, 5)


def test_threads_can_record_different_runs_at_once(plant, judgement, history):
    runs = [plant(f"r{index}", judged=judgement(), minutes=index) for index in range(8)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(history.record, runs))

    assert [run.run_id for run in history.list_runs()] == [f"r{index}" for index in reversed(range(8))]


def test_a_run_that_broke_down_is_recorded_as_unknown(plant, history):
    run = plant()
    write_record(run, StepProblem(step="provision", problem="bk-us did not start\x00"))

    history.record(run)
    kept = history.find_run("r1")

    assert (kept.verdict, kept.met, kept.acked, kept.count_anomaly("lost"), kept.checks) == (
        "unknown",
        False,
        None,
        None,
        [],
    )
    assert "bk-us did not start" in kept.why


def test_a_run_with_a_damaged_table_is_recorded_without_samples(plant, judgement, history):
    run = plant(judged=judgement("failed", failed=("completeness",), illegal={"lost": 2}))
    table = Path(run.table("anomalies"))
    table.mkdir(parents=True)
    (table / "part-0.parquet").write_bytes(b"PAR1 and then nothing")

    history.record(run)

    assert (history.find_run("r1").count_anomaly("lost"), history.find_run("r1").anomaly_samples) == (2, [])


def test_a_damaged_record_of_a_deletion_keeps_no_run_out_of_the_history(plant, judgement, sqlite_history):
    run = plant(judged=judgement("failed", failed=("completeness",), illegal={"lost": 1}))
    run.append("anomalies", [anomaly("lost", 4)])
    sqlite_history.record(run)
    at = datetime(2026, 2, 1, tzinfo=UTC)
    sqlite_history.record_deletion("r1", run.directory, "tables", at=at, why="after 30 days")
    other = plant("r2", judged=judgement())
    for one in (run, other):
        Path(one.path("state", "tables_deletion.json")).write_text('{"version": 1, "why"')
    shutil.rmtree(run.table("anomalies"))

    for one in (run, other):
        sqlite_history.record(one)

    # The history knew when and why, and still has the samples.
    kept = sqlite_history.find_run("r1")
    assert (kept.tables_deleted_at, kept.tables_deleted_why, len(kept.anomaly_samples)) == (at, "after 30 days", 1)
    assert sqlite_history.find_run("r2").tables_deleted_at is None


def test_samples_are_limited_and_show_every_kind_illegal_ones_first(plant, judgement, sqlite_history):
    illegal, legal = {"lost": 2, "corrupted": 60}, {"delivered_twice": 9000}
    run = plant(judged=judgement("failed", failed=("completeness",), illegal=illegal, legal=legal))
    # The rare, illegal kind is planted behind thousands of the harmless one.
    run.append("anomalies", [anomaly("delivered_twice", seq, legal=True) for seq in range(9000)])
    run.append("anomalies", [anomaly("corrupted", seq) for seq in range(60)] + [anomaly("lost", seq) for seq in (4, 5)])

    kept = sqlite_history.record(run).anomaly_samples

    assert len(kept) == 50
    kinds = [row.anomaly for row in kept]
    assert (kinds[:2], kinds.count("corrupted"), kinds.count("delivered_twice")) == (["lost", "lost"], 24, 24)


def test_each_scenario_has_one_last_run(plant, judgement, history):
    history.record(plant("newer", judged=judgement(measured={("rto_s", "a"): 3.0}), minutes=9))
    history.record(plant("older", judged=judgement("failed", failed=("ordering",)), minutes=1))
    history.record(plant("other", judged=judgement(legal={"lost": 2}), minutes=3, changes={"name": "other"}))
    last, other = history.list_last_runs()
    assert (last.run_id, other.run_id) == ("newer", "other")
    assert (last.find_worst("rto_s"), other.count_anomaly("lost")) == (3.0, 2)


def test_the_last_runs_come_newest_first(plant, judgement, history):
    for index, name in enumerate(("kill_region", "kill_bookie", "kill_region", "kill_region")):
        history.record(plant(f"r{index}", judged=judgement(), minutes=index, changes={"name": name}))

    assert [run.run_id for run in history.list_runs()] == ["r3", "r2", "r1", "r0"]
    assert [run.run_id for run in history.list_runs(["kill_region"], limit=2)] == ["r3", "r2"]
    assert history.count_runs() == {"kill_bookie": 1, "kill_region": 3}


def test_an_unknown_run_is_none(history):
    assert history.find_run("r1") is None


def test_sqlite_has_a_write_ahead_log_and_foreign_keys(sqlite_history):
    with sqlite_history._begin_writing() as session:
        settings = {
            name: session.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "busy_timeout", "foreign_keys")
        }

    assert settings == {"journal_mode": "wal", "busy_timeout": 30_000, "foreign_keys": 1}


def test_the_argument_wins_over_the_environment_and_the_environment_over_the_path(tmp_path, monkeypatch):
    given, environment, path = (tmp_path / name for name in ("given.db", "environment.db", "path.db"))
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path / "var"))
    open_history().close()
    assert (tmp_path / "var" / "history.db").exists()
    open_history(path=path).close()
    assert path.exists()
    monkeypatch.setenv(DATABASE_URL, f"sqlite:///{environment}")
    open_history(path=path).close()
    assert environment.exists()
    open_history(f"sqlite:///{given}").close()
    assert given.exists()


def open_together(url: str, together: Barrier) -> None:
    together.wait(timeout=60)
    open_history(url).close()


def test_several_processes_may_open_a_new_history_at_once(database_url):
    # A forked process has all modules already. A new one would spend two seconds on imports.
    forking = get_context("fork")
    together = forking.Barrier(3)
    openers = [forking.Process(target=open_together, args=(database_url, together)) for _ in range(3)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join(timeout=120)

    assert [opener.exitcode for opener in openers] == [0] * 3
    assert set(inspect(create_engine(database_url)).get_table_names()) == {*Base.metadata.tables, "alembic_version"}


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("postgresql+psycopg://me:s3cr%40t@127.0.0.1:9/history", id="nobody listens"),
        pytest.param("postgresql://me:s3cr%40t@127.0.0.1:9/history?sslpassword=s3cr@t", id="a second password"),
        pytest.param("postgres://me:s3cr%40t@127.0.0.1:9/history", id="the short name"),
        pytest.param("nosuch://me:s3cr%40t@127.0.0.1/history", id="no such system"),
        pytest.param("postgresql://me:s3cr%40t@127.0.0.1:port/history", id="not a URL"),
        pytest.param("s3cr@t", id="a password in place of the URL"),
    ],
)
def test_an_unreachable_database_gives_a_sentence_without_the_password(url):
    with pytest.raises(HistoryError) as caught:
        open_history(url)

    said = str(caught.value)
    assert isinstance(caught.value, BrokerproofError)
    assert "history" in said
    assert "s3cr" not in said
    assert DATABASE_URL in said or "install it" in said
    assert caught.value.__suppress_context__


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "history.db"
    path.write_text("these are the minutes of the last meeting, not a database\n" * 20)

    with pytest.raises(HistoryError, match="not a database"):
        open_history(path=path)


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(HistoryError, match="cannot be used"):
        open_history(path=tmp_path / "file" / "history.db")


def test_a_history_in_memory_is_refused():
    with pytest.raises(HistoryError, match="keeps nothing"):
        open_history("sqlite://")


def test_a_database_that_disappears_gives_a_history_error(plant, judgement, sqlite_history, tmp_path):
    for file in tmp_path.glob("history.db*"):
        file.unlink()

    with pytest.raises(HistoryError, match="no such table"):
        sqlite_history.record(plant(judged=judgement()))


def test_the_database_has_a_column_for_every_total_and_for_every_column_of_a_measurement() -> None:
    assert set(RecordedRun.__table__.columns.keys()) >= set(TOTALS)
    of_the_history = {"id", "run_key"}
    of_the_run = {"run_id", "evidence", "doubt", "at_least", "at_most", "cut_off_by"}
    columns = set(RecordedMeasurement.__table__.columns.keys())
    assert columns - of_the_history == set(Measurement.model_fields) - of_the_run
