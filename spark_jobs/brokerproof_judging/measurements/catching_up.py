"""Measures the time after a fault until copies were replaced, backlogs were drained and clusters agreed again.

Each time ends with the first low sample after the last high one. A number of under-replicated segments is low if it is
0, and otherwise high.

A backlog is low up to its usual height, which is its highest value before the run's first fault. A backlog is high if
it is above twice the usual height and also exceeds the usual height by more than a tenth of the highest rise after the
fault. A value between low and high is neither: long after a drain, single samples were up to four times the usual
height.
"""

from __future__ import annotations

from collections.abc import Sequence

from brokerproof.experiment.scenario import Phase
from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, Source

from brokerproof_judging.measurements.measured_values import Estimate
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes
from brokerproof_judging.measurements.samples import Samples, Series
from brokerproof_judging.measurements.waiting import (
    Level,
    Levels,
    describe_raised,
    find_end,
    is_silent,
    list_samples,
    read_absence,
    read_arrival,
    read_silence,
    read_time_until_low,
    widen_by_silence,
)


def measure_rereplication(run: Run, samples: Samples, fault: EffectiveFault) -> Estimate:
    """Return the time from the fault's effect until no segment was under-replicated in the clusters of its targets.

    If the targets belong to no cluster, all clusters count. The value is None if no segment was under-replicated, or if
    a cluster was not sampled.
    """
    clusters = {name for name, each in run.topology.clusters.items() if each.nodes.keys() & set(fault.targets)}
    sampled = dict(samples.find_series(Source.CLUSTER, SampledMetric.UNDER_REPLICATED))
    levels = {
        Source.CLUSTER.join_name(cluster): [
            (at, Level.HIGH if int(value) else Level.LOW) for at, value in list_samples(fault, sampled.get(cluster, []))
        ]
        for cluster in sorted(clusters or run.topology.clusters)
    }
    return read_time_until_low(
        samples,
        fault,
        levels,
        still="segments were still under-replicated",
        ended="first sample of 0 after the last one above 0",
        never=Estimate(value=None, evidence="no segment was under-replicated after the effect"),
    )


def measure_backlog_drain(
    times: RunTimes, samples: Samples, fault: EffectiveFault, standstills: Sequence[tuple[int, int]] = ()
) -> Estimate:
    """Return the time from the fault's effect until every high backlog of a subscription was at its usual height again.

    The value is 0 if no backlog was high, and None if a backlog was not sampled. In the times `standstills` (from, to)
    in µs, consumers' own processes stood still, which may have kept a backlog high.
    """
    levels: dict[str, Levels] = {}
    for source, subscription, values in samples.find_by_subject(Source.TOPIC, SampledMetric.BACKLOG):
        after = list_samples(fault, values)
        is_expected = (source, SampledMetric.BACKLOG.join_subject(subscription)) in samples.expected
        # A subscription that moves to this cluster after the fault has no samples here yet.
        if after or is_expected or values[0][0] < fault.span.start_us:
            levels[f"the backlog of {subscription} on {source}"] = _find_levels(
                after, usual=_find_usual(times, fault, values)
            )
    if not any(levels.values()):
        return read_silence(fault, "the backlog of a subscription")
    never = "no backlog rose to more than twice what it was before the first fault"
    return read_time_until_low(
        samples,
        fault,
        levels,
        still="a backlog was still higher than before the first fault",
        ended="first sample back at what it was before the first fault",
        never=Estimate(value=0.0, evidence=never),
        standstills=standstills,
    )


def measure_agreement(times: RunTimes, samples: Samples, fault: EffectiveFault) -> Estimate:
    """Return the time from the return of a fault's nodes until each replication backlog was at its usual height.

    The value is None if a backlog was not sampled, or if the nodes did not return before the next fault took effect.
    """
    backlogs = {
        way: values for _, way, values in samples.find_by_subject(Source.TOPIC, SampledMetric.REPLICATION_BACKLOG)
    }
    if not any(backlogs.values()):
        return Estimate(value=None, evidence="no replication was sampled")
    recovered_us = fault.recovered_us
    if fault.cut_off_by is not None and (recovered_us is None or recovered_us >= fault.span.end_us):
        why = f"{fault.cut_off_by} took effect before the failed nodes returned"
        return Estimate(value=None, evidence=why, cut_off_by=fault.cut_off_by)
    if recovered_us is None:
        return Estimate(value=None, evidence="the failed nodes did not return")
    after = {way: list_samples(fault, values, since_us=recovered_us) for way, values in backlogs.items()}
    levels = {
        way: _find_levels(after[way], usual=_find_usual(times, fault, values)) for way, values in backlogs.items()
    }
    ends = {way: find_end(samples) for way, samples in levels.items()}
    behind = [way for way, end in ends.items() if end is None and after[way]]
    if behind:
        way = max(behind, key=lambda way: after[way][-1][0])
        still = f"{way} was still {after[way][-1][1]} entries behind"
        return read_absence(fault, [after[way]], still, since_us=recovered_us)
    silent = [way for way in ends if is_silent(samples, fault, after[way])]
    if silent:
        return read_silence(fault, f"replication {silent[0]}", "the failed nodes returned")
    end_us, last = max((end, way) for way, end in ends.items() if end is not None)
    raised = describe_raised(fault, levels.values(), end_us)
    why = f"{last} was last, {fault.seconds_until(end_us):.1f} s after the effect{raised}"
    arrival = read_arrival(samples, fault, end_us, why, since_us=recovered_us)
    return widen_by_silence(samples, fault, arrival, end_us, since_us=recovered_us)


def _find_levels(series: Series, *, usual: int) -> Levels:
    counts = [(at, int(value)) for at, value in series]
    rise = max((count for _, count in counts), default=0) - usual
    high = usual + max(usual, rise / 10)
    return [(at, Level.LOW if count <= usual else Level.HIGH if count > high else Level.RAISED) for at, count in counts]


def _find_usual(times: RunTimes, fault: EffectiveFault, values: Series) -> int:
    """Return a backlog's usual height: its highest value from the steady phase's start to the first fault's effect.

    If the backlog is first sampled after this effect, as in a cluster to which the subscription moves, its samples up
    to the next fault's effect count instead. The result is 0 if no sample counts.
    """
    steady_us = times.phases[Phase.STEADY].start_us
    begins_us = next((at for at, _ in values if at >= steady_us), steady_us)
    effects = [each.span.start_us for each in times.effective if each.span.start_us >= begins_us]
    until_us = min([*effects, fault.span.start_us])
    return max((int(value) for at, value in values if steady_us <= at <= until_us), default=0)
