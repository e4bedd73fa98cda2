"""Measures whether copies, reads and owners were in the regions that the topology and the scenario demand."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, Source
from brokerproof.run.records import LogsRead, read_record
from brokerproof.run.table_rows import iterate_rows
from brokerproof.systems.destinations import list_clusters_reached

from brokerproof_judging.measurements.measured_values import END, MeasuredValue, make_measured_value
from brokerproof_judging.measurements.run_times import NEVER_STEADY, RunTimes, Span
from brokerproof_judging.measurements.samples import SILENCE_US, Samples, Series, list_owner_series

_SHOWN = 5
# The `moment`, in the table `copies`, of the copies at the end of the run.
AT_END = "end"


def measure_spread(run: Run, times: RunTimes) -> Iterator[MeasuredValue]:
    """Yield `segments_not_spanning`: the number of log segments that lack a copy in a region that needs one.

    There is a value for each `moment` in the table `copies`, such as `end`. A segment also counts if its required
    regions are not known. The value at `end` is null unless each log's copies were looked up after the last fault was
    undone.
    """
    # By moment and segment, whether one of its rows lacks a region, or names no required regions.
    moments: dict[str, dict[tuple[Any, ...], bool]] = defaultdict(lambda: defaultdict(bool))
    # By log, when its copies at the end were first asked for.
    asked: dict[tuple[str, int], int] = {}
    for row in iterate_rows(run, "copies", filled=("at", "moment")):
        if row["moment"] == AT_END:
            log = (row["cluster"], row["partition"])
            asked[log] = min(row["at"], asked.get(log, row["at"]))
        segments = moments[row["moment"]]
        segment = tuple(row[name] for name in ("cluster", "topic", "partition", "segment"))
        required = row["regions_required"]
        lacks = required is None or not set(required) <= set(row["regions"] or ())
        segments[segment] |= lacks
    doubt = _find_doubt_about_copies(run, times, asked)
    if doubt is not None:
        moments.pop(AT_END, None)
        yield make_measured_value("segments_not_spanning", AT_END, None, doubt)
    for moment, segments in sorted(moments.items()):
        lacking = sorted(segment[-1] for segment, lacks in segments.items() if lacks and segment[-1] is not None)
        some = f", such as {', '.join(map(str, lacking[:_SHOWN]))}" if lacking else ""
        count = sum(segments.values())
        evidence = f"{count} of {len(segments)} segments{some}"
        yield make_measured_value("segments_not_spanning", moment, count, evidence)


def _find_doubt_about_copies(run: Run, times: RunTimes, asked: Mapping[tuple[str, int], int]) -> str | None:
    """Return the reason why the copies at the end are not known; None if they are known."""
    settled_us = times.settled_us
    if settled_us is None:
        return f"nothing proves that every fault was undone: {times.undone.why}"
    for cluster in list_clusters_reached(run.topology, run.scenario.workload):
        for partition in run.scenario.workload.list_partitions():
            name = f"{cluster}, partition {partition}" if partition >= 0 else cluster
            at = asked.get((cluster, partition))
            if at is None:
                return f"where the copies are at the end was not recorded for {name}"
            if at < settled_us:
                return f"the copies of {name} were asked for before the last fault was undone"
    return None


def measure_under_replication(run: Run, times: RunTimes, samples: Samples) -> MeasuredValue:
    """Return the number of under-replicated segments at the end: the sum of each cluster's last sample.

    The value is null if no record proves that all faults were undone, or if a cluster was not sampled afterwards. It is
    also null if a cluster's last sample is more than `SILENCE_US` older than the run's last sample.
    """

    def make(value: float | None, evidence: str) -> MeasuredValue:
        return make_measured_value("under_replicated_segments", END, value, evidence)

    settled_us = times.settled_us
    if settled_us is None:
        return make(None, f"nothing proves that every fault was undone: {times.undone.why}")
    sampled = dict(samples.find_series(Source.CLUSTER, SampledMetric.UNDER_REPLICATED))
    last = {cluster: values[-1] for cluster, values in sampled.items()}
    for cluster in sorted(run.topology.clusters):
        at = last[cluster][0] if cluster in last else 0
        if at <= settled_us:
            return make(None, f"{cluster} was not sampled after the last fault was undone")
        if at < samples.last_us - SILENCE_US:
            silent = Span(start_us=at, end_us=samples.last_us)
            return make(None, f"{cluster} was not sampled in the last {silent.seconds:.0f} s")
    evidence = ", ".join(f"{cluster} {value}" for cluster, (_, value) in sorted(last.items()))
    return make(sum(int(value) for _, value in last.values()), f"last sample: {evidence}")


def measure_local_reads(run: Run, times: RunTimes, samples: Samples) -> Iterator[MeasuredValue]:
    """Yield, for each phase and the read-back, the share of disk reads that were made in the topic owner's region.

    The share counts bytes. The bytes that a node read between two samples count for the phase of the later sample. They
    also count for the read-back (of the logs) if the time between the samples touches it. The owner is the one known at
    the later sample. The bytes are left out if owners are in several regions or not known. If no bytes count, the share
    is null.
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
            # If the counter went down, the node was restarted and counted from 0.
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
    """Yield, for each phase, the share of samples with the topic's owner in the region that the scenario expects.

    Phases without an expected region are left out. A sample counts only if it names a node, was taken in the phase's
    last third, and was taken after every fault that took effect or recovered in the phase. The value is null if a
    partition has no sample that counts, or if the load never became steady.
    """
    for phase, region in run.scenario.owner.by_phase.items():
        span = times.phases.get(phase)
        if span is None:
            yield make_measured_value("owner_in_region", phase, None, NEVER_STEADY)
            continue
        third = span.end_us - (span.end_us - span.start_us) // 3
        start = max([third, *(at + 1 for at in times.changes_us if span.holds(at))])
        owners = {
            name: [owner for at, owner in values if start <= at < span.end_us and owner in run.topology.nodes]
            for name, values in find_owners(run, times, samples, Span(start_us=start, end_us=span.end_us)).items()
        }
        silent = next((name for name, found in owners.items() if not found), None)
        if silent is not None:
            why = f"no sample named the owner of {silent} in the last {(span.end_us - start) / 1e6:g} s of the phase"
            yield make_measured_value("owner_in_region", phase, None, why)
            continue
        named = [run.topology.nodes[owner].region for found in owners.values() for owner in found]
        evidence = f"{named.count(region)} of {len(named)} samples in {region}"
        yield make_measured_value("owner_in_region", phase, named.count(region) / len(named), evidence)


