"""The samples in the table `observations`. They are few, because their number grows with time and not with messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from brokerproof.experiment.abilities import Ability
from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, Source, make_topic_source, split_name
from brokerproof.run.table_rows import iterate_rows
from brokerproof.systems.destinations import list_clusters_reached, list_replication_ways
from brokerproof.systems.registry import find_system, list_abilities, name_topic
from brokerproof.systems.roles import is_listed, list_nodes_that, list_roles_that, stores

Series = list[tuple[int, str]]

# A source is sampled twice a second. If it gives no sample for longer than this, its values may have changed meanwhile.
SILENCE_US = 5_000_000


@dataclass(frozen=True, kw_only=True)
class Samples:
    """The samples that the monitor took of a run's clusters, topics, nodes and links, from the table `observations`.

    A sample's source is the cluster, topic, node or link that it describes. `series` has, by (source, metric), the
    pairs (time in µs, value) in order of time. Samples without a value are left out, because the source did not answer.
    `expected` has the (source, metric) that must have samples. `silences` are the times (from, to) in µs, longer than
    `SILENCE_US`, in which no source was sampled. `last_us` is the time of the last sample.
    """

    series: dict[tuple[str, str], Series] = field(default_factory=dict)
    expected: tuple[tuple[str, str], ...] = ()
    silences: tuple[tuple[int, int], ...] = ()
    last_us: int = 0

    def find_series(self, kind: Source, metric: str) -> Iterator[tuple[str, Series]]:
        """Yield (name, samples of `metric`) for each source of a kind, such as each cluster, that has the metric."""
        for (source, known), values in self.series.items():
            if known == metric and source.startswith(kind.join_name("")):
                yield source.removeprefix(kind.join_name("")), values

    def find_by_subject(self, kind: Source, metric: SampledMetric) -> Iterator[tuple[str, str, Series]]:
        """Yield (source, subject, samples) of a metric that a source has once per subject, such as per subscription.

        If the source has the metric only once in all, the subject is empty. An expected series that was never sampled
        is yielded too, with an empty list of samples.
        """
        for source, known in dict.fromkeys([*self.expected, *self.series]):
            name, subject = split_name(known)
            if name == metric and split_name(source)[0] == kind:
                yield source, subject, self.series.get((source, known), [])


def list_expected_series(run: Run) -> list[tuple[str, str]]:
    """Return (source, metric) of each series that is sampled all the time and that the messaging system provides.

    The owners of partitions that a fault adds are left out (`list_owner_series`).
    """
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
    found += list_owner_series(run, workload.list_first_partitions())
    for name in list_clusters_reached(topology, workload):
        found.append((_make_topic_source(run, name), str(SampledMetric.PUBLISHED)))
    return found


def list_owner_series(run: Run, partitions: Sequence[int]) -> list[tuple[str, str]]:
    """Return (source, metric) of the owner of each of the topic's partitions with these numbers, in each cluster."""
    return [
        (_make_topic_source(run, name), SampledMetric.OWNER.join_partition(number))
        for name in list_clusters_reached(run.topology, run.scenario.workload)
        for number in partitions
    ]


def list_expected_backlogs(run: Run) -> list[tuple[str, str]]:
    """Return (source, metric) of each backlog that must be sampled: of each subscription and replication direction.

    The messaging system counts no backlog of streaming queries.

    The backlog of a subscription that moves is expected only in its first cluster. In the other cluster, the samples
    begin late or never.
    """
    topology, workload = run.topology, run.scenario.workload
    subscriptions = [
        (_make_topic_source(run, each.find_home(topology)), SampledMetric.BACKLOG.join_subject(each.name))
        for each in workload.known_subscriptions
    ]
    ways = [
        (_make_topic_source(run, home), SampledMetric.REPLICATION_BACKLOG.join_subject(f"{home}>{other}"))
        for home, other in list_replication_ways(topology, workload)
    ]
    return subscriptions + ways


def _make_topic_source(run: Run, cluster: str) -> str:
    return make_topic_source(name_topic(run), cluster if len(run.topology.clusters) > 1 else None)


def read_samples(run: Run) -> Samples:
    series: dict[tuple[str, str], Series] = defaultdict(list)
    taken: set[int] = set()
    columns = ("at", "source", "metric", "value")
    for row in iterate_rows(run, "observations", columns, filled=columns[:3]):
        taken.add(row["at"])
        if row["value"] is not None:
            series[row["source"], row["metric"]].append((row["at"], row["value"]))
    return Samples(
        series={name: sorted(values) for name, values in series.items()},
        expected=(*list_expected_series(run), *list_expected_backlogs(run)),
        silences=tuple((a, b) for a, b in pairwise(sorted(taken)) if b - a > SILENCE_US),
        last_us=max(taken, default=0),
    )
