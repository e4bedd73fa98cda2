"""The steps in which a run's series are counted."""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.run.directory import Run
from brokerproof.run.records import PhaseTimes, StepSeconds, read_record

# More points than this are more than a screen has.
MOST_STEPS = 1500
# Lengths of a step that people can read off an axis, in seconds.
_LENGTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
# What is shown before the load is steady, in seconds.
_LEAD_S = 10


@dataclass(frozen=True, kw_only=True)
class TimeSteps:
    """`count` steps of `step_s` seconds each; times are microseconds."""

    start_us: int
    step_s: int
    count: int

    @property
    def step_us(self) -> int:
        """The length of a step."""
        return self.step_s * 1_000_000

    @property
    def end_us(self) -> int:
        """The end of the last step, which is not part of it."""
        return self.start_us + self.count * self.step_us

    def find(self, at_us: int) -> int | None:
        """The step that a moment is in, None outside all of them."""
        number = (at_us - self.start_us) // self.step_us
        return number if 0 <= number < self.count else None


def choose_time_steps(run: Run) -> TimeSteps | None:
    """From shortly before the load was steady to the end of loading and consuming; None where no load began."""
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
    """Steps that begin at a whole second and cover a stretch of time."""
    start_us -= start_us % 1_000_000
    seconds = max(1, -(-(end_us - start_us) // 1_000_000))
    step_s = next((length for length in _LENGTHS if seconds <= length * MOST_STEPS), None)
    if step_s is None:
        step_s = -(-seconds // MOST_STEPS)
    return TimeSteps(start_us=start_us, step_s=step_s, count=-(-seconds // step_s))
