"""The entry point: what it leaves of a run that cannot be judged, and of a directory that is no run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import verify
from brokerproof.experiment.guarantees import Suite
from brokerproof.reports.outcome_view import print_outcome
from brokerproof.results.retention import MESSAGE_TABLES
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.judgement import JudgingFailure, read_judgement
from brokerproof.run.records import PhaseTimes, TablesDeletion, read_record, write_record
from brokerproof.run.series import RunSeries
from rich.console import Console

from .history import SECOND, START, History

SHIPPED = str(Path(__file__).parents[3] / "expectations")


def test_what_cannot_be_judged_is_unknown_with_the_reason(spark, tmp_path):
    run = History().clean().write(tmp_path / "run")
    (tmp_path / "run/tables/stored/part-0.parquet").write_bytes(b"no Parquet")

    assert verify.main([str(tmp_path / "run")]) == 1

    failure = read_record(run, JudgingFailure)
    assert failure.verdict == "unknown"
    assert failure.why.startswith("The run could not be judged: ")
    assert list((tmp_path / "run/tables").glob(".*")) == []


def test_a_damaged_segment_of_a_client_makes_the_verdict_unknown_and_is_named(tmp_path):
    run = History().clean().write(tmp_path / "run")
    segment = tmp_path / "run/clients/load-0/0-000000.arrow"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b"no Arrow")

    assert verify.main([str(tmp_path / "run")]) == 1

    failure = read_record(run, JudgingFailure)
    assert failure.verdict == "unknown"
    assert failure.why.startswith(f"The run could not be judged: {segment} is damaged: ")


@pytest.mark.parametrize("link", ["state", "tables", "report", "tables/messages", "report/data_docs", "clients"])
def test_the_job_writes_nothing_if_a_link_is_inside_the_run(tmp_path, capsys, link):
    run = History().clean().write(tmp_path / "run")
    place, elsewhere = Path(run.directory, link), tmp_path / "elsewhere"
    elsewhere.mkdir()
    if place.exists():
        shutil.move(place, elsewhere)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(elsewhere)
    files = sorted(tmp_path.rglob("*"))

    assert verify.main([run.directory]) == 1

    assert sorted(tmp_path.rglob("*")) == files
    assert f"cannot be judged: {place}: is a symbolic link inside a run" in capsys.readouterr().err


def test_a_suite_comes_from_the_first_directory_that_has_it(spark, tmp_path):
    run = History().clean().write(tmp_path / "run")
    (tmp_path / "my own").mkdir()
    (tmp_path / "my own" / "ordering.json").write_text("{}")

    assert verify.main([str(tmp_path / "run"), "--expectations", f"{tmp_path}/my own", "--expectations", SHIPPED]) == 0

    suites = read_judgement(run).suites
    assert f"{tmp_path}/my own/ordering.json" in suites[Suite.ORDERING].why
    assert suites[Suite.COMPLETENESS].verdict == "passed"


def test_a_users_suite_is_judged_beside_the_five(spark, tmp_path):
    run = History().clean().write(tmp_path / "run")
    (tmp_path / "my own").mkdir()
    query = "SELECT * FROM {batch} WHERE error IS NOT NULL"
    entry = {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": query},
        "description": "No attempt had an error.",
        "meta": {"table": "publishes"},
    }
    (tmp_path / "my own" / "mine.json").write_text(json.dumps({"name": "mine", "expectations": [entry]}))
    directories = ["--expectations", f"{tmp_path}/my own", "--expectations", SHIPPED]

    assert verify.main([str(tmp_path / "run"), *directories, "--suite", "mine", "--suite", "gone"]) == 0

    judgement = read_judgement(run)
    assert list(judgement.suites) == [*Suite, "mine", "gone"]
    assert judgement.suites["mine"].verdict == "passed"
    assert judgement.suites["gone"].verdict == judgement.verdict == "unknown"
    assert "gone.json: no such file" in judgement.why


def test_sql_that_reads_more_than_its_table_is_unknown_with_the_reason_and_is_not_run(spark, tmp_path):
    run = History().clean().write(tmp_path / "run")
    # A run's directory from elsewhere, with a suite in it.
    (tmp_path / "run/suites").mkdir()
    (tmp_path / "secret.txt").write_text("a password")
    entry = {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": f"SELECT * FROM text.`{tmp_path}/secret.txt` -- {{batch}}"},
        "description": "No attempt had an error.",
        "meta": {"table": "publishes"},
    }
    (tmp_path / "run/suites/mine.json").write_text(json.dumps({"name": "mine", "expectations": [entry]}))

    assert verify.main([str(tmp_path / "run"), "--expectations", f"{tmp_path}/run/suites"]) == 0

    suite = read_judgement(run).suites["mine"]
    assert suite.verdict == "unknown"
    assert "mine.json: expectations.0.kwargs.unexpected_rows_query: reads `text." in suite.why
    assert not any(b"a password" in file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file())


def test_the_terminal_names_a_suite_whose_sql_is_broken_with_the_reason(spark, tmp_path):
    run = History().clean().write(tmp_path / "run")
    (tmp_path / "my own").mkdir()
    entries = [
        {
            "type": "unexpected_rows_expectation",
            "kwargs": {"unexpected_rows_query": f"SELECT * FROM {{batch}} WHERE {column} IS NULL"},
            "description": "Every message was received.",
            "meta": {"table": "deliveries"},
        }
        for column in ("recieved_at", "acknowleged_at")
    ]
    (tmp_path / "my own" / "mine.json").write_text(json.dumps({"name": "mine", "expectations": entries}))

    assert verify.main([str(tmp_path / "run"), "--expectations", f"{tmp_path}/my own", "--expectations", SHIPPED]) == 0

    console = Console(width=500, color_system=None)
    with console.capture() as captured:
        print_outcome(compose_outcome(run), {}, console)
    (line,) = (line for line in captured.get().splitlines() if line.startswith("suite mine is unknown: "))
    assert "with name `recieved_at` cannot be resolved" in line
    assert line.endswith(" (and 1 more)")
    assert "SQLSTATE" not in line


def test_a_directory_without_a_run_is_left_alone(tmp_path):
    assert verify.main([str(tmp_path / "mistyped")]) == 1

    assert not (tmp_path / "mistyped").exists()


def test_a_run_without_its_tables_keeps_the_judgement_that_it_has(spark, tmp_path, capsys):
    run = History().clean().write(tmp_path / "run")
    assert verify.main([str(tmp_path / "run")]) == 0
    judged = (tmp_path / "run/state/judgement.json").read_text()
    write_record(run, TablesDeletion(why="after 30 days (BROKERPROOF_KEEP_TABLES_DAYS)", at=1_767_225_600_000_000))
    for table in MESSAGE_TABLES:
        shutil.rmtree(run.table(table), ignore_errors=True)

    assert verify.main([str(tmp_path / "run")]) == 1

    assert (tmp_path / "run/state/judgement.json").read_text() == judged
    sentence = "its tables were deleted on 2026-01-01, after 30 days (BROKERPROOF_KEEP_TABLES_DAYS)"
    assert sentence in capsys.readouterr().err


def test_verify_leaves_the_series_and_says_where_they_cannot_be_made(spark, tmp_path, monkeypatch):
    run = History().clean().write(tmp_path / "run")
    phases = PhaseTimes(
        steady_at=START, impact_at=START + SECOND, recovery_at=START + 2 * SECOND, ends_at=START + 3 * SECOND
    )
    write_record(run, phases)
    assert verify.main([str(tmp_path / "run")]) == 0
    made = read_record(run, RunSeries)
    assert (made.problem, sum(made.publishes[0].acked)) == ("", 12)

    def fail(*_):
        raise RuntimeError("no space left\nat all")

    monkeypatch.setattr("brokerproof_judging.series.run_series.make_message_series", fail)
    assert verify.main([str(tmp_path / "run")]) == 0
    assert read_record(run, RunSeries).problem == "The series of the run could not be made: no space left"
    assert read_judgement(run).suites[Suite.COMPLETENESS].verdict == "passed"
