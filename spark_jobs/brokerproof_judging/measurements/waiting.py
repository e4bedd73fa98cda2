"""Readings of an event after a fault: when it came, or that it had not come by the last sample.

Of a fault that another one cuts off, only samples before that one's effect count: later ones measure both faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto

from brokerproof_judging.measurements.measured_values import Reading
from brokerproof_judging.measurements.run_times import EffectiveFault
from brokerproof_judging.measurements.samples import Series


class Level(Enum):
    """How a sampled value compares with those before a fault; what is raised is neither low nor high."""

    LOW = auto()
    RAISED = auto()
    HIGH = auto()


# The moment of each sample in microseconds, and the level of its value.
Levels = Sequence[tuple[int, Level]]


def list_samples(fault: EffectiveFault, series: Series, *, since_us: int | None = None) -> Series:
    """The samples from the effect on, or from `since_us` on, up to the effect of the fault that cuts this one off."""
    start_us = fault.span.start_us if since_us is None else since_us
    return [
        (at, value) for at, value in series if at >= start_us and (fault.cut_off_by is None or at < fault.span.end_us)
    ]


def find_end(levels: Levels) -> int | None:
    """The moment of the first low sample after the last high one, None if there is none."""
    last_high = max((number for number, (_, level) in enumerate(levels) if level is Level.HIGH), default=-1)
    return next((at for at, level in levels[last_high + 1 :] if level is Level.LOW), None)


def describe_raised(fault: EffectiveFault, levels: Iterable[Levels], end_us: int) -> str:
    """An addition to the evidence of an end: the last sample after it that was raised, but not high; empty if none."""
    raised = [at for samples in levels for at, level in samples if level is Level.RAISED and at > end_us]
    return f"; slightly above again until {fault.seconds_until(max(raised)):.1f} s after the effect" if raised else ""


def read_end(fault: EffectiveFault, levels: Mapping[str, Levels], *, still: str, ended: str) -> Reading | None:
    """The time from the effect to the end of all that was high after it, None if nothing was.

    `levels` has the samples after the effect by the name of their source. A source without any makes the end unknown.
    """
    rose = [name for name, samples in levels.items() if any(level is Level.HIGH for _, level in samples)]
    ends = {name: find_end(levels[name]) for name in rose}
    waiting = [levels[name] for name, end in ends.items() if end is None]
    if waiting:
        return read_absence(fault, waiting, still)
    silent = sorted(name for name, samples in levels.items() if not samples)
    if silent:
        return read_silence(fault, silent[0])
    if not ends:
        return None
    end = max(at for at in ends.values() if at is not None)
    return read_last_arrival(fault, [end], ended + describe_raised(fault, levels.values(), end))


def read_last_arrival(fault: EffectiveFault, times_us: Iterable[int], evidence: str) -> Reading:
    """The time from the effect to the last of the moments at which a part of the event came."""
    return Reading(value=fault.seconds_until(max(times_us)), evidence=evidence)


def read_absence(
    fault: EffectiveFault, series: Iterable[Sequence[tuple[int, object]]], still: str, *, since_us: int | None = None
) -> Reading:
    """An event that had not come by the last sample of `series`; `still` says what was sampled instead.

    The value counts from the effect, or from `since_us`.
    """
    start_us = fault.span.start_us if since_us is None else since_us
    last = max((values[-1][0] for values in series if values), default=start_us)
    if last <= start_us:
        return read_silence(fault, "what would show it")
    before = "" if fault.cut_off_by is None else f" before {fault.cut_off_by} took effect"
    return Reading(
        value=(last - start_us) / 1e6,
        evidence=f"{still} by the last sample{before}",
        at_least=True,
        cut_off_by=fault.cut_off_by,
    )


def read_silence(fault: EffectiveFault, source: str, when: str = "the effect") -> Reading:
    """No value, because a source was not sampled after `when`."""
    before = "" if fault.cut_off_by is None else f" and before {fault.cut_off_by} took effect"
    why = f"{source} was not sampled after {when}{before}"
    return Reading(value=None, evidence=why, cut_off_by=fault.cut_off_by)
