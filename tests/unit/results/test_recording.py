"""A run is recorded whatever ended it, and never as more than its evidence says."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from brokerproof import lifecycle
from brokerproof.cli import main
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
from brokerproof.run.records import FoundRate, LoadRates, read_record, remove_record, write_record
from brokerproof.settings import from_environment
from builders import leave_judgement


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", f"sqlite:///{tmp_path}/history.db")
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path))


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


def verify(run: Run, monkeypatch: pytest.MonkeyPatch, judged: dict[str, Any] | None, *, record: bool = False) -> int:
    """Call `verify` for a run, with a Spark job that comes to the given judgement, or that fails."""

    def submit(_settings, _job, arguments, **_options):
        if judged is None:
            write_judgement(Run(arguments[0]), FAILURE)
            raise RunError("the job failed")
        leave_judgement(Run(arguments[0]), judged)
        remove_record(Run(arguments[0]), JudgingFailure)

    monkeypatch.setattr(recorded_run_commands, "submit_locally", submit)
    options = argparse.Namespace(run=run.directory, json=False, record=record)
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


# A directory from elsewhere


def copy_elsewhere(run: Run, tmp_path: Path, how: str) -> Run:
    """Return a run's directory as it comes from another machine, at a place of that kind."""
    source, elsewhere, runs = Path(run.directory), tmp_path / "elsewhere" / "night", tmp_path / "runs"
    if how == "a copy with another name below the runs":
        return Run(str(shutil.copytree(source, runs / "a-copy")))
    shutil.copytree(source, elsewhere)
    if how == "a link below the runs":
        (runs / "a-link").symlink_to(elsewhere)
        return Run(str(runs / "a-link"))
    if how == "a URL":
        return Run(elsewhere.as_uri())
    return Run(str(elsewhere))


PLACES = ("another directory", "a URL", "a link below the runs", "a copy with another name below the runs")


@pytest.mark.parametrize("how", PLACES)
@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "not recorded"])
def test_a_directory_from_elsewhere_gets_a_verdict_and_leaves_the_history_as_it_is(
    plant, judgement, tmp_path, monkeypatch, capsys, how, is_recorded
):
    own = plant("night", judged=judgement())
    if is_recorded:
        record_outcome(own)
    foreign = copy_elsewhere(own, tmp_path, how)
    if not is_recorded:
        shutil.rmtree(own.directory)
    before = read_verdicts()

    assert verify(foreign, monkeypatch, judgement("failed", failed=("ordering",))) == 1

    assert read_verdicts() == before
    printed = " ".join(capsys.readouterr().err.split())
    assert "warning: the history stays as it is, because " in printed
    assert "`brokerproof verify --record " in printed
    outcome = read_record(foreign, Outcome)
    assert outcome is not None
    assert outcome.verdict == "failed"
    assert foreign.exists("report", "report.html")

    assert verify(foreign, monkeypatch, judgement("failed", failed=("ordering",)), record=True) == 1

    assert read_verdicts() == {"night": "failed"}
    assert "stays as it is" not in capsys.readouterr().err


def test_a_run_at_another_place_is_recorded_if_the_history_has_it_from_there(plant, judgement, tmp_path, monkeypatch):
    moved = copy_elsewhere(plant("night", judged=judgement()), tmp_path, "another directory")
    record_outcome(moved)
    assert verify(moved, monkeypatch, judgement("failed", failed=("ordering",))) == 1
    assert read_verdicts() == {"night": "failed"}


def test_runs_on_another_disk_behind_a_link_are_this_machines_own(plant, judgement, tmp_path, monkeypatch):
    run = plant("night", judged=judgement())
    shutil.move(tmp_path / "runs", tmp_path / "disk")
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    assert verify(run, monkeypatch, judgement("failed", failed=("ordering",))) == 1
    assert read_verdicts() == {"night": "failed"}


def test_a_run_that_was_moved_below_the_runs_is_recorded(plant, judgement, tmp_path, monkeypatch):
    run = plant("night", judged=judgement())
    record_outcome(copy_elsewhere(run, tmp_path, "another directory"))
    shutil.rmtree(tmp_path / "elsewhere")
    assert verify(run, monkeypatch, judgement("failed", failed=("ordering",))) == 1
    assert read_verdicts() == {"night": "failed"}


