"""The wall time of a run, from its trigger to its verdict, and the time of each of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from brokerproof import clock
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.outcome import Durations, Outcome
from brokerproof.run.records import StepSeconds, read_record, record_keys


def compute_durations(run: Run, judging: Mapping[str, float]) -> Durations:
    """Seconds: `total` from the trigger to the verdict, the planned `phases` of it, and `overhead`, which is the rest.

    `steps` has each step, and `judging` the parts of judging.
    """
    end = find_verdict_time(run)
    total = round((end - read_trigger_time(run)).total_seconds(), 3) if end else None
    phases = run.scenario.phases.total_s
    return Durations(
        total=total,
        phases=phases,
        overhead=None if total is None else round(total - phases, 3),
        steps={
            step: None if start is None or finish is None else round((finish - start) / 1e6, 3)
            for step, (start, finish) in _read_step_times(run).items()
        },
        judging=dict(judging),
    )


def read_trigger_time(run: Run) -> datetime:
    """When somebody triggered the run: `triggered_at` of run.json (microseconds), else when its directory was made."""
    triggered_at = run.facts.triggered_at
    return run.facts.created_at if triggered_at is None else clock.to_utc(triggered_at)


def find_verdict_time(run: Run) -> datetime | None:
    """When the verdict was known: the end of the last step, `release` excepted; None where no step ended.

    A run that is judged again on another day does not become longer: its verdict was known at the first judgement.
    """
    times = {step: span for step, span in _read_step_times(run).items() if step != "release"}
    first = _read_first_total_s(run)
    if first is not None:
        first_end = clock.to_microseconds(read_trigger_time(run)) + round(first * 1e6)
        if (times.get("verify", (None, None))[0] or 0) > first_end:
            return clock.to_utc(first_end)
    ends = [end for _, end in times.values() if end is not None]
    return clock.to_utc(max(ends)) if ends else None


def _read_first_total_s(run: Run) -> float | None:
    """The seconds from the trigger to the verdict in the outcome that `record` left."""
    try:
        left = read_record(run, Outcome)
    except (RunError, OSError):
        return None
    return left.seconds.total if left else None


def _read_step_times(run: Run) -> dict[str, tuple[int | None, int | None]]:
    """The start and the end of each step, in microseconds, in the order of their starts."""
    times: dict[str, tuple[int | None, int | None]] = {}
    for step in record_keys(run, StepSeconds):
        try:
            seconds = read_record(run, StepSeconds, step)
        except (RunError, OSError):
            # Times are no evidence, so a damaged record only leaves out the time of its step.
            seconds = None
        times[step] = (seconds.started_at, seconds.finished_at) if seconds else (None, None)
    return dict(sorted(times.items(), key=lambda item: item[1][0] or 0))
