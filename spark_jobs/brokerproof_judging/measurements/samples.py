"""The samples of the table `observations` that are measured from: few, at the rate of the clock, not of messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, Source, list_stored_names, split_name, translate_names
from brokerproof.run.table_rows import iterate_rows

# Of the others, only the times of the samples are used.
_READ = {
    SampledMetric.OWNER,
    SampledMetric.ALIVE,
    SampledMetric.UNDER_REPLICATED,
    SampledMetric.BACKLOG,
    SampledMetric.REPLICATION_BACKLOG,
    SampledMetric.BYTES_READ,
    SampledMetric.TIMED,
    SampledMetric.ADDED_P50_MS,
    SampledMetric.ADDED_P99_MS,
}

Series = list[tuple[int, str]]


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Values in order of time, by source and metric, and the times of all samples by kind of source."""

    series: dict[tuple[str, str], Series] = field(default_factory=dict)
    times: dict[str, list[int]] = field(default_factory=dict)

    def find_series(self, kind: Source, metric: str) -> Iterator[tuple[str, Series]]:
        """(name, values) of every source of a kind that has the metric."""
        for (source, known), values in self.series.items():
            if known == metric and source.startswith(kind.join_name("")):
                yield source.removeprefix(kind.join_name("")), values

    def find_by_subject(self, kind: Source, metric: SampledMetric) -> Iterator[tuple[str, Series]]:
        """(subject, values) of a metric that sources of a kind have several of, such as one per subscription."""
        for (source, known), values in self.series.items():
            name, subject = split_name(known)
            if name == metric and split_name(source)[0] == kind:
                yield subject, values


def read_samples(run: Run) -> Samples:
    """From the table `observations`."""
    read = set(list_stored_names(_READ))
    series: dict[tuple[str, str], Series] = defaultdict(list)
    times: dict[str, set[int]] = defaultdict(set)
    for row in iterate_rows(run, "observations", ("at", "source", "metric", "value")):
        source, metric = translate_names(row["source"], row["metric"])
        times[split_name(source)[0]].add(row["at"])
        if row["value"] is not None and split_name(row["metric"])[0] in read:
            series[source, metric].append((row["at"], row["value"]))
    return Samples(
        series={name: sorted(values) for name, values in series.items()},
        times={name: sorted(values) for name, values in times.items()},
    )
