"""A run is recorded whatever ended it, and never as more than its evidence says."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from brokerproof import lifecycle
from brokerproof.commands import machine_commands, recorded_run_commands
from brokerproof.results.history import open_history
from brokerproof.results.history_database import HistoryError
from brokerproof.results.recording import record_outcome, record_unrecorded_runs
from brokerproof.run.directory import Run
from brokerproof.run.judgement import JudgingFailure
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


def test_verify_records_a_run_that_nobody_had_judged_and_only_prints_another(plant, judgement, monkeypatch):
    judged = plant("judged", judged=judgement())
    cut_off, failed = plant("cut-off"), plant("failed")
    failure = JudgingFailure(why="The run could not be judged: no memory", error="MemoryError()")
    write_record(failed, failure)

    def submit(_settings, _job, arguments, **_options):
        run = Run(arguments[0])
        leave_judgement(run, judgement())
        remove_record(run, JudgingFailure)

    monkeypatch.setattr(recorded_run_commands, "submit_locally", submit)
    for run in (judged, cut_off, failed):
        options = argparse.Namespace(run=run.directory, json=False)
        assert recorded_run_commands.execute_verify(options, from_environment()) == 0
    assert read_verdicts() == {"cut-off": "passed", "failed": "passed"}


def test_down_here_ends_and_records_only_what_is_below_its_own_directory(plant, judgement, tmp_path, monkeypatch):
    plant("cut-off")
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path))
    below: list[Path | None] = []
    monkeypatch.setattr(lifecycle, "down", lambda below_=None: below.append(below_) or [])
    for here in (True, False):
        assert machine_commands.execute_down(argparse.Namespace(here=here, json=True), from_environment()) == 0
    assert below == [tmp_path / "runs", None]
    assert read_verdicts() == {"cut-off": "unknown"}
