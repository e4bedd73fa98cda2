"""The samplers of a Pulsar cluster, which observe the cluster during a run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from functools import partial

import httpx

from brokerproof import clock
from brokerproof.errors import AdminError, shorten
from brokerproof.run.observations import Sample, SampledMetric, Source, format_names, make_topic_source
from brokerproof.systems.destinations import list_clusters_reached
from brokerproof.systems.pulsar.addressing import BOOKIE_HTTP_PORT
from brokerproof.systems.pulsar.admin import read_text, request
from brokerproof.systems.pulsar.answers import TOPIC_STATS, SubscriptionStats
from brokerproof.systems.pulsar.cluster import PulsarCluster
from brokerproof.systems.pulsar.copies import count_under_replicated
from brokerproof.systems.pulsar.roles import Role

_COUNTERS = {"bookie_WRITE_BYTES": SampledMetric.BYTES_WRITTEN, "bookie_READ_BYTES": SampledMetric.BYTES_READ}
_LINE = re.compile(r"^(?P<name>bookie_(?:WRITE|READ)_BYTES)(?:\{[^}]*\})?\s+(?P<value>\S+)", re.MULTILINE)


def parse_bookie_counters(page: str) -> dict[SampledMetric, int]:
    """Return {metric: bytes written or read since the bookie started}, from the text of the bookie's page /metrics.

    Raises AdminError if a counter is missing or is no number of bytes.
    """
    counters: dict[SampledMetric, int] = {}
    for match in _LINE.finditer(page):
        name = _COUNTERS[match["name"]]
        counters[name] = counters.get(name, 0) + _parse_count(match["name"], match["value"])
    for counter, name in _COUNTERS.items():
        if name not in counters:
            raise AdminError(f"the bookie's metrics do not hold {counter}")
    return counters


def _parse_count(counter: str, value: str) -> int:
    try:
        count = int(float(value))
    except (ValueError, OverflowError):
        count = -1
    if count < 0:
        raise AdminError(f"{counter} in the bookie's metrics is `{shorten(value)}`, which is no count")
    return count


def format_consumers(subscription: SubscriptionStats) -> str:
    """Return the sample of a subscription's connected consumers, with the address and the time of each connection."""
    return format_names(
        f"{each.consumer_name} at {each.address} since {each.connected_since}"
        + (", active" if each.consumer_name == subscription.active_consumer_name else "")
        for each in subscription.consumers
    )


# Lookups in one round of sampling; there are two rounds a second. A topic with more partitions takes several rounds.
_MOST_LOOKUPS = 8


class ClusterSamplers:
    """The samplers of one cluster: functions that each take one observation."""

    def __init__(self, cluster: PulsarCluster) -> None:
        self._cluster = cluster
        timeout = httpx.Timeout(min(5.0, cluster.patience_s), connect=1.0)
        self._http = httpx.Client(timeout=timeout, trust_env=False)
        # The number of lookups so far.
        self._lookups = 0

    def list_samplers(self) -> Mapping[str, Callable[[], list[Sample]]]:
        """Return {name: function that takes samples}, one for each part of the cluster that can fail on its own."""
        here = self._cluster.name in list_clusters_reached(self._cluster.topology, self._cluster.run.scenario.workload)
        return {
            "brokers": self._sample_brokers,
            "bookies": self._sample_bookies,
            "repair": self._sample_repair,
            **({"owner": self._sample_owners, "topic": self._sample_topic} if here else {}),
            **{name: partial(self._sample_bookie, name) for name in self._cluster.names(Role.BOOKIE)},
        }

    def _make_topic_source(self) -> str:
        several = len(self._cluster.topology.clusters) > 1
        return make_topic_source(self._cluster.topic, self._cluster.name if several else None)

    def _sample_cluster(self, metric: str, value: str) -> list[Sample]:
        return [_sample(Source.CLUSTER.join_name(self._cluster.name), metric, value)]

    def _sample_brokers(self) -> list[Sample]:
        return self._sample_cluster(
            SampledMetric.ALIVE.join_subject(Role.BROKER), format_names(self._cluster.list_alive_brokers())
        )

    def _sample_bookies(self) -> list[Sample]:
        return self._sample_cluster(
            SampledMetric.ALIVE.join_subject(Role.BOOKIE), format_names(self._cluster.list_alive_bookies())
        )

    def _sample_repair(self) -> list[Sample]:
        return self._sample_cluster(SampledMetric.UNDER_REPLICATED, str(count_under_replicated(self._cluster)))

    def _sample_owners(self) -> list[Sample]:
        """Return samples of the owners of at most `_MOST_LOOKUPS` partitions.

        Each call goes on with the partition after the last one of the previous call. After `patience_s` seconds, a call
        looks up no further partition, because frozen brokers answer slowly. If no broker names a partition's owner, the
        partition's sample has no value.
        """
        rows, source = [], self._make_topic_source()
        late_at = time.monotonic() + self._cluster.patience_s
        partitions = self._cluster.partitions
        for _ in range(min(_MOST_LOOKUPS, len(partitions))):
            number, path = partitions[self._lookups % len(partitions)]
            self._lookups += 1
            try:
                owner = self._cluster.find_owner(path)
            except AdminError:
                owner = None
            rows.append(_sample(source, SampledMetric.OWNER.join_partition(number), owner))
            if time.monotonic() >= late_at:
                break
        return rows

    def _sample_topic(self) -> list[Sample]:
        answers = {
            number: self._cluster.brokers.get(path + "/stats", TOPIC_STATS) for number, path in self._cluster.partitions
        }
        stats = list(answers.values())
        values: dict[str, int | str] = {SampledMetric.PUBLISHED: sum(one.msg_in_counter for one in stats)}
        for name in [one.name for one in self._cluster.subscriptions]:
            found = [one.subscriptions[name] for one in stats if name in one.subscriptions]
            if found:
                values[SampledMetric.BACKLOG.join_subject(name)] = sum(one.msg_backlog for one in found)
                values[SampledMetric.DELIVERED.join_subject(name)] = sum(one.msg_out_counter for one in found)
            for number, one in answers.items():
                if name in one.subscriptions:
                    metric = SampledMetric.CONSUMERS.join_subscription(name, number)
                    values[metric] = format_consumers(one.subscriptions[name])
        for other in self._cluster.others:
            replicators = [one.replication[other] for one in stats if other in one.replication]
            if replicators:
                way = f"{self._cluster.name}>{other}"
                backlog = sum(one.replication_backlog for one in replicators)
                values[SampledMetric.REPLICATION_BACKLOG.join_subject(way)] = backlog
                delay_s = max(one.replication_delay_in_seconds for one in replicators)
                values[SampledMetric.REPLICATION_DELAY_S.join_subject(way)] = delay_s
        source = self._make_topic_source()
        return [_sample(source, metric, str(value)) for metric, value in values.items()]

    def _sample_bookie(self, name: str) -> list[Sample]:
        page = read_text(
            request(self._http, "GET", f"http://{self._cluster.addresses[name]}:{BOOKIE_HTTP_PORT}/metrics")
        )
        at = clock.now_us()
        return [
            Sample(at=at, source=Source.NODE.join_name(name), metric=metric, value=str(value))
            for metric, value in parse_bookie_counters(page).items()
        ]


def _sample(source: str, metric: str, value: str | None) -> Sample:
    return Sample(at=clock.now_us(), source=source, metric=str(metric), value=value)
