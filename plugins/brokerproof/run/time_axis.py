"""The time axis of a run: how a process that works on the run comes to it, and how far the wall clock keeps to it."""

from __future__ import annotations

from brokerproof import clock
from brokerproof.run.directory import Run
from brokerproof.run.facts import TimeAxis


def make_time_axis() -> TimeAxis:
    """Return an axis that begins with the wall clock's time of this moment."""
    return TimeAxis(boot_id=clock.read_boot_id(), offset_us=clock.measure_offset_us())


def follow_time_axis(run: Run) -> None:
    """Take this process's times from the run's axis; from the wall clock if the run has none, as older runs.

    Raises RunError if run.json cannot be read.
    """
    axis = run.facts.time_axis
    if axis is None:
        clock.leave_axis()
    else:
        clock.follow_axis(axis.boot_id, axis.offset_us)
