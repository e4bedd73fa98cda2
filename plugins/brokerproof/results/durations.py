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
    """Return how many seconds a run took: `total` from its trigger to its verdict, and the times of its parts.

    `phases` is the planned time, and `overhead` is `total` less `phases`. `total` and `overhead` are None if no step of
    the DAG ended. `steps` has the time of each step, None if its record cannot be read.
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
    """Return the time of the run's trigger: `triggered_at` of run.json or, if that is null, `created_at`."""
    triggered_at = run.facts.triggered_at
    return run.facts.created_at if triggered_at is None else clock.to_utc(triggered_at)


def find_verdict_time(run: Run) -> datetime | None:
    """Return the time of the verdict: the end of the last step except `release`, or None if no step ended.

    If a run is judged again, the time of its first verdict counts.
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
    try:
        left = read_record(run, Outcome)
    except (RunError, OSError):
        return None
    return left.seconds.total if left else None


def _read_step_times(run: Run) -> dict[str, tuple[int | None, int | None]]:
    """Return {step: (start, end)} in microseconds, sorted by start. Both are None if the step's record is damaged."""
    times: dict[str, tuple[int | None, int | None]] = {}
    for step in record_keys(run, StepSeconds):
        try:
            seconds = read_record(run, StepSeconds, step)
        except (RunError, OSError):
            # Times are no evidence for the verdict, so a damaged record only leaves its step without times.
            seconds = None
        times[step] = (seconds.started_at, seconds.finished_at) if seconds else (None, None)
    return dict(sorted(times.items(), key=lambda item: item[1][0] or 0))
