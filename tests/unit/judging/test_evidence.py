"""What the evidence has to show before anything is called missing, and how it is said."""

from __future__ import annotations

import pytest
from brokerproof.experiment.verdict import Verdict
from brokerproof_judging.evidence import Evidence
from brokerproof_judging.judgement import conclude

from .history import LEDGER, TOPIC, History
from .judged import Judged

FAULT = {"name": "kill", "kind": "kill", "targets": {"nodes": ["broker-eu-1-main"]}}
LOGS = [("main", ("main", TOPIC, -1))]
COUNTS = {"publishes": 10, "messages": 10, "acked": 10}


def problems(history, tmp_path):
    run = history.write(tmp_path / "run")
    return list(Evidence.of(run).problems(run, LOGS))


def test_nothing_is_missing_from_whole_evidence(tmp_path):
    assert problems(History().clean(), tmp_path) == []


@pytest.mark.parametrize(
    ("state", "content", "said"),
    [
        ("load", None, "The load did not finish"),
        ("load", {"finished": False, "scheduled": 12}, "The load did not finish"),
        ("read_back", None, "No log was read back"),
        ("read_back", {"logs": []}, "was not read to its end: no step left a record of it"),
        ("consume", None, "Nothing proves that a subscription drained"),
        ("consume", {"subscriptions": []}, "did not drain: no step left a record of it"),
        ("break_it", None, "Nothing proves that every fault was undone: no step left"),
        ("break_it", {"undone": False, "problems": ["broker-eu-1 is still frozen"]}, "broker-eu-1 is still frozen"),
    ],
)
def test_each_missing_piece_is_said_in_a_sentence(tmp_path, state, content, said):
    history = History(faults=[FAULT]).clean()
    history.states[state] = content

    (sentence,) = problems(history, tmp_path)

    assert said in sentence


def test_a_permanent_fault_needs_no_undoing(tmp_path):
    history = History(faults=[{**FAULT, "permanent": True}]).clean()
    history.states["break_it"] = {"undone": False, "problems": ["its disk is gone"]}

    assert problems(history, tmp_path) == []


def test_without_faults_nothing_has_to_be_undone(tmp_path):
    history = History().clean()
    history.states["break_it"] = None

    assert problems(history, tmp_path) == []


def test_replication_that_nobody_saw_drain_is_said(tmp_path):
    history = History(clusters=("main", "other")).clean()
    history.states["replication"] = None
    run = history.write(tmp_path / "run")

    said = list(Evidence.of(run).problems(run, [("main", ("other", TOPIC, -1))]))

    assert said == [f"Replication of {TOPIC} from main to other did not drain: no step left a record of it."]


@pytest.fixture(scope="module")
def doubtful(spark, tmp_path_factory):
    """A fault that was not undone, no word from the consumers, and publishes that contradict themselves."""
    history = History(faults=[FAULT]).clean()
    history.states["break_it"] = {"undone": False, "problems": ["broker-eu-1 is still frozen"]}
    history.states["consume"] = None
    history.forget("stored", "p0", 3)
    history.forget("deliveries", "p0", 3)
    history.forget("deliveries", "p1", 2)
    # Gaps: one in the middle, one at the start.
    history.message("gap", 0)
    history.message("gap", 2)
    history.message("late", 1)
    history.publish(producer="p1", seq=0, epoch=0, at=50_000, ledger_id=LEDGER, entry_id=0)
    history.publish(producer="p1", seq=4, epoch=1, at=50_000, payload_hash=3, outcome="unknown")
    return Judged(spark, tmp_path_factory.mktemp("doubtful") / "run", history)


def test_nothing_is_claimed_as_missing_while_a_fault_is_not_undone(doubtful):
    missing = {each for each in doubtful.anomalies(TOPIC) if each[0] in ("lost", "undelivered", "unproven")}

    assert missing == {
        ("unproven", True, "main", None, "p0", 3),
        ("unproven", True, "main", "audit", "p1", 2),
    }


@pytest.mark.parametrize(
    "said",
    [
        "The seq of what was published has gaps: gap (2 different of 3, from 0 to 2), late (1 different of 2",
        "One attempt is recorded more than once, so the load's record contradicts itself: p1 seq 0 in epoch 0.",
        "Messages were published with two payloads under one name; one is p1 seq 4.",
        "broker-eu-1 is still frozen",
        "Nothing proves that a subscription drained.",
    ],
)
def test_what_is_wrong_with_the_evidence_is_said(doubtful, said):
    assert any(said in problem for problem in doubtful.judgement["problems"])


def test_incomplete_evidence_makes_the_verdict_unknown(doubtful):
    assert doubtful.judgement["verdict"] == "unknown"


def test_without_publishes_there_is_no_data():
    assert conclude({**COUNTS, "publishes": 0}, ["No log was read back."], {})[0] is Verdict.NO_DATA


def test_a_proven_failure_outweighs_missing_evidence():
    suites = {"ordering": {"verdict": "failed", "why": "2 messages crossed."}, "placement": {"verdict": "passed"}}

    assert conclude(COUNTS, ["No log was read back."], suites) == (Verdict.FAILED, "ordering: 2 messages crossed.")


def test_the_verdict_passes_only_where_every_suite_and_the_evidence_do():
    suites = {"ordering": {"verdict": "passed", "why": ""}}

    assert conclude(COUNTS, [], suites)[0] is Verdict.PASSED
    assert conclude(COUNTS, ["No log was read back."], suites) == (Verdict.UNKNOWN, "No log was read back.")
    assert conclude(COUNTS, [], {})[0] is Verdict.NO_DATA
