"""The time after a fault until missing copies were replaced, backlogs were drained and clusters agreed again."""

from __future__ import annotations

from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, Source

from brokerproof_judging.measurements.measured_values import Reading
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes
from brokerproof_judging.measurements.samples import Samples, Series
from brokerproof_judging.measurements.waiting import read_absence, read_last_arrival


def measure_rereplication(run: Run, samples: Samples, fault: EffectiveFault) -> Reading:
    """Until the first sample of 0 after one above 0, in every cluster of a target where it rose."""
    clusters = {name for name, each in run.topology.clusters.items() if each.nodes.keys() & set(fault.targets)}
    times: list[int] = []
    waiting: list[Series] = []
    for cluster, values in samples.find_series(Source.CLUSTER, SampledMetric.UNDER_REPLICATED):
        after = [(at, int(value)) for at, value in values if at >= fault.span.start_us]
        rose = next((at for at, count in after if count > 0), None)
        if (clusters and cluster not in clusters) or rose is None:
            continue
        fell = next((at for at, count in after if at > rose and count == 0), None)
        if fell is None:
            waiting.append(values)
        else:
            times.append(fell)
    if waiting:
        return read_absence(fault, waiting, "segments were still under-replicated")
    if times:
        return read_last_arrival(fault, times, "first sample of 0 after one above 0")
    return Reading(value=None, evidence="no segment was under-replicated after the effect")


def measure_backlog_drain(times: RunTimes, samples: Samples, fault: EffectiveFault) -> Reading:
    """Until the backlog of every subscription that rose was back at what it had been at most before the effect."""
    arrivals: list[int] = []
    waiting: list[Series] = []
    sampled = False
    for _, values in samples.find_by_subject(Source.TOPIC, SampledMetric.BACKLOG):
        usual = _find_usual(times, fault, values)
        after = [(at, int(value)) for at, value in values if at > fault.span.start_us]
        sampled = sampled or bool(after)
        rose = next((at for at, count in after if count > usual), None)
        if rose is None:
            continue
        fell = next((at for at, count in after if at > rose and count <= usual), None)
        if fell is None:
            waiting.append(values)
        else:
            arrivals.append(fell)
    if waiting:
        return read_absence(fault, waiting, "a backlog was still higher than before the effect")
    if arrivals:
        return read_last_arrival(fault, arrivals, "first sample back at what it was before the effect")
    if sampled:
        return Reading(value=0.0, evidence="no backlog rose")
    return Reading(value=None, evidence="no backlog was sampled after the effect")


def measure_agreement(times: RunTimes, samples: Samples, fault: EffectiveFault) -> Reading:
    """From the return of a fault's nodes until every replication backlog was at what it had been at most before."""
    backlogs = dict(samples.find_by_subject(Source.TOPIC, SampledMetric.REPLICATION_BACKLOG))
    if not backlogs:
        return Reading(value=None, evidence="no replication was sampled")
    if fault.healed_us is None:
        return Reading(value=None, evidence="the failed nodes did not return")
    arrivals: dict[str, int] = {}
    for way, values in backlogs.items():
        usual = _find_usual(times, fault, values)
        after = [(at, int(value)) for at, value in values if at >= fault.healed_us]
        if not after:
            why = f"replication {way} was not sampled after the failed nodes returned"
            return Reading(value=None, evidence=why)
        at = next((at for at, backlog in after if backlog <= usual), None)
        if at is None:
            last_at, backlog = after[-1]
            why = f"{way} was still {backlog} entries behind"
            return Reading(value=(last_at - fault.healed_us) / 1e6, evidence=why, at_least=True)
        arrivals[way] = at
    last = max(arrivals, key=lambda way: arrivals[way])
    why = f"{last} was last, {fault.seconds_until(arrivals[last]):.1f} s after the effect"
    return Reading(value=(arrivals[last] - fault.healed_us) / 1e6, evidence=why)


def _find_usual(times: RunTimes, fault: EffectiveFault, values: Series) -> int:
    """The highest value from the beginning of the steady phase to the effect."""
    steady = times.phases["steady"].start_us
    return max((int(value) for at, value in values if steady <= at <= fault.span.start_us), default=0)
