"""Whether copies, reads and ownership were where the topology wants them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, Source
from brokerproof.run.records import LogsRead, read_record
from brokerproof.run.table_rows import iterate_rows

from brokerproof_judging.measurements.measured_values import END, NO_SUBJECT, MeasuredValue, make_measured_value
from brokerproof_judging.measurements.run_times import NEVER_STEADY, RunTimes, Span
from brokerproof_judging.measurements.samples import Samples

_SHOWN = 5


def measure_spread(run: Run) -> Iterator[MeasuredValue]:
    """By moment, the segments of logs without a copy in a region that they had to span; from the table `ledgers`."""
    # By moment and segment, whether any of its rows lacks a region; a row that does not tell counts as lacking one.
    moments: dict[str, dict[tuple[Any, ...], bool]] = defaultdict(dict)
    for row in iterate_rows(run, "ledgers"):
        segments = moments[row["moment"]]
        segment = tuple(row[name] for name in ("cluster", "topic", "partition", "ledger_id"))
        required = row["regions_required"]
        lacks = required is None or not set(required) <= set(row["regions"] or ())
        segments[segment] = segments.get(segment, False) or lacks
    for moment, segments in sorted(moments.items(), key=lambda each: str(each[0])):
        lacking = sorted(segment[-1] for segment, lacks in segments.items() if lacks and segment[-1] is not None)
        some = f", such as {', '.join(map(str, lacking[:_SHOWN]))}" if lacking else ""
        count = sum(segments.values())
        evidence = f"{count} of {len(segments)} segments{some}"
        yield make_measured_value("ledgers_not_spanning", moment, count, evidence)
    if not moments:
        yield make_measured_value("ledgers_not_spanning", NO_SUBJECT, None, "no step recorded where the copies are")


def measure_under_replication(samples: Samples) -> MeasuredValue:
    """Under-replicated segments of all clusters at the last sample of each."""
    last = {
        cluster: values[-1] for cluster, values in samples.find_series(Source.CLUSTER, SampledMetric.UNDER_REPLICATED)
    }
    if not last:
        return make_measured_value("under_replicated_ledgers", END, None, "it was not sampled")
    evidence = ", ".join(f"{cluster} {value}" for cluster, (_, value) in sorted(last.items()))
    total = sum(int(value) for _, value in last.values())
    return make_measured_value("under_replicated_ledgers", END, total, f"last sample: {evidence}")


def measure_local_reads(run: Run, times: RunTimes, samples: Samples) -> Iterator[MeasuredValue]:
    """By phase and for the read-back, the part of the bytes read from disks that nodes in the owner's region served.

    What a node read between two samples counts for the span that the later one is in, and for the read-back where
    the two touch it. The owner is the last one sampled by then; where brokers of two regions own topics of a cluster,
    the reader is unknown, and nothing is counted.
    """
    spans = dict(times.phases)
    if (read := read_record(run, LogsRead)) is not None:
        spans["read_back"] = Span(start_us=read.started_at, end_us=read.finished_at)
    owners = _OwnerRegions(run, samples)
    local: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for node, values in samples.find_series(Source.NODE, SampledMetric.BYTES_READ):
        if node not in run.topology.nodes:
            continue
        cluster, region = run.topology.cluster_of(node), run.topology.nodes[node].region
        for (before, low), (at, high) in pairwise(values):
            # A counter that went down began again at 0 when the node was started again.
            count = int(float(high)) - int(float(low))
            count = int(float(high)) if count < 0 else count
            reader = owners.find_region(cluster, at)
            if not count or reader is None:
                continue
            for name, span in spans.items():
                touched = before < span.end_us and at > span.start_us
                if touched if name == "read_back" else span.start_us < at <= span.end_us:
                    total[name] += count
                    local[name] += count if region == reader else 0
    for name in spans:
        share = local[name] / total[name] if total[name] else None
        evidence = f"{local[name]} of {total[name]} bytes" if total[name] else "nothing was read from disks"
        yield make_measured_value("local_read_share", name, share, evidence)


def measure_owner_regions(run: Run, times: RunTimes, samples: Samples) -> Iterator[MeasuredValue]:
    """For each phase that the scenario expects an owner in, the share of samples in its last third with one there."""
    for phase in ("steady", "recovery"):
        region = getattr(run.scenario.owner, phase)
        if region is None:
            continue
        span = times.phases.get(phase)
        if span is None:
            yield make_measured_value("owner_in_region", phase, None, NEVER_STEADY)
            continue
        start = span.end_us - (span.end_us - span.start_us) // 3
        owners = [
            owner
            for _, values in samples.find_series(Source.TOPIC, SampledMetric.OWNER)
            for at, owner in values
            if start <= at < span.end_us
        ]
        if not owners:
            yield make_measured_value("owner_in_region", phase, None, "the owner was not sampled then")
            continue
        there = sum(owner in run.topology.nodes and run.topology.nodes[owner].region == region for owner in owners)
        evidence = f"{there} of {len(owners)} samples in {region}"
        yield make_measured_value("owner_in_region", phase, there / len(owners), evidence)


class _OwnerRegions:
    """In which region the topics of a cluster were owned, at any moment."""

    def __init__(self, run: Run, samples: Samples) -> None:
        self._series: dict[str, list[list[tuple[int, str]]]] = defaultdict(list)
        for _, values in samples.find_series(Source.TOPIC, SampledMetric.OWNER):
            for cluster, content in run.topology.clusters.items():
                here = [(at, content.nodes[owner].region) for at, owner in values if owner in content.nodes]
                if here:
                    self._series[cluster].append(here)

    def find_region(self, cluster: str, at_us: int) -> str | None:
        """The region, None where it is unknown or where there are several."""
        regions = set()
        for series in self._series[cluster]:
            index = bisect_right(series, at_us, key=lambda each: each[0])
            if index:
                regions.add(series[index - 1][1])
        return regions.pop() if len(regions) == 1 else None