def find_owners(run: Run, times: RunTimes, samples: Samples, span: Span) -> dict[str, Series]:
    """Return {series: samples of the owner} for each partition in each cluster. A series is called `SOURCE METRIC`.

    A partition that a fault adds is included if it is there at the span's start, or if it is sampled in the span.
    """
    workload = run.scenario.workload
    first = set(list_owner_series(run, workload.list_first_partitions()))
    has_grown = times.grown_us is not None and times.grown_us <= span.start_us
    found: dict[str, Series] = {}
    for source, metric in list_owner_series(run, workload.list_partitions()):
        values = samples.series.get((source, metric), [])
        if has_grown or (source, metric) in first or any(span.holds(at) for at, _ in values):
            found[f"{source} {metric}"] = values
    return found


class _OwnerRegions:
    """Finds the region in which the owners of a cluster's topics were at a given time."""

    def __init__(self, run: Run, samples: Samples) -> None:
        self._series: dict[str, list[list[tuple[int, str]]]] = defaultdict(list)
        for _, _, values in samples.find_by_subject(Source.TOPIC, SampledMetric.OWNER):
            for cluster, content in run.topology.clusters.items():
                here = [(at, content.nodes[owner].region) for at, owner in values if owner in content.nodes]
                if here:
                    self._series[cluster].append(here)

    def find_region(self, cluster: str, at_us: int) -> str | None:
        """Return the owners' region at `at_us`; None if it is not known, or if the owners were in several regions."""
        regions = set()
        for series in self._series[cluster]:
            index = bisect_right(series, at_us, key=lambda each: each[0])
            if index:
                regions.add(series[index - 1][1])
        return regions.pop() if len(regions) == 1 else None
