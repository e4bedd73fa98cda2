"""Divides the time of a run into steps of equal length. A series has one value for each step."""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.run.directory import Run
from brokerproof.run.records import PhaseTimes, StepSeconds, read_record

# A screen has no room for more points.
MOST_STEPS = 1500
# Lengths of a step that are easy to read on an axis, in seconds.
_LENGTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
# The seconds that are shown before the load is steady.
_LEAD_S = 10


@dataclass(frozen=True, kw_only=True)
class TimeSteps:
    """`count` steps of `step_s` seconds each. Times are microseconds since the epoch."""

    start_us: int
    step_s: int
    count: int

    @property
    def step_us(self) -> int:
        return self.step_s * 1_000_000

    @property
    def end_us(self) -> int:
        """The end of the last step, exclusive."""
        return self.start_us + self.count * self.step_us

    def find(self, at_us: int) -> int | None:
        """Return the number of the step that contains `at_us`; None if no step does."""
        number = (at_us - self.start_us) // self.step_us
        return number if 0 <= number < self.count else None


def choose_time_steps(run: Run) -> TimeSteps | None:
    """Return the time steps until the jobs load and consume ended; None if no time of these jobs is recorded.

    The steps begin `_LEAD_S` seconds before the load was steady. If the load never became steady, they begin with the
    first of the two jobs.
    """
    phases = read_record(run, PhaseTimes)
    jobs = [one for name in ("load", "consume") if (one := read_record(run, StepSeconds, name)) is not None]
    if not jobs and phases is None:
        return None
    starts = [one.started_at for one in jobs]
    ends = [one.finished_at for one in jobs]
    if phases is not None:
        starts = [phases.steady_at - _LEAD_S * 1_000_000]
        ends.append(phases.ends_at)
    return make_time_steps(min(starts), max(ends))


def make_time_steps(start_us: int, end_us: int) -> TimeSteps:
    """Return at most `MOST_STEPS` steps that begin at a whole second and cover `start_us` to `end_us`."""
    start_us -= start_us % 1_000_000
    seconds = max(1, -(-(end_us - start_us) // 1_000_000))
    step_s = next((length for length in _LENGTHS if seconds <= length * MOST_STEPS), None)
    if step_s is None:
        step_s = -(-seconds // MOST_STEPS)
    return TimeSteps(start_us=start_us, step_s=step_s, count=-(-seconds // step_s))
