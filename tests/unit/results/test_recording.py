"""A run is recorded whatever ended it, and never as more than its evidence says."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from brokerproof import lifecycle
from brokerproof.commands import machine_commands, recorded_run_commands
from brokerproof.errors import RunError
from brokerproof.reports.last_run_metrics import render_metrics
from brokerproof.results.history import open_history
from brokerproof.results.history_database import HistoryError
from brokerproof.results.recording import record_outcome, record_unrecorded_runs
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.judgement import JudgingFailure, find_judgement, write_judgement
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import read_record, remove_record, write_record
from brokerproof.settings import from_environment
from builders import leave_judgement


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", f"sqlite:///{tmp_path}/history.db")


def read_verdicts() -> dict[str, str]:
    with open_history() as history:
        return {run.run_id: run.verdict for run in history.list_runs()}


def test_runs_that_nobody_recorded_are_recorded_once(plant, judgement, tmp_path):
    record_outcome(plant("whole", judged=judgement()))
    plant("cut-off")
    plant("judged", judged=judgement("failed", failed=("completeness",)))
    recorded = {outcome.run_id: str(outcome.verdict) for outcome in record_unrecorded_runs(tmp_path / "runs")}
    assert recorded == {"cut-off": "unknown", "judged": "failed"}
    assert read_verdicts() == {"whole": "passed", **recorded}
    assert list(record_unrecorded_runs(tmp_path / "runs")) == []


def test_a_run_that_cannot_be_recorded_is_told_and_keeps_nobody_else_from_it(plant, judgement, tmp_path, caplog):
    plant("a-damaged").write_text("run.json", "{")
    plant("b-whole", judged=judgement())
    assert [outcome.run_id for outcome in record_unrecorded_runs(tmp_path / "runs")] == ["b-whole"]
    assert "a-damaged was not recorded" in caplog.text


def test_the_outcome_is_beside_the_evidence_also_without_a_history(plant, judgement, tmp_path, monkeypatch):
    run: Run = plant(judged=judgement())
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", f"sqlite:///{tmp_path}/nowhere/history.db")
    (tmp_path / "nowhere").write_text("no directory")
    with pytest.raises(HistoryError):
        record_outcome(run)
    assert read_record(run, Outcome) is not None


FAILURE = JudgingFailure(why="The run could not be judged: no memory", error="MemoryError()")


def verify(run: Run, monkeypatch: pytest.MonkeyPatch, judged: dict[str, Any] | None) -> int:
    """Call `verify` for a run, with a Spark job that comes to the given judgement, or that fails."""

    def submit(_settings, _job, arguments, **_options):
        if judged is None:
            write_judgement(Run(arguments[0]), FAILURE)
            raise RunError("the job failed")
        leave_judgement(Run(arguments[0]), judged)
        remove_record(Run(arguments[0]), JudgingFailure)

    monkeypatch.setattr(recorded_run_commands, "submit_locally", submit)
    options = argparse.Namespace(run=run.directory, json=False)
    return recorded_run_commands.execute_verify(options, from_environment())


def test_verify_records_a_run_that_was_not_judged(plant, judgement, monkeypatch):
    cut_off, failed = plant("cut-off"), plant("failed")
    write_record(failed, FAILURE)
    for run in (cut_off, failed):
        assert verify(run, monkeypatch, judgement()) == 0
    assert read_verdicts() == {"cut-off": "passed", "failed": "passed"}
    outcome = read_record(cut_off, Outcome)
    assert outcome is not None
    assert outcome.notes == ()


def test_a_run_that_is_judged_again_has_its_new_outcome_everywhere_and_keeps_its_first_verdict(
    plant, judgement, monkeypatch
):
    run = plant("night", judged=judgement())
    record_outcome(run)
    for verdict, failed in (("failed", ("completeness",)), ("failed", ("ordering",))):
        assert verify(run, monkeypatch, judgement(verdict, failed=failed)) == 1
    assert read_verdicts() == {"night": "failed"}
    with open_history() as history:
        (line,) = (one for one in render_metrics(history).splitlines() if 'verdict="failed"' in one)
    assert line.endswith(" 1.0")
    outcome = read_record(run, Outcome)
    assert outcome is not None
    assert (outcome.verdict, outcome.suites["ordering"]) == ("failed", "failed")
    (note,) = outcome.notes
    assert "judged again" in note
    assert "first verdict was passed: passed, as expected" in note


def test_a_run_that_cannot_be_judged_again_keeps_its_judgement_and_its_outcome(plant, judgement, monkeypatch, capsys):
    run = plant("night", judged=judgement())
    first = record_outcome(run)
    assert verify(run, monkeypatch, None) == 2
    assert "The run keeps the verdict that it had" in " ".join(capsys.readouterr().err.split())
    assert find_judgement(run)[1] == ""
    assert read_verdicts() == {"night": "passed"}
    assert compose_outcome(run).model_dump(exclude={"seconds"}) == first.model_dump(exclude={"seconds"})


def test_a_run_that_could_never_be_judged_is_unknown(plant, judgement, monkeypatch, capsys):
    run = plant("night")
    assert verify(run, monkeypatch, None) == 2
    assert "keeps" not in capsys.readouterr().err
    assert read_verdicts() == {"night": "unknown"}


def test_later_runs_are_compared_with_the_new_result(plant, judgement, monkeypatch):
    first = plant("a", judged=judgement())
    second = plant("b", judged=judgement("failed", failed=("ordering",)), minutes=5)
    for run in (first, second):
        record_outcome(run)

    def list_marks():
        with open_history() as history:
            return [mark["metric"] for mark in history.find_run("b").marks]

    assert list_marks() == ["verdict"]
    verify(first, monkeypatch, judgement("failed", failed=("ordering",)))
    assert list_marks() == []


def test_down_here_ends_and_records_only_what_is_below_its_own_directory(plant, judgement, tmp_path, monkeypatch):
    plant("cut-off")
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path))
    below: list[Path | None] = []
    monkeypatch.setattr(lifecycle, "down", lambda below_=None: below.append(below_) or [])
    for here in (True, False):
        assert machine_commands.execute_down(argparse.Namespace(here=here, json=True), from_environment()) == 0
    assert below == [tmp_path / "runs", None]
    assert read_verdicts() == {"cut-off": "unknown"}
