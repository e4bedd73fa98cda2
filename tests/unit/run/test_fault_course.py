"""The course of a fault: the time of each state that its rows name."""

from __future__ import annotations

from typing import Any

import pytest
from brokerproof.run.fault_course import FaultCourse, follow_faults


def row(state: str, at: int, *, fault: str = "gone", targets: list[str] | None = None) -> dict[str, Any]:
    return {"fault": fault, "kind": "kill", "state": state, "at": at, "targets": targets, "evidence": None}


def test_each_state_has_the_time_of_its_row_in_any_order_of_rows() -> None:
    rows = [row("recovered", 40), row("effective", 20), row("injecting", 10, targets=["b1"]), row("healing", 30)]

    (course,) = follow_faults(rows).values()

    expected = FaultCourse(
        fault="gone", kind="kill", targets=("b1",), injected_at=10, effective_at=20, healed_at=30, recovered_at=40
    )
    assert course == expected
    assert list(course.times.values()) == [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("state", "field", "expected"),
    [("effective", "effective_at", 20), ("healing", "healed_at", 20), ("recovered", "recovered_at", 50)],
)
def test_a_state_counts_from_its_first_row_and_the_recovery_from_its_last(
    state: str, field: str, expected: int
) -> None:
    (course,) = follow_faults([row("injecting", 10), row(state, 50), row(state, 20)]).values()

    assert getattr(course, field) == expected


def test_a_state_that_was_not_reached_has_no_time() -> None:
    (course,) = follow_faults([row("injecting", 10), row("effective", 20)]).values()

    assert (course.healed_at, course.recovered_at) == (None, None)


def test_faults_are_in_the_order_of_their_injections_with_their_last_known_targets() -> None:
    rows = [
        row("injecting", 9, fault="b", targets=["b1"]),
        row("effective", 12, fault="b"),
        row("injecting", 3, fault="a"),
    ]

    courses = follow_faults(rows)

    assert list(courses) == ["a", "b"]
    assert courses["b"].targets == ("b1",)


def test_a_row_without_a_state_is_refused() -> None:
    with pytest.raises(ValueError, match="not a valid FaultState"):
        follow_faults([row("injecting", 10), dict.fromkeys(row("injecting", 10))])
