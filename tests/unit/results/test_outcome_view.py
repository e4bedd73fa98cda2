"""A run's outcome on a terminal: what comes first, what is said once, and what stands beside a value."""

from __future__ import annotations

from typing import Any

from brokerproof.reports.outcome_view import print_outcome
from rich.console import Console


def show(**came_to: Any) -> list[str]:
    console = Console(width=200, color_system=None)
    outcome = {"scenario": "s", "verdict": "passed", "met": True, "why": "passed, as expected; All held.", **came_to}
    with console.capture() as captured:
        print_outcome({"run_dir": "/runs/r", "report": "/runs/r/report/report.html", **outcome}, {}, console)
    return [line.rstrip() for line in captured.get().splitlines() if line.strip()]


def test_the_verdict_comes_first_then_the_story_and_nothing_twice() -> None:
    lines = show(story="eu was destroyed; 5 messages acked, 0 lost, order held.")
    assert lines[0] == "s: passed, as expected"
    assert lines[1] == "eu was destroyed; 5 messages acked, 0 lost, order held."
    assert not any("All held" in line for line in lines)
    assert lines[-1] == "report: /runs/r/report/report.html"


def test_the_reasons_are_told_where_a_run_is_not_simply_passed() -> None:
    for came_to in ({"verdict": "unknown", "met": True}, {"verdict": "passed", "met": False}):
        lines = show(story="A story.", why="Because of that.", **came_to)
        assert lines[1:3] == ["A story.", "Because of that."]
    # A run of before there were stories.
    assert "passed, as expected; All held." in show()


def test_bounds_stand_beside_values_and_digits_mean_something() -> None:
    recovery = {"gone": {"rto_s": 49.0, "first_ack_s": 49.357718, "agree_s": None, "rpo_messages": 12345.0}}
    text = "\n".join(show(recovery=recovery, bounds={"gone": {"rto_s": [None, 80.0], "agree_s": [1.0, 2.0]}}))
    assert "49 s (at most 80)" in text
    assert "49.4 s" in text
    assert "– (at least 1, at most 2)" in text
    assert "12,345 messages" in text


def test_messages_that_were_not_sent_are_counted_only_if_there_are_any() -> None:
    counts = {"publishes": 9, "acked": 8, "unknown": 1, "stored": 8, "deliveries": 8}
    assert "messages: 9 publishes, 8 acked, 1 unknown, 8 stored, 8 deliveries" in show(counts=counts | {"not_sent": 0})
    assert "messages: 9 publishes, 8 acked, 1 unknown, 8 stored, 8 deliveries, 1,500 not sent" in show(
        counts=counts | {"not_sent": 1500}
    )
    # A run of before they were counted.
    assert not any("not sent" in line for line in show(counts=counts))
