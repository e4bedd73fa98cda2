"""A run's report for other programs: one document, also where something is missing."""

from __future__ import annotations

import json

import pytest
from brokerproof.reports.exports import RunDocument, make_run_document, render_run_json
from brokerproof.run.directory import Run


@pytest.fixture(autouse=True)
def database(sqlite_history, monkeypatch):
    """The history of this machine is the empty one of the test."""
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", sqlite_history.database)


def test_the_document_has_the_outcome_the_judgement_and_the_facts(plant, judgement):
    run = plant("r1", judged=judgement(measured={("rto_s", "kill_us"): 52.0}), machine={"processors": 2})
    report = json.loads(make_run_document(run).model_dump_json())
    assert report["version"] == 3
    assert (report["outcome"]["verdict"], report["outcome"]["met"]) == ("passed", True)
    assert report["judgement"]["suites"]["ordering"]["expectations"][0]["name"] == "expect_ordering"
    assert report["judgement"]["measurements"][0]["value"] == 52.0
    assert report["not_judged"] is None
    facts = report["facts"]
    assert (facts["system"], facts["system_version"], facts["machine"]) == ("pulsar", "4.0.8", {"processors": 2})
    assert facts["scenario"]["workload"]["rate"] == 1000
    assert "main" in facts["topology"]["clusters"]
    assert facts["started_at"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("triggered_by", ["alice", None])
def test_the_document_says_who_triggered_the_run(plant, judgement, triggered_by):
    run = plant("r1", judged=judgement(), triggered_by=triggered_by)
    assert make_run_document(run).outcome.triggered_by == triggered_by


def test_a_run_that_was_made_before_this_was_recorded_still_opens(plant, judgement):
    run = plant("r1", judged=judgement(), triggered_by="alice")
    facts = json.loads(run.read_text("run.json"))
    del facts["triggered_by"]
    run.write_text("run.json", json.dumps(facts))
    assert make_run_document(Run(run.directory)).outcome.triggered_by is None


def test_a_recorded_run_is_compared_with_the_runs_before_it(plant, judgement, sqlite_history):
    sqlite_history.record(plant("good", judged=judgement()))
    bad = plant("bad", judged=judgement("failed", failed=("completeness",)), minutes=5)
    sqlite_history.record(bad)
    report = make_run_document(bad)
    assert report.not_compared is None
    assert report.regressions is not None
    assert [mark.metric for mark in report.regressions.marks] == ["verdict"]
    # The history has the versions of the machine that recorded it.
    assert "python" in {name.lower() for name in report.facts.versions}


def test_a_run_that_the_history_lacks_says_so(plant, judgement):
    report = make_run_document(plant("r9", judged=judgement()))
    assert report.regressions is None
    assert report.not_compared is not None
    assert report.not_compared.endswith("has no run r9")
    assert report.facts.versions == {"pulsar": "4.0.8"}


def test_a_run_that_was_not_judged_says_so(plant):
    report = make_run_document(plant())
    assert report.judgement is None
    assert report.not_judged == "nothing was judged: `verify` left no judgement"
    assert report.outcome.verdict == "unknown"


def test_a_history_that_cannot_be_opened_is_told_in_the_document(plant, judgement, tmp_path, monkeypatch):
    (tmp_path / "nowhere").write_text("no directory")
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", f"postgresql+nodriver://u:secret@h/{tmp_path.name}")
    report = json.loads(render_run_json(plant(judged=judgement())))
    assert report["regressions"] is None
    assert "needs a database driver" in report["not_compared"]
    assert "secret" not in report["not_compared"]


def test_without_any_history_the_document_says_so(plant, judgement, tmp_path, monkeypatch):
    monkeypatch.delenv("BROKERPROOF_DATABASE_URL")
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path / "var"))
    assert json.loads(render_run_json(plant(judged=judgement())))["not_compared"] == "this machine has no history yet"
    assert not (tmp_path / "var").exists()


def test_the_document_cannot_be_changed_and_has_no_other_fields(plant, judgement):
    report = make_run_document(plant(judged=judgement()))
    with pytest.raises(ValueError, match="frozen"):
        report.not_judged = "x"  # type: ignore[misc]
    with pytest.raises(ValueError, match="extra"):
        RunDocument.model_validate({**dict(report), "more": 1})
