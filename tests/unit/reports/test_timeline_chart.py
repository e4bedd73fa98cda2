"""The owners and the interruptions in a run's timeline. The other rows are in the tests of the run's page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from brokerproof.errors import RunError
from brokerproof.reports.timeline_chart import NO_ANSWER, NOBODY, draw_timeline
from brokerproof.results.story import DescribedFault
from brokerproof.run.directory import Run
from brokerproof.run.fault_course import FaultCourse
from brokerproof.run.records import read_record, write_record
from brokerproof.run.series import MOST_STEPS, OwnerChange, RunSeries

START = 1_767_225_600_000_000
SECOND = 1_000_000


def draw(*changes: tuple[str, int, str | None]) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """The lanes and the titles of a run of ten seconds; a change is (topic, second, owner)."""
    owners = tuple(OwnerChange(topic=topic, at=START + at * SECOND, owner=owner) for topic, at, owner in changes)
    figure = draw_timeline(RunSeries(start=START, steps=10, owners=owners), [], {}).figure
    return figure["data"], [one["text"] for one in figure["layout"]["annotations"]]


def test_one_topic_has_a_lane_for_each_owner() -> None:
    lanes, titles = draw(("t", 0, "broker-eu"), ("t", 4, ""), ("t", 7, "broker-us"))
    assert [lane["y"][0] for lane in lanes] == ["broker-eu", NOBODY, "broker-us"]
    assert [(lane["x"][1] - lane["x"][0]) / 1000 for lane in lanes] == [4, 3, 3]
    assert titles == ["<b>topic owner</b>"]


def test_no_answer_looks_neither_like_the_last_owner_nor_like_nobody() -> None:
    lanes, _ = draw(("t", 0, "broker-eu"), ("t", 4, None), ("t", 7, ""))
    assert [lane["y"][0] for lane in lanes] == ["broker-eu", NO_ANSWER, NOBODY]
    assert len({lane["line"]["color"] for lane in lanes}) == 3


def test_each_of_several_topics_has_a_lane_whose_colours_are_the_owners() -> None:
    lanes, titles = draw(
        ("shop/orders-partition-0", 0, "broker-eu"),
        ("shop/orders-partition-0", 4, "broker-us"),
        ("shop/orders-partition-1", 0, "broker-us"),
        ("shop/orders-partition-1", 5, ""),
    )
    assert [(lane["y"][0], lane["text"][0]) for lane in lanes] == [
        ("0", "broker-eu"), ("0", "broker-us"), ("1", "broker-us"), ("1", NOBODY),
    ]  # fmt: skip
    colours = [lane["line"]["color"] for lane in lanes]
    assert colours[1] == colours[2]
    assert len(set(colours)) == 3
    assert titles == ["<b>owner of each of 2 topics</b>"]


def test_of_many_topics_those_are_drawn_whose_owner_changed_most_often() -> None:
    quiet = [(f"t-{number}", 0, "a") for number in range(20)]
    lanes, titles = draw(*quiet, ("t-17", 3, "b"), ("t-17", 5, "a"), ("t-9", 4, "b"))
    assert {"17", "9"} <= {lane["y"][0] for lane in lanes}
    assert len({lane["y"][0] for lane in lanes}) == 6
    assert titles == ["<b>owner of 6 of 20 topics, those whose owner changed most often</b>"]


def draw_fault(**recovery: float | None) -> tuple[list[dict[str, Any]], str]:
    """The bars above the rows, and the label, of a fault that was injected at 2 s."""
    gone = DescribedFault(course=FaultCourse(fault="gone", kind="kill", injected_at=START + 2 * SECOND), whom="eu")
    layout = draw_timeline(RunSeries(start=START, steps=10), [gone], {"gone": recovery}).figure["layout"]
    bars = [shape for shape in layout["shapes"] if shape.get("ysizemode") == "pixel"]
    return bars, layout["annotations"][-1]["text"]


def test_a_fault_has_a_bar_to_the_end_of_the_last_interruption_and_its_figures() -> None:
    (bar,), label = draw_fault(rto_s=4.5, unavailable_s=3.0)
    assert (bar["x0"], bar["x1"]) == ((START + 2 * SECOND) / 1000, (START + 6.5 * SECOND) / 1000)
    assert label == "eu was killed: RTO 4.5 s, unavailable 3 s"


def test_a_fault_without_an_interruption_has_no_bar_and_one_without_figures_has_no_label() -> None:
    assert draw_fault(rto_s=0.0, unavailable_s=0.0) == ([], "eu was killed: RTO 0 s, unavailable 0 s")
    assert draw_fault(rto_s=None, unavailable_s=None) == ([], "eu was killed")
    assert draw_fault() == ([], "eu was killed")


def test_a_record_with_more_steps_than_a_screen_has_points_is_refused(tmp_path: Path) -> None:
    """The chart lists the time of each step, so one number in a run from elsewhere could take all memory."""
    run = Run(str(tmp_path))
    write_record(run, RunSeries(steps=MOST_STEPS))
    [file] = tmp_path.glob("state/**/run_series.json")
    file.write_text(file.read_text().replace(str(MOST_STEPS), str(MOST_STEPS + 1)))
    with pytest.raises(RunError, match=f"steps.*{MOST_STEPS}"):
        read_record(run, RunSeries)
