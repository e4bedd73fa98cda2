"""Samples of a run's clusters, topics, nodes and links: their form, and the names of their sources and metrics.

A sample is a row of the table `observations`. Its source is what was sampled: `KIND:NAME`, such as `topic:orders`, or
`link` for the process that emulates all links between regions. Its metric is a `SampledMetric`, or `METRIC:SUBJECT` if
the source has several values of the metric, such as one for each subscription.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

# The seconds between two samples of one source.
INTERVAL_S = 0.5


class Source(StrEnum):
    CLUSTER = "cluster"
    TOPIC = "topic"
    NODE = "node"
    # The traffic from one region to another, `REGION>OTHER`; without a name, the process that carries all links.
    LINK = "link"
    # The service manager that restarts a node after it ended by itself; the source has the node's name.
    SERVICE_MANAGER = "service_manager"
    # A sampler that got no answer.
    SAMPLER = "sampler"

    def join_name(self, name: str) -> str:
        return f"{self}:{name}"


class SampledMetric(StrEnum):
    """The metrics of samples. A sampled value is a number, a name, a JSON list of names, or the text of an error."""

    # Of a cluster. The nodes that the cluster itself lists as alive, by role (JSON list).
    ALIVE = "alive"
    # The number of segments of logs that lack a copy.
    UNDER_REPLICATED = "under_replicated"

    # Of a topic, by partition if it has any: the node that serves it, empty if no node serves it, null if no node
    # answered the question.
    OWNER = "owner"
    # The messages that the topic's owners have taken in since they became its owners.
    PUBLISHED = "published"
    # Of a topic, by subscription.
    BACKLOG = "backlog"
    DELIVERED = "delivered"
    # Of a topic, by subscription and partition: the connected consumers, each with its connection (JSON list). The text
    # of a consumer changes if it connects anew, or if it begins or ceases to be the only one that receives.
    CONSUMERS = "consumers"
    # Of a topic, by direction of replication, `CLUSTER>OTHER`.
    REPLICATION_BACKLOG = "replication_backlog"
    REPLICATION_DELAY_S = "replication_delay_s"

    # Of a node that stores: counters since its start.
    BYTES_READ = "bytes_read"
    BYTES_WRITTEN = "bytes_written"

    # Of a link: traffic and connections. `bytes`, `opened` and `refused` are counters since the link's start.
    BYTES = "bytes"
    HELD_BYTES = "held_bytes"
    OPEN = "open"
    OPENED = "opened"
    REFUSED = "refused"
    # Of a link, since the previous sample: how often a delay was timed, and the delay beyond the one that was set.
    TIMED = "timed"
    ADDED_P50_MS = "added_p50_ms"
    ADDED_P99_MS = "added_p99_ms"
    ADDED_MAX_MS = "added_max_ms"
    # Of the process that carries all links: CPU time since its start, and the longest wait of a socket for its turn
    # since the previous sample.
    CPU_S = "cpu_s"
    LONGEST_TURN_MS = "longest_turn_ms"

    # Of a service manager, one sample per event: its node ended by itself, or was restarted. The value is
    # the number of these events so far.
    ENDED = "ended"
    RESTARTED = "restarted"

    # Of a sampler: the error if it failed.
    NO_ANSWER = "no_answer"

    def join_subject(self, subject: str) -> str:
        """Return `METRIC:SUBJECT`. A subject is a role, a subscription or a direction of replication, `HOME>OTHER`."""
        return f"{self}:{subject}"

    def join_partition(self, number: int) -> str:
        """Return `METRIC:NUMBER`, or `METRIC` alone if `number` is -1, which means a topic without partitions."""
        return str(self) if number < 0 else self.join_subject(str(number))

    def join_subscription(self, subscription: str, partition: int) -> str:
        """Return `METRIC:SUBSCRIPTION/NUMBER`, or `METRIC:SUBSCRIPTION` for a topic without partitions."""
        return self.join_subject(subscription if partition < 0 else f"{subscription}/{partition}")


class SeriesKind(StrEnum):
    """The ways to make a series of values from the samples of a metric."""

    # The value at a moment.
    LEVEL = "level"
    # The increase per second of a counter, which begins at 0 when its source starts.
    RATE = "rate"
    # The number of names in a list.
    COUNT = "count"


@dataclass(frozen=True, kw_only=True)
class Curve:
    """How a metric is drawn on a run's page. A value of its series, multiplied by `factor`, is in `unit`."""

    title: str
    unit: str
    kind: SeriesKind = SeriesKind.LEVEL
    factor: float = 1.0


CURVES: Mapping[SampledMetric, Curve] = {
    SampledMetric.BYTES_WRITTEN: Curve(
        title="written to each storage node", unit="MB/s", kind=SeriesKind.RATE, factor=1e-6
    ),
    SampledMetric.BYTES_READ: Curve(
        title="read from each storage node", unit="MB/s", kind=SeriesKind.RATE, factor=1e-6
    ),
    SampledMetric.BACKLOG: Curve(title="backlog of subscriptions", unit="messages"),
    SampledMetric.UNDER_REPLICATED: Curve(title="under-replicated segments", unit="segments"),
    SampledMetric.REPLICATION_BACKLOG: Curve(title="replication backlog", unit="messages"),
    SampledMetric.REPLICATION_DELAY_S: Curve(title="replication lag", unit="s"),
    SampledMetric.ALIVE: Curve(title="nodes alive, as the cluster says", unit="nodes", kind=SeriesKind.COUNT),
}


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One value of `metric`, sampled from `source`.

    `at` is the time at which the value was observed or the recorded event happened, in microseconds since the epoch.
    `value` is None if no node answered. Such a sample is recorded only if the previous value must no longer be used.
    """

    at: int
    source: str
    metric: str
    value: str | None

    def row(self, run_id: str) -> dict[str, Any]:
        """Return the sample as a row of the table `observations`."""
        return {"run_id": run_id, "at": self.at, "source": self.source, "metric": self.metric, "value": self.value}


def make_topic_source(topic: str, cluster: str | None = None) -> str:
    """Return the source of a topic's samples: `topic:NAME`, or `topic:NAME@CLUSTER` if `cluster` is given.

    Give `cluster` if the run has several clusters, because each may hold the topic.
    """
    return Source.TOPIC.join_name(topic if cluster is None else f"{topic}@{cluster}")


def split_name(name: str) -> tuple[str, str]:
    """Return the parts of a source `KIND:NAME` or a metric `METRIC:SUBJECT` before and after the colon.

    If there is no colon, the second part is empty.
    """
    first, _, second = name.partition(":")
    return first, second


def format_names(names: Iterable[str]) -> str:
    """Return a sample's value for a list of names: a sorted JSON list."""
    return json.dumps(sorted(names))


def parse_names(value: str) -> list[str]:
    """Return the list of names in a value made by `format_names`."""
    return [str(name) for name in json.loads(value)]