def test_down_does_not_record_a_copy_in_the_place_of_its_run(plant, judgement, tmp_path, caplog):
    own = plant("night", judged=judgement())
    foreign = copy_elsewhere(own, tmp_path, "a copy with another name below the runs")
    leave_judgement(foreign, judgement("failed", failed=("ordering",)))
    record_outcome(own)
    assert list(record_unrecorded_runs(tmp_path / "runs")) == []
    assert read_verdicts() == {"night": "passed"}
    assert "a-copy was not recorded: the history has run night from " in caplog.text


def test_no_command_takes_a_directory_from_elsewhere_for_the_recorded_run(plant, judgement, tmp_path, capsys):
    own = plant("night", judged=judgement())
    record_outcome(own)
    record_outcome(plant("before", judged=judgement(), minutes=-5))
    foreign = copy_elsewhere(own, tmp_path, "another directory")

    assert main(["report", foreign.directory, "--json"]) == 0

    document = json.loads(foreign.read_text("report/report.json"))
    assert document["regressions"] is None
    assert document["not_compared"] == f"the history has run night from {own.directory}, not from {foreign.directory}"
    capsys.readouterr()
    assert main(["history", "--compare", "before", foreign.directory]) == 2
    assert "the history has run night from " in " ".join(capsys.readouterr().err.split())
    assert main(["history", "--compare", "before", own.directory]) == 0


# Links inside a run


LINKS = ("state", "tables", "report", "clients", "logs", "nodes", "state/outcome.json", "tables/messages/more")


@pytest.mark.parametrize("below", LINKS)
@pytest.mark.parametrize("command", [["verify"], ["verify", "--record"], ["report"]], ids=" ".join)
def test_a_run_with_a_link_inside_is_refused_before_anything_is_written(
    plant, judgement, tmp_path, monkeypatch, capsys, below, command
):
    run = plant("night", judged=judgement())
    place, elsewhere = Path(run.directory, below), tmp_path / "home"
    elsewhere.mkdir()
    (elsewhere / "id_rsa").write_text("secret")
    if place.exists():
        shutil.move(place, elsewhere)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(elsewhere)
    files = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(recorded_run_commands, "submit_locally", lambda *_, **__: pytest.fail("Spark was started"))

    assert main([*command, run.directory]) == 3

    assert sorted(tmp_path.rglob("*")) == files
    assert f"{place}: is a symbolic link inside a run" in capsys.readouterr().err.replace("\n", "")


def test_the_runs_link_that_a_person_made_is_no_link_inside_a_run(plant, judgement, tmp_path):
    run = plant("night", judged=judgement())
    (tmp_path / "mine").symlink_to(run.directory)
    assert main(["report", str(tmp_path / "mine")]) == 0
    assert run.exists("report", "report.html")


def test_runs_that_found_the_same_rate_are_comparable_with_each_other_and_with_runs_of_that_rate(plant, judgement):
    def leave(run_id: str, rate: int | str, found: int | None = None) -> None:
        changes = {"workload": {"namespace": "shop/orders", "rate": rate}}
        run = plant(run_id, judged=judgement(), changes=changes)
        if found is not None:
            kept = FoundRate(rate=found, held=found, missed=None, busy=None)
            write_record(run, LoadRates(steps=(), found=kept, at=1))
        record_outcome(run)

    leave("a", "max", 4000)
    leave("b", "max", 4000)
    leave("c", "max", 4500)
    leave("d", 4000)
    leave("e", "max")
    damaged = plant("f", judged=judgement(), changes={"workload": {"namespace": "shop/orders", "rate": "max"}})
    damaged.write_text("state/load_rates.json", "{")
    record_outcome(damaged)
    with open_history() as history:
        runs = {run.run_id: run for run in history.list_runs()}
        digests = {name: run.comparable for name, run in runs.items()}
    assert digests["a"] == digests["b"] == digests["d"]
    # The rate of these two is not known.
    assert digests["e"] == digests["f"]
    assert len(set(digests.values())) == 3
