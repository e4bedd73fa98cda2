"""The samples of the table `observations` that are measured from: few, at the rate of the clock, not of messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from brokerproof.experiment.abilities import Ability
from brokerproof.run.directory import Run
from brokerproof.run.observations import (
    SampledMetric,
    Source,
    list_stored_names,
    make_topic_source,
    split_name,
    translate_names,
)
from brokerproof.run.table_rows import iterate_rows
from brokerproof.systems.destinations import list_clusters_reached
from brokerproof.systems.registry import find_system, list_abilities, name_topic
from brokerproof.systems.roles import is_listed, list_nodes_that, list_roles_that, stores

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
    """Values in order of time, by source and metric, and the times of all samples with a value in the same way.

    A sample without a value is no sample: the source gave no answer.
    """

    series: dict[tuple[str, str], Series] = field(default_factory=dict)
    times: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def find_series(self, kind: Source, metric: str) -> Iterator[tuple[str, Series]]:
        """(name, values) of every source of a kind that has the metric."""
        for (source, known), values in self.series.items():
            if known == metric and source.startswith(kind.join_name("")):
                yield source.removeprefix(kind.join_name("")), values

    def find_by_subject(self, kind: Source, metric: SampledMetric) -> Iterator[tuple[str, str, Series]]:
        """(source, subject, values) of a metric that sources of a kind have several of, such as one per subscription.

        The subject is empty if the source has one value of it, such as the owner of a topic without partitions.
        """
        for (source, known), values in self.series.items():
            name, subject = split_name(known)
            if name == metric and split_name(source)[0] == kind:
                yield source, subject, values


def list_expected_series(run: Run) -> list[tuple[str, str]]:
    """(source, metric) of all that is sampled all the time, as far as the messaging system can tell it."""
    system, abilities = find_system(run.topology), list_abilities(run)
    topology, workload = run.topology, run.scenario.workload
    found: list[tuple[str, str]] = []
    for name, cluster in topology.clusters.items():
        source = Source.CLUSTER.join_name(name)
        roles = {node.role for node in cluster.nodes.values()}
        listed = [role for role in list_roles_that(system, is_listed) if role in roles]
        found += [(source, SampledMetric.ALIVE.join_subject(role)) for role in listed]
        if Ability.UNDER_REPLICATION in abilities:
            found.append((source, str(SampledMetric.UNDER_REPLICATED)))
        if Ability.READ_COUNTERS in abilities:
            storing = [node for node in list_nodes_that(stores, topology, name) if node in cluster.nodes]
            found += [(Source.NODE.join_name(node), str(SampledMetric.BYTES_READ)) for node in storing]
    for name in list_clusters_reached(topology, workload):
        source = make_topic_source(name_topic(run), name if len(topology.clusters) > 1 else None)
        found += [(source, SampledMetric.OWNER.join_partition(number)) for number in workload.list_partitions()]
        found.append((source, str(SampledMetric.PUBLISHED)))
    return found


def read_samples(run: Run) -> Samples:
    """From the table `observations`."""
    read = set(list_stored_names(_READ))
    series: dict[tuple[str, str], Series] = defaultdict(list)
    times: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in iterate_rows(run, "observations", ("at", "source", "metric", "value")):
        source, metric = translate_names(row["source"], row["metric"])
        if row["value"] is None:
            continue
        times[source, metric].append(row["at"])
        if split_name(row["metric"])[0] in read:
            series[source, metric].append((row["at"], row["value"]))
    return Samples(
        series={name: sorted(values) for name, values in series.items()},
        times={name: sorted(values) for name, values in times.items()},
    )
