"""Which values and limits become rows: what a bound decides, and what a doubt about targets withholds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from brokerproof.run.measurement import Measurement
from brokerproof.run.records import FaultTargets
from brokerproof_judging.measurements.measured_values import (
    Estimate,
    MeasuredValue,
    is_broken,
    is_held,
    make_measured_value,
    make_measurements,
)

from ..history import START, History

FAULT = {"name": "kill", "kind": "kill", "targets": {"now": "topic_owner"}}


def make_row(tmp_path: Path, estimate: Estimate, *, doubted: bool = False, **bound: float) -> Measurement:
    """Return the row of `rto_s` of a fault whose targets may be doubtful."""
    history = History(faults=[FAULT], bounds={"rto_s": bound} if bound else {})
    if doubted:
        history.leave(FaultTargets(fault="kill", targets=("a",), known_at=START, why="no answer", at=START + 5_000_000))
    run = history.write(tmp_path / "run")
    (row,) = make_measurements(run, [MeasuredValue(metric="rto_s", subject="kill", estimate=estimate)])
    return row


def test_a_value_without_limits_of_its_own_is_exact(tmp_path: Path) -> None:
    row = make_row(tmp_path, Estimate(value=7, evidence="why"), max=5)
    assert (row.value, row.at_least, row.at_most, row.minimum, row.maximum) == (7.0, None, None, None, 5.0)
    assert row.evidence == "why"


AT_LEAST = Estimate(value=7, evidence="why", at_least=True, cut_off_by="other")
AT_MOST = Estimate(value=7, evidence="why", at_most=True, proven=3)


@pytest.mark.parametrize(
    ("estimate", "bound", "value", "evidence"),
    [
        # Every possible value breaks the bound, or holds it.
        (AT_LEAST, {"max": 6}, 7.0, "why"),
        (AT_MOST, {"max": 2}, 7.0, "why"),
        (AT_MOST, {"max": 7}, 7.0, "why"),
        (AT_MOST, {"min": 8}, 7.0, "why"),
        (AT_MOST, {"min": 3}, 7.0, "why"),
        # Some do, and some do not.
        (AT_LEAST, {"max": 7}, None, "why"),
        (AT_MOST, {"max": 3}, None, "between 3 and 7 s: why"),
        (AT_MOST, {"max": 6.9}, None, "between 3 and 7 s: why"),
        (AT_MOST, {"min": 3.1}, None, "between 3 and 7 s: why"),
        (AT_MOST, {"min": 7}, None, "between 3 and 7 s: why"),
        # A value that may be arbitrarily high is not shown as one that holds a minimum.
        (AT_LEAST, {"min": 5}, None, "why"),
        # Without a bound, only what is exact is a value.
        (AT_MOST, {}, 7.0, "why"),
        (AT_LEAST, {}, None, "why"),
    ],
)
def test_limits_are_a_value_if_they_decide_the_bound(
    tmp_path: Path, estimate: Estimate, bound: dict[str, float], value: float | None, evidence: str
) -> None:
    row = make_row(tmp_path, estimate, **bound)
    assert (row.value, row.evidence) == (value, evidence)
    assert (row.at_least, row.at_most) == ((3.0, 7.0) if estimate is AT_MOST else (7.0, None))
    assert row.cut_off_by == ("other" if estimate is AT_LEAST and value is None else None)


@pytest.mark.parametrize(
    ("estimate", "evidence"),
    [
        (Estimate(value=7, evidence="why"), " 7 s was measured: why"),
        (AT_MOST, " 7 s was measured: why"),
        (Estimate(value=None, evidence="why"), " why"),
    ],
)
def test_a_bound_of_a_fault_with_doubtful_targets_is_not_claimed(
    tmp_path: Path, estimate: Estimate, evidence: str
) -> None:
    doubt = "its targets were known only from 5 s before"
    row = make_row(tmp_path, estimate, doubted=True, max=2)
    assert (row.value, row.at_least, row.at_most, row.doubt) == (None, None, None, doubt)
    assert row.evidence == f"{doubt}, so no bound of this fault is claimed;{evidence}"


def test_without_a_bound_a_doubt_changes_no_value(tmp_path: Path) -> None:
    row = make_row(tmp_path, AT_MOST, doubted=True)
    assert (row.value, row.at_least, row.at_most, row.evidence) == (7.0, 3.0, 7.0, "why")


@pytest.mark.parametrize(
    ("measured", "found"),
    [
        ([], {("rto_s", "nothing"), ("detect_s", "kill")}),
        ([("rto_s", "kill")], {("rto_s", "kill"), ("detect_s", "kill")}),
        ([("detect_s", "kill")], {("rto_s", "nothing"), ("detect_s", "kill")}),
        # A value of another fault is none of this one.
        ([("detect_s", "other")], {("rto_s", "nothing"), ("detect_s", "other"), ("detect_s", "kill")}),
    ],
)
def test_a_bound_of_which_nothing_was_measured_has_a_row_without_a_value(
    tmp_path: Path, measured: list[tuple[str, str]], found: set[tuple[str, str]]
) -> None:
    run = History(faults=[FAULT], bounds={"rto_s": {"max": 5}, "detect_s/kill": {"max": 5}}).write(tmp_path / "run")
    rows = make_measurements(run, [make_measured_value(*name, 1.0, "why") for name in measured])
    assert {(row.metric, row.subject) for row in rows} == found
    for row in rows:
        key = "rto_s" if row.metric == "rto_s" else "detect_s/kill"
        is_measured = (row.metric, row.subject) in measured
        assert row.value == (1.0 if is_measured else None)
        assert row.evidence == ("why" if is_measured else f"nothing was measured of `{key}`")


# (least, most, lowest, highest): whether all values break the bounds, and whether all hold them.
LIMITS: list[tuple[tuple[Any, Any, Any, Any], bool, bool]] = [
    ((3, 7, None, None), False, True),
    ((None, None, None, None), False, True),
    ((3, 7, None, 7), False, True),
    ((3, 7, None, 6), False, False),
    ((3, 7, None, 3), False, False),
    ((3, 7, None, 2), True, False),
    ((3, None, None, 3), False, False),
    ((3, None, None, 2), True, False),
    ((None, 7, None, 7), False, True),
    ((None, 7, None, 2), False, False),
    ((3, 7, 3, None), False, True),
    ((3, 7, 4, None), False, False),
    ((3, 7, 7, None), False, False),
    ((3, 7, 8, None), True, False),
    ((None, 7, 7, None), False, False),
    ((None, 7, 8, None), True, False),
    ((3, None, 3, None), False, True),
    ((3, None, 8, None), False, False),
    ((3, 7, 3, 7), False, True),
    ((3, 7, 4, 6), False, False),
]


@pytest.mark.parametrize(("limits", "broken", "held"), LIMITS)
def test_limits_break_or_hold_bounds(limits: tuple[Any, Any, Any, Any], broken: bool, held: bool) -> None:
    assert (is_broken(*limits), is_held(*limits)) == (broken, held)
