"""A run's outcome on a terminal: the order of its parts, and the bounds beside a value."""

from __future__ import annotations

from typing import Any

import pytest
from brokerproof.experiment.scenario import ExpectedOutcome
from brokerproof.experiment.verdict import Verdict
from brokerproof.reports.outcome_view import describe_restarts, print_outcome
from brokerproof.run.outcome import BriefOutcome, Durations, NodeRestarts, Outcome, make_unknown_outcome
from rich.console import Console

# 2026-01-01T00:31:07Z
AT = 1_767_227_467_000_000
RESTARTS = (
    NodeRestarts(node="bk-eu", ended=2, restarted=2, first_ended_at=AT, first_restarted_at=AT + 10_000_000),
    NodeRestarts(node="bk-us", ended=1, restarted=0, first_ended_at=AT + 20_000_000, first_restarted_at=None),
)


def read_lines(outcome: BriefOutcome) -> list[str]:
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        print_outcome(outcome, {"load": "no [red] memory"}, console)
    return [line.rstrip() for line in captured.get().splitlines() if line.strip()]


def show(**came_to: Any) -> list[str]:
    values: dict[str, Any] = {
        **{"run_id": "r", "scenario": "s", "topology": "t", "runtime": "process", "expected": ExpectedOutcome()},
        **{"verdict": Verdict.PASSED, "met": True, "why": "passed, as expected; All held."},
        **{"suites": {}, "counts": {}, "recovery": {}, "latency": {}, "link": {}},
        "seconds": Durations(
            total=130.5, phases=100.0, overhead=30.5, steps={"load": 101.2, "verify": None}, judging={}
        ),
        **{"run_dir": "/runs/r", "report": "/runs/r/report/report.html"},
    }
    return read_lines(Outcome(**values | came_to))


def test_a_run_without_an_outcome_of_its_own_has_its_reason_and_its_directory() -> None:
    assert read_lines(make_unknown_outcome("r", "s", "/runs/r", "run.json is missing")) == [
        "s: unknown, not as expected",
        "run.json is missing",
        "task load failed: no [red] memory",
        "run dir: /runs/r",
    ]


def test_the_verdict_comes_first_then_the_story_and_nothing_twice() -> None:
    lines = show(story="eu was destroyed; 5 messages acked, 0 lost, order held.")
    assert lines[0] == "s: passed, as expected"
    assert lines[1] == "eu was destroyed; 5 messages acked, 0 lost, order held."
    assert not any("All held" in line for line in lines)
    assert lines[-1] == "report: /runs/r/report/report.html"


def test_the_reasons_are_told_where_a_run_is_not_simply_passed() -> None:
    for came_to in ({"verdict": Verdict.UNKNOWN}, {"met": False}):
        lines = show(story="A story.", why="Because of that.", **came_to)
        assert lines[1:3] == ["A story.", "Because of that."]
    # A run of before there were stories.
    assert "passed, as expected; All held." in show()


def test_bounds_stand_beside_values_and_digits_mean_something() -> None:
    recovery = {"gone": {"rto_s": 49.0, "first_ack_s": 49.357718, "agree_s": None, "rpo_messages": 12345.0}}
    text = "\n".join(show(recovery=recovery, bounds={"gone": {"rto_s": (None, 80.0), "agree_s": (1.0, 2.0)}}))
    assert "49 s (at most 80)" in text
    assert "49.4 s" in text
    assert "– (at least 1, at most 2)" in text
    assert "12,345 messages" in text


def test_a_value_without_a_bound_and_the_reason_for_no_value_are_told() -> None:
    recovery = {
        "gone": {"rto_s": 49.0, "reassign_s": 2.0, "agree_s": None, "rereplicate_s": None},
        "back": {"rto_s": 1.0, "agree_s": None},
    }
    unmeasured = {
        "gone": {"agree_s": "no replication was sampled", "rereplicate_s": "no segment was under-replicated"},
        "back": {"agree_s": "no replication was sampled"},
    }
    lines = show(recovery=recovery, bounds={"gone": {"rto_s": (None, 80.0)}}, unmeasured=unmeasured)
    cells = [line.split("│") for line in lines if "│" in line]
    found = {row[1].strip(): [cell.strip() for cell in row[2:4]] for row in cells}
    assert found["rto_s"] == ["49 s (at most 80)", "1 s (no bound)"]
    assert found["reassign_s"] == ["2 s (no bound)", "–"]
    assert "not measured: agree_s of gone, agree_s of back (no replication was sampled)" in lines
    assert "not measured: rereplicate_s of gone (no segment was under-replicated)" in lines


