"""Readings of an event after a fault: when it came, or that it had not come by the last sample."""

from __future__ import annotations

from collections.abc import Iterable

from brokerproof_judging.measurements.measured_values import Reading
from brokerproof_judging.measurements.run_times import EffectiveFault
from brokerproof_judging.measurements.samples import Series


def read_last_arrival(fault: EffectiveFault, times_us: Iterable[int], evidence: str) -> Reading:
    """The time from the effect to the last of the moments at which a part of the event came."""
    return Reading(value=fault.seconds_until(max(times_us)), evidence=evidence)


def read_absence(fault: EffectiveFault, series: Iterable[Series], still: str) -> Reading:
    """An event that had not come by the last sample of `series`; `still` says what was sampled instead."""
    last = max((values[-1][0] for values in series if values), default=fault.span.start_us)
    if last <= fault.span.start_us:
        return Reading(value=None, evidence="nothing was sampled after the effect")
    return Reading(value=fault.seconds_until(last), evidence=f"{still} by the last sample", at_least=True)
