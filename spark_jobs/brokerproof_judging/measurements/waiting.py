"""Estimates from the monitor's samples how long after a fault an event came, such as the end of a high backlog.

If no sample shows the event, the time until the last sample is an estimate that is marked "at least". If another fault
takes effect later, only samples before its effect count, because later samples show the effects of both faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto

from brokerproof_judging.measurements.measured_values import Estimate
from brokerproof_judging.measurements.run_times import EffectiveFault
from brokerproof_judging.measurements.samples import SILENCE_US, Samples, Series
from brokerproof_judging.measurements.standstills import OF_STANDSTILLS, find_proven_end, list_causes

_SECOND_US = 1_000_000


class Level(Enum):
    """How a sampled value compares with the values before a fault. A raised value lies between low and high."""

    LOW = auto()
    RAISED = auto()
    HIGH = auto()


# The time of each sample in microseconds, and the level of its value.
Levels = Sequence[tuple[int, Level]]


def list_samples(fault: EffectiveFault, series: Series, *, since_us: int | None = None) -> Series:
    """Return the samples since the fault's effect, or since `since_us`, that come before the next fault's effect."""
    start_us = fault.span.start_us if since_us is None else since_us
    return [
        (at, value) for at, value in series if at >= start_us and (fault.cut_off_by is None or at < fault.span.end_us)
    ]


def find_end(levels: Levels) -> int | None:
    """Return the time of the first low sample after the last high one; None if no later sample is low."""
    last_high = max((number for number, (_, level) in enumerate(levels) if level is Level.HIGH), default=-1)
    return next((at for at, level in levels[last_high + 1 :] if level is Level.LOW), None)


def describe_raised(fault: EffectiveFault, levels: Iterable[Levels], end_us: int) -> str:
    """Return a clause with the time of the last sample after `end_us` that has the level RAISED; empty if none has."""
    raised = [at for samples in levels for at, level in samples if level is Level.RAISED and at > end_us]
    return f"; slightly above again until {fault.seconds_until(max(raised)):.1f} s after the effect" if raised else ""


def read_time_until_low(
    samples: Samples,
    fault: EffectiveFault,
    levels: Mapping[str, Levels],
    *,
    still: str,
    ended: str,
    never: Estimate,
    standstills: Sequence[tuple[int, int]] = (),
) -> Estimate:
    """Return the time from the fault's effect until every high value was low again, and `never` if no value was high.

    `levels` has the levels of each source's samples after the effect. If a value was not low again by its last sample,
    the estimate is marked "at least", and `still` is its evidence. Otherwise, `ended` is the evidence. But if the
    samples of a source stop too early (`is_silent`), the estimate has no value, even if no value was high. A later time
    without samples makes the estimate longer (`widen_by_silence`).
    `standstills` are the times in which clients stood still and may have kept a value high.
    """
    rose = [name for name, values in levels.items() if any(level is Level.HIGH for _, level in values)]
    ends = {name: find_end(levels[name]) for name in rose}
    waiting = [levels[name] for name, end in ends.items() if end is None]
    if waiting:
        return read_absence(fault, waiting, still)
    silent = sorted(name for name, values in levels.items() if is_silent(samples, fault, values))
    if silent:
        return read_silence(fault, silent[0])
    if not ends:
        return widen_by_silence(samples, fault, never, fault.span.start_us)
    end = max(at for at in ends.values() if at is not None)
    why = ended + describe_raised(fault, levels.values(), end)
    return widen_by_silence(samples, fault, read_arrival(samples, fault, end, why, standstills=standstills), end)


def widen_by_silence(
    samples: Samples, fault: EffectiveFault, estimate: Estimate, end_us: int, *, since_us: int | None = None
) -> Estimate:
    """Return `estimate`, a time that ends at `end_us`, or a longer one if the monitor took no sample for a while later.

    A value may have been high again in that time. So the time is then "at most" the one until the end of the silence.
    """
    start_us = fault.span.start_us if since_us is None else since_us
    # What began after the load or the next fault's effect belongs to something else.
    untils = [until for begin, until in samples.silences if begin < fault.span.end_us]
    last_us = max(untils, default=end_us)
    if fault.cut_off_by is not None:
        last_us = min(last_us, fault.span.end_us)
    if last_us <= end_us:
        return estimate
    silence = (
        f"the monitor took no sample for more than 5 s until {fault.seconds_until(last_us):.1f} s after the effect"
    )
    return replace(
        estimate,
        value=(last_us - start_us) / 1e6,
        evidence=f"{estimate.evidence}; {silence}",
        at_most=True,
        proven=estimate.limits[0] or 0.0,
    )


def is_silent(samples: Samples, fault: EffectiveFault, values: Sequence[tuple[int, object]]) -> bool:
    """Return whether a source has no sample, in `values`, from the last `SILENCE_US` before sampling ended.

    For the fault, sampling ended with its `span`, or with the last sample of any source if that is earlier.
    """
    return not values or min(fault.span.end_us, samples.last_us) - values[-1][0] > SILENCE_US


def read_arrival(
    samples: Samples,
    fault: EffectiveFault,
    at_us: int,
    evidence: str,
    *,
    since_us: int | None = None,
    standstills: Sequence[tuple[int, int]] = (),
) -> Estimate:
    """Return the time from the fault's effect, or from `since_us`, to `at_us`, when a sample first showed an event.

    The estimate is marked "at most" if the monitor took no sample for some time before `at_us`, because the event may
    have come earlier. It also gets this mark if a client that stood still (`standstills`) may have delayed the event.
    """
    start_us = fault.span.start_us if since_us is None else since_us
    # A source may need a second for its answer after the silence.
    silences = [(begin, end + _SECOND_US) for begin, end in samples.silences]
    heard_us = find_proven_end(silences, at_us)
    proven_us = find_proven_end([*silences, *list_causes(standstills)], at_us)
    silence = "; the monitor took no sample before that for more than 5 s" if heard_us < at_us else ""
    own = proven_us < at_us
    return Estimate(
        value=(at_us - start_us) / 1e6,
        evidence=evidence + silence + (OF_STANDSTILLS if proven_us < heard_us else ""),
        at_most=own,
        proven=max(0.0, (proven_us - start_us) / 1e6) if own else 0.0,
    )


def read_absence(
    fault: EffectiveFault, series: Iterable[Sequence[tuple[int, object]]], still: str, *, since_us: int | None = None
) -> Estimate:
    """Return an estimate marked "at least" for an event that no sample of `series` shows.

    Its value is the time from the fault's effect, or from `since_us`, to the last sample. If no sample is in this time,
    the estimate has no value. `still` is a clause that says what the samples showed instead of the event.
    """
    start_us = fault.span.start_us if since_us is None else since_us
    last = max((values[-1][0] for values in series if values), default=start_us)
    if last <= start_us:
        return read_silence(fault, "what would show it")
    before = "" if fault.cut_off_by is None else f" before {fault.cut_off_by} took effect"
    return Estimate(
        value=(last - start_us) / 1e6,
        evidence=f"{still} by the last sample{before}",
        at_least=True,
        cut_off_by=fault.cut_off_by,
    )


def read_silence(fault: EffectiveFault, source: str, when: str = "the effect") -> Estimate:
    """Return an estimate without a value. Its evidence says that `source` was not sampled after the moment `when`."""
    before = "" if fault.cut_off_by is None else f" and before {fault.cut_off_by} took effect"
    why = f"{source} was not sampled after {when}{before}"
    return Estimate(value=None, evidence=why, cut_off_by=fault.cut_off_by)