def test_many_faults_have_their_table_only_in_the_report() -> None:
    recovery = {f"fault_{number}": {"rto_s": 1.0, "agree_s": None} for number in range(9)}
    unmeasured = {fault: {"agree_s": "no replication was sampled"} for fault in recovery}
    lines = show(recovery=recovery, unmeasured=unmeasured)
    assert "recovery: the report has it of all 9 faults" in lines
    assert not [line for line in lines if "│" in line or "not measured" in line]
    del recovery["fault_8"]
    assert any("│" in line for line in show(recovery=recovery, unmeasured=unmeasured))


def test_messages_that_were_not_sent_are_counted_only_if_there_are_any() -> None:
    counts = {"publishes": 9, "acked": 8, "unknown": 1, "stored": 8, "deliveries": 8}
    assert "messages: 9 publishes, 8 acked, 1 unknown, 8 stored, 8 deliveries" in show(counts=counts | {"not_sent": 0})
    assert "messages: 9 publishes, 8 acked, 1 unknown, 8 stored, 8 deliveries, 1,500 not sent" in show(
        counts=counts | {"not_sent": 1500}
    )
    # A run of before they were counted.
    assert not any("not sent" in line for line in show(counts=counts))


def test_a_line_says_who_triggered_the_run_only_if_this_is_known() -> None:
    assert "triggered by: alice" in show(triggered_by="alice")
    assert not any(line.startswith("triggered by") for line in show())


def test_suites_and_durations_have_a_line_each() -> None:
    lines = show(suites={"ordering": Verdict.FAILED, "placement": Verdict.NO_DATA})
    assert "suites: ordering failed, placement no data" in lines
    assert "seconds: 130 (load 101)" in lines


def test_a_suite_that_is_unknown_has_a_line_with_its_reason() -> None:
    suites = {"ordering": Verdict.PASSED, "mine": Verdict.UNKNOWN}
    lines = show(suites=suites, unknown_suites={"mine": "its SQL is broken (and 2 more)"})
    assert lines.index("suite mine is unknown: its SQL is broken (and 2 more)") == 1 + lines.index(
        "suites: ordering passed, mine unknown"
    )
    assert not any("is unknown" in line for line in show(suites={"ordering": Verdict.PASSED}))


def test_latencies_have_a_row_for_each_distance_and_the_path_of_the_picture() -> None:
    latency = {"at_5_ms": {"stretched": {"p50_ms": 14.34, "p99_ms": None}, "local": {"p50_ms": 2.0, "p99_ms": 4.0}}}
    text = "\n".join(show(latency=latency, link={"at_5_ms": {"eu>us": {"p50_ms": 0.06, "p99_ms": 51.2}}}))
    assert "0.1 / 51.2" in text
    assert "14.3 / –" in text
    assert "2.0 / 4.0" in text
    assert "picture: /runs/r/publish_latency.svg" in text


@pytest.mark.parametrize(
    ("restarts", "sentence"),
    [
        (
            RESTARTS[0].model_copy(update={"ended": 1, "restarted": 1}),
            "bk-eu ended by itself at 00:31:07 UTC and was started again after 10 s",
        ),
        (
            RESTARTS[0],
            "bk-eu ended by itself at 00:31:07 UTC and was started again after 10 s; "
            "in all it ended 2 times and was started 2 times",
        ),
        (RESTARTS[1], "bk-us ended by itself at 00:31:27 UTC and was not started again by its service manager"),
    ],
)
def test_one_sentence_says_what_happened_to_a_node(restarts: NodeRestarts, sentence: str) -> None:
    assert describe_restarts(restarts) == sentence


def test_each_node_that_ended_has_a_line() -> None:
    lines = show(restarts=RESTARTS)
    assert [line.split()[0] for line in lines if "ended by itself" in line] == ["bk-eu", "bk-us"]


def test_what_does_not_apply_for_one_reason_has_one_line() -> None:
    outputs = dict.fromkeys(("output_missing", "output_repeated"), "no consumer writes outputs")
    lines = show(not_applicable={**outputs, "not_replicated": "it has one cluster"})
    assert [line for line in lines if line.startswith("not applicable")] == [
        "not applicable: output_missing, output_repeated (no consumer writes outputs)",
        "not applicable: not_replicated (it has one cluster)",
    ]
