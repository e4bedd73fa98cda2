"""The course of each fault of a run: when it was injected, took effect, was healed, and had recovered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import Moment
from brokerproof.run.strict_model import StrictModel
from brokerproof.run.table_rows import collect_rows
from brokerproof.run.tables import FaultState


class FaultCourse(StrictModel):
    """One fault, with the time (microseconds) at which it reached each state; None for a state that it did not reach.

    If a fault reached a state several times, the first time counts. For `recovered`, the last time counts.
    """

    fault: str
    kind: str
    # The targets in the last row that has any.
    targets: tuple[str, ...] = ()
    injected_at: Moment | None = None
    effective_at: Moment | None = None
    # When its healing began.
    healed_at: Moment | None = None
    # When its targets were healthy again.
    recovered_at: Moment | None = None

    @property
    def times(self) -> dict[FaultState, Moment]:
        """The time of each reached state, in the order of the states."""
        times = {state: getattr(self, field) for state, field in _FIELDS.items()}
        return {state: at for state, at in times.items() if at is not None}

    @property
    def begins_at(self) -> Moment:
        """The earliest time at which a state of the fault began. The fault must have reached at least one state."""
        return min(self.times.values())


_FIELDS = {
    FaultState.INJECTING: "injected_at",
    FaultState.EFFECTIVE: "effective_at",
    FaultState.HEALING: "healed_at",
    FaultState.RECOVERED: "recovered_at",
}


def read_fault_courses(run: Run) -> dict[str, FaultCourse]:
    """Return {fault: course} for the faults of a run that were injected, in the order of their injections.

    Raises RunError if the table `faults` is damaged.
    """
    problems: list[str] = []
    rows = collect_rows(run, "faults", problems)
    if problems:
        raise RunError(problems[0].rstrip("."))
    try:
        return follow_faults(rows)
    except ValueError as error:
        raise RunError(f"the table faults of {run.directory} holds a row that cannot be used: {error}") from None


def follow_faults(rows: Iterable[Mapping[str, Any]]) -> dict[str, FaultCourse]:
    """Return {fault: course} for `rows` of the table `faults`, in the order of each fault's earliest row.

    Raises ValueError if the state of a row is missing or unknown.
    """
    courses: dict[str, FaultCourse] = {}
    for row in sorted(rows, key=lambda row: row["at"] or 0):
        name, field = row["fault"], _FIELDS[FaultState(row["state"])]
        course = courses.get(name) or FaultCourse(fault=name, kind=row["kind"])
        changes: dict[str, Any] = {"targets": tuple(row["targets"] or ()) or course.targets}
        if getattr(course, field) is None or field == "recovered_at":
            changes[field] = row["at"]
        courses[name] = course.model_copy(update=changes)
    return courses
