"""Measures the share of the load that each node carries, and how often the topic's owner changes.

Each is measured in every phase, and from each fault's effect to the next fault's injection or the load's end, if the
scenario bounds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, Source
from brokerproof.systems.roles import list_nodes_that, serves, stores

from brokerproof_judging.measurements.measured_values import MeasuredValue, make_measured_value
from brokerproof_judging.measurements.placement import find_owners
from brokerproof_judging.measurements.run_times import RunTimes, Span
from brokerproof_judging.measurements.samples import SILENCE_US, Samples, Series
from brokerproof_judging.measurements.sampling import measure_rest


def measure_written_shares(run: Run, times: RunTimes, samples: Samples) -> Iterator[MeasuredValue]:
    """Yield `written_share` of each storing node and span: its part of the bytes that its cluster's nodes wrote.

    The bytes of a node are those between its first and its last sample in the span. A node that was down or on standby
    throughout wrote none. The shares of a cluster are null if no node wrote, or if a node that should run gave no
    sample for more than `SILENCE_US` at the beginning or the end of the span, or before its counter began anew.
    """
    if not _is_bounded(run, "written_share"):
        return
    sampled = dict(samples.find_series(Source.NODE, SampledMetric.BYTES_WRITTEN))
    for cluster in run.topology.clusters:
        nodes = list_nodes_that(stores, run.topology, cluster)
        for name, span in times.spans.items():
            found = {node: _count_written(times, node, sampled.get(node, []), span) for node in nodes}
            written = {node: count for node, count in found.items() if count is not None}
            total = sum(written.values())
            silent = sorted(found.keys() - written.keys())
            for node, count in found.items():
                if silent:
                    share, evidence = None, f"{silent[0]} was not sampled for more than {SILENCE_US / 1e6:g} s"
                elif not total:
                    share, evidence = None, "no node wrote"
                else:
                    share, evidence = (count or 0) / total, f"{count} of {total} bytes"
                yield make_measured_value("written_share", f"{node}/{name}", share, evidence)


def _count_written(times: RunTimes, node: str, series: Series, span: Span) -> int | None:
    """Return the bytes that a node wrote in a span, from the samples of its counter; None if they are not known."""
    down = times.down.get(node, ())
    within = [(at, int(float(value))) for at, value in series if span.holds(at)]
    # A counter that rose misses nothing between two samples. One that began anew may have risen before.
    silences = [(low[0], high[0]) for low, high in pairwise(within) if high[1] < low[1]]
    silences += (
        [(span.start_us, within[0][0]), (within[-1][0], span.end_us)] if within else [(span.start_us, span.end_us)]
    )
    if any(measure_rest(Span(start_us=a, end_us=b), down) > SILENCE_US for a, b in silences):
        return None
    counts = [count for _, count in within]
    if any(each.holds(span.start_us) for each in down):
        # It started in the span, or a fault froze it before. Its counter begins at 0, or where it was.
        before = [int(float(value)) for at, value in series if at < span.start_us]
        counts.insert(0, before[-1] if before else 0)
    # If the counter went down, the node was started again and counted from 0.
    return sum(high - low if high >= low else high for low, high in pairwise(counts))


def measure_owned_shares(run: Run, times: RunTimes, samples: Samples) -> Iterator[MeasuredValue]:
    """Yield `owned_share` of each serving node and span: its part of the samples that name a partition's owner.

    The shares of a cluster are null if a partition has no such sample in the span.
    """
    if not _is_bounded(run, "owned_share"):
        return
    for name, span in times.spans.items():
        owners, silent = _find_owners_within(run, times, samples, span)
        named = Counter(owner for found in owners.values() for owner in found)
        for cluster in run.topology.clusters:
            nodes = list_nodes_that(serves, run.topology, cluster)
            total = sum(named[node] for node in nodes)
            for node in nodes:
                if silent is not None or not total:
                    share, evidence = None, f"no sample named the owner of {silent or cluster}"
                else:
                    share, evidence = named[node] / total, f"{named[node]} of {total} samples"
                yield make_measured_value("owned_share", f"{node}/{name}", share, evidence)


def measure_owner_changes(run: Run, times: RunTimes, samples: Samples) -> Iterator[MeasuredValue]:
    """Yield `owner_changes` of each span: how often two successive samples of a partition name different owners.

    The last sample before the span counts as its first one. The value is null if a partition has no sample in the span.
    """
    if not _is_bounded(run, "owner_changes"):
        return
    for name, span in times.spans.items():
        owners, silent = _find_owners_within(run, times, samples, span, with_last_before=True)
        if silent is not None:
            yield make_measured_value("owner_changes", name, None, f"no sample named the owner of {silent}")
            continue
        changes = [f"{a} to {b}" for found in owners.values() for a, b in pairwise(found) if a != b]
        some = ", ".join(f"{count} from {change}" for change, count in sorted(Counter(changes).items()))
        evidence = f"of {len(owners)} partitions" + (f": {some}" if some else "")
        yield make_measured_value("owner_changes", name, len(changes), evidence)


def _find_owners_within(
    run: Run, times: RunTimes, samples: Samples, span: Span, *, with_last_before: bool = False
) -> tuple[dict[str, list[str]], str | None]:
    """Return {partition: owners in its samples within a span}, and a partition without such a sample, if any.

    With `with_last_before`, the owner in the last sample before the span comes first.
    """
    found: dict[str, list[str]] = {}
    silent: str | None = None
    for name, values in find_owners(run, times, samples, span).items():
        named = [(at, owner) for at, owner in values if owner in run.topology.nodes]
        within = [owner for at, owner in named if span.holds(at)]
        if not within:
            silent = silent or name
        before = [owner for at, owner in named if at < span.start_us]
        found[name] = [*(before[-1:] if with_last_before else []), *within]
    return found, silent


def _is_bounded(run: Run, metric: str) -> bool:
    return any(key.partition("/")[0] == metric for key in run.scenario.bounds)
