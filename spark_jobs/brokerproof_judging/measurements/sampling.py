"""Measures the longest time between two samples: the largest error of a time that is measured from samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from brokerproof.experiment.scenario import Phase
from brokerproof.run.directory import Run
from brokerproof.run.observations import Source, split_name
from brokerproof.run.records import SubscriptionDrains, read_record
from brokerproof.systems.roles import list_nodes_that, serves, stores

from brokerproof_judging.measurements.measured_values import RUN, MeasuredValue, make_measured_value
from brokerproof_judging.measurements.run_times import NEVER_STEADY, RunTimes, Span
from brokerproof_judging.measurements.samples import Samples, list_expected_series

# Kinds of source that are sampled all the time. The others have samples only when something happens.
_SAMPLED = (Source.CLUSTER, Source.TOPIC, Source.NODE)


def measure_sampling_gap(run: Run, times: RunTimes, samples: Samples) -> MeasuredValue:
    """Return the longest time between two successive samples of one metric of one source, such as a node.

    Only the time from the steady phase's start to the end of consuming counts, and only while the source can answer. A
    node cannot answer while faults keep it down. A cluster cannot answer while all its serving nodes are down, or all
    its storing nodes are. The value is null if an expected series has no sample although its source could answer. It is
    null too if the gap exceeds its bound, because such a gap is Brokerproof's fault and not the messaging system's.
    """
    if not times.phases:
        return make_measured_value("sampling_gap_s", RUN, None, NEVER_STEADY)
    # Without consumers, the step `consume` ends before the load begins.
    consumed = read_record(run, SubscriptionDrains)
    start, end = times.phases[Phase.STEADY].start_us, times.phases[Phase.RECOVERY].end_us
    if consumed is not None:
        end = max(end, consumed.at)
    expected = list_expected_series(run)
    # Other series come and go, such as the backlog of a subscription that moves. They count from first to last sample.
    others = [key for key in samples.series if key not in expected and split_name(key[0])[0] in _SAMPLED]
    gaps: dict[str, list[tuple[float, str]]] = {}
    for source, metric in [*expected, *others]:
        within = sorted({at for at, _ in samples.series.get((source, metric), ()) if start <= at < end})
        silent = _list_silent(run, times, source)
        name = f"{source} {metric}"
        if (source, metric) in expected:
            whole = Span(start_us=start, end_us=end)
            if not within and measure_rest(whole, silent):
                return make_measured_value("sampling_gap_s", RUN, None, f"{name} was never sampled in that time")
            within = [start, *within, end]
        longest = max((measure_rest(Span(start_us=a, end_us=b), silent) for a, b in pairwise(within)), default=0)
        gaps.setdefault(split_name(source)[0], []).append((longest / 1e6, name))
    worst = sorted((max(found) for found in gaps.values()), reverse=True)
    evidence = ", ".join(f"{name} {gap:g} s" for gap, name in worst)
    why, bound = f"the worst of each kind of source: {evidence}", run.scenario.bound("sampling_gap_s", RUN)
    if bound is not None and bound.max is not None and worst[0][0] > bound.max:
        return make_measured_value(
            "sampling_gap_s", RUN, None, f"the system is not to blame for a gap in samples; {why}"
        )
    return make_measured_value("sampling_gap_s", RUN, worst[0][0], why)


def _list_silent(run: Run, times: RunTimes, source: str) -> Sequence[Span]:
    """Return the times in which a source of samples (a node, cluster or topic) cannot answer, as its nodes are down."""
    kind, name = split_name(source)
    if kind == Source.NODE:
        return times.down.get(name, ())
    clusters = run.topology.clusters
    if kind == Source.TOPIC:
        # The source's name contains the topic's cluster only if there are several clusters.
        name = name.rpartition("@")[2] if len(clusters) > 1 else next(iter(clusters))
    if name not in clusters:
        return ()
    silent: list[Span] = []
    for trait in (serves, stores):
        nodes = list_nodes_that(trait, run.topology, name)
        common = list(times.down.get(nodes[0], ())) if nodes else []
        for node in nodes[1:]:
            common = _intersect(common, times.down.get(node, ()))
        silent += common
    return silent


def _intersect(some: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    pairs = ((max(a.start_us, b.start_us), min(a.end_us, b.end_us)) for a in some for b in others)
    return [Span(start_us=start, end_us=end) for start, end in pairs if start < end]


def measure_rest(span: Span, silent: Iterable[Span]) -> int:
    """Return the microseconds of a span that no span of `silent` covers."""
    rest, reached = 0, span.start_us
    for other in sorted(silent, key=lambda other: other.start_us):
        rest += max(0, min(other.start_us, span.end_us) - reached)
        reached = max(reached, min(other.end_us, span.end_us))
    return rest + span.end_us - reached
