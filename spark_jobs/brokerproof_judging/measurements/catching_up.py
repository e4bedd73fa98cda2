"""The time after a fault until missing copies were replaced, backlogs were drained and clusters agreed again.

Each of them ends with the first low sample after the last high one: what rises again has not ended.

Backlogs are never still while messages come and go. In runs on 2 cores, single samples long after the drain were up to
four times as high as all those before the fault. So a backlog is high only if it is more than twice what it was at most
before the effect, and above that by more than a tenth of its highest rise. It is low if it is no more than before.
"""

from __future__ import annotations

from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, Source

from brokerproof_judging.measurements.measured_values import Reading
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes
from brokerproof_judging.measurements.samples import Samples, Series
from brokerproof_judging.measurements.waiting import (
    Level,
    Levels,
    describe_raised,
    find_end,
    list_samples,
    read_absence,
    read_end,
    read_silence,
)


def measure_rereplication(run: Run, samples: Samples, fault: EffectiveFault) -> Reading:
    """Until no segment was under-replicated any more, in every cluster of a target."""
    clusters = {name for name, each in run.topology.clusters.items() if each.nodes.keys() & set(fault.targets)}
    sampled = dict(samples.find_series(Source.CLUSTER, SampledMetric.UNDER_REPLICATED))
    levels = {
        Source.CLUSTER.join_name(cluster): [
            (at, Level.HIGH if int(value) else Level.LOW) for at, value in list_samples(fault, sampled.get(cluster, []))
        ]
        for cluster in sorted(clusters or run.topology.clusters)
    }
    reading = read_end(
        fault,
        levels,
        still="segments were still under-replicated",
        ended="first sample of 0 after the last one above 0",
    )
    return reading or Reading(value=None, evidence="no segment was under-replicated after the effect")


def measure_backlog_drain(times: RunTimes, samples: Samples, fault: EffectiveFault) -> Reading:
    """Until the backlog of every subscription that rose was back at what it had been at most before the effect."""
    levels: dict[str, Levels] = {}
    for source, subscription, values in samples.find_by_subject(Source.TOPIC, SampledMetric.BACKLOG):
        after = list_samples(fault, values)
        # A subscription that is made later has no samples yet.
        if after or values[0][0] < fault.span.start_us:
            levels[f"the backlog of {subscription} on {source}"] = _find_levels(
                after, usual=_find_usual(times, fault, values)
            )
    if not any(levels.values()):
        return read_silence(fault, "the backlog of a subscription")
    reading = read_end(
        fault,
        levels,
        still="a backlog was still higher than before the effect",
        ended="first sample back at what it was before the effect",
    )
    return reading or Reading(value=0.0, evidence="no backlog rose to more than twice what it was before the effect")


def measure_agreement(times: RunTimes, samples: Samples, fault: EffectiveFault) -> Reading:
    """From the return of a fault's nodes until every replication backlog was at what it had been at most before."""
    backlogs = {
        way: values for _, way, values in samples.find_by_subject(Source.TOPIC, SampledMetric.REPLICATION_BACKLOG)
    }
    if not backlogs:
        return Reading(value=None, evidence="no replication was sampled")
    healed_us = fault.healed_us
    if fault.cut_off_by is not None and (healed_us is None or healed_us >= fault.span.end_us):
        why = f"{fault.cut_off_by} took effect before the failed nodes returned"
        return Reading(value=None, evidence=why, cut_off_by=fault.cut_off_by)
    if healed_us is None:
        return Reading(value=None, evidence="the failed nodes did not return")
    after = {way: list_samples(fault, values, since_us=healed_us) for way, values in backlogs.items()}
    levels = {
        way: _find_levels(after[way], usual=_find_usual(times, fault, values)) for way, values in backlogs.items()
    }
    ends = {way: find_end(samples) for way, samples in levels.items()}
    behind = [way for way, end in ends.items() if end is None and after[way]]
    if behind:
        way = max(behind, key=lambda way: after[way][-1][0])
        still = f"{way} was still {after[way][-1][1]} entries behind"
        return read_absence(fault, [after[way]], still, since_us=healed_us)
    silent = [way for way, end in ends.items() if end is None]
    if silent:
        return read_silence(fault, f"replication {silent[0]}", "the failed nodes returned")
    end_us, last = max((end, way) for way, end in ends.items() if end is not None)
    raised = describe_raised(fault, levels.values(), end_us)
    why = f"{last} was last, {fault.seconds_until(end_us):.1f} s after the effect{raised}"
    return Reading(value=(end_us - healed_us) / 1e6, evidence=why)


def _find_levels(series: Series, *, usual: int) -> Levels:
    """The levels of a backlog that was at most `usual` before the fault."""
    counts = [(at, int(value)) for at, value in series]
    rise = max((count for _, count in counts), default=0) - usual
    high = usual + max(usual, rise / 10)
    return [(at, Level.LOW if count <= usual else Level.HIGH if count > high else Level.RAISED) for at, count in counts]


def _find_usual(times: RunTimes, fault: EffectiveFault, values: Series) -> int:
    """The highest value from the beginning of the steady phase to the effect."""
    steady = times.phases["steady"].start_us
    return max((int(value) for at, value in values if steady <= at <= fault.span.start_us), default=0)
