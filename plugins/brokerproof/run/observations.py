"""What is sampled while a run goes on: one vocabulary for the system, the link, the monitor and judging.

A sample is a row of the table `observations`. Its source is `KIND:NAME`, or `link` for the process of the link as a
whole. Its metric is a name of `SampledMetric`, or `METRIC:SUBJECT` where a source has several values of it.
`translate_names` gives the samples of older runs these names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

# The seconds between two samples of one source.
INTERVAL_S = 0.5


class Source(StrEnum):
    """The kinds of source."""

    CLUSTER = "cluster"
    TOPIC = "topic"
    NODE = "node"
    # From one region to another, `REGION>OTHER`; without a name, the process that carries all links.
    LINK = "link"
    # What starts a node again that ended by itself, by the node's name.
    SERVICE_MANAGER = "service_manager"
    # A sampler that got no answer.
    SAMPLER = "sampler"

    def join_name(self, name: str) -> str:
        """The source of this kind that has a name."""
        return f"{self}:{name}"


class SampledMetric(StrEnum):
    """What can be sampled. A value is a number, a name, or a JSON list of names."""

    # Of a cluster. Nodes that the cluster itself lists as alive, by role (JSON list).
    ALIVE = "alive"
    # Segments of the log that wait for another copy.
    UNDER_REPLICATED = "under_replicated"

    # Of a topic, by partition if it has any: the node that serves it, empty if no node does, null if no node answered
    # who does. Runs that were recorded before null was written have an empty value for both.
    OWNER = "owner"
    # Messages that the topic's owners took in since they own it.
    PUBLISHED = "published"
    # By subscription.
    BACKLOG = "backlog"
    DELIVERED = "delivered"
    # By way, `CLUSTER>OTHER`.
    REPLICATION_BACKLOG = "replication_backlog"
    REPLICATION_DELAY_S = "replication_delay_s"

    # Of a node that stores. Counters since it started.
    BYTES_READ = "bytes_read"
    BYTES_WRITTEN = "bytes_written"

    # Of a link, since the sample before: traffic, connections, and what the link added to the delay that was ordered.
    BYTES = "bytes"
    HELD_BYTES = "held_bytes"
    OPEN = "open"
    OPENED = "opened"
    REFUSED = "refused"
    TIMED = "timed"
    ADDED_P50_MS = "added_p50_ms"
    ADDED_P99_MS = "added_p99_ms"
    ADDED_MAX_MS = "added_max_ms"
    # Of the process that carries all links.
    CPU_S = "cpu_s"
    LONGEST_TURN_MS = "longest_turn_ms"

    # Of a service manager, when it happens: its node ended by itself, and was started again; the value is how often by
    # then.
    ENDED = "ended"
    RESTARTED = "restarted"

    # Of a sampler: the error where nobody answered.
    NO_ANSWER = "no_answer"

    def join_subject(self, subject: str) -> str:
        """The metric of one subject: a role, a subscription, a way."""
        return f"{self}:{subject}"

    def join_partition(self, number: int) -> str:
        """The metric of one partition, or of a topic without partitions, whose number is -1."""
        return str(self) if number < 0 else self.join_subject(str(number))


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One sampled value of `source`; `at` is when the answer arrived, in microseconds.

    The value is None if there was no answer, which is recorded only of what must not look as it did before.
    """

    at: int
    source: str
    metric: str
    value: str | None

    def row(self, run_id: str) -> dict[str, Any]:
        """The sample as a row of the table `observations`."""
        return {"run_id": run_id, "at": self.at, "source": self.source, "metric": self.metric, "value": self.value}


def make_topic_source(topic: str, cluster: str | None = None) -> str:
    """The source of a topic; with the cluster where the run has several, because each of them may hold the topic."""
    return Source.TOPIC.join_name(topic if cluster is None else f"{topic}@{cluster}")


def split_name(name: str) -> tuple[str, str]:
    """(kind, name) of a source, or (metric, subject) of a metric. The second is empty where there is none."""
    first, _, second = name.partition(":")
    return first, second


def format_names(names: Iterable[str]) -> str:
    """A value that lists names."""
    return json.dumps(sorted(names))


def parse_names(value: str) -> list[str]:
    """The names in a value that lists them."""
    return [str(name) for name in json.loads(value)]


# The names that runs recorded before this vocabulary use.
_OLD_METRICS: Mapping[str, str] = {
    "alive_brokers": SampledMetric.ALIVE.join_subject("broker"),
    "alive_bookies": SampledMetric.ALIVE.join_subject("bookie"),
    "under_replicated_ledgers": SampledMetric.UNDER_REPLICATED,
}
_OLD_SOURCES: Mapping[str, Source] = {"bookie": Source.NODE}


def translate_names(source: str, metric: str) -> tuple[str, str]:
    """The source and the metric of a stored sample under the names of today."""
    kind, name = split_name(source)
    if kind in _OLD_SOURCES:
        source = _OLD_SOURCES[kind].join_name(name)
    return source, str(_OLD_METRICS.get(metric, metric))


def list_stored_names(metrics: Collection[SampledMetric]) -> list[str]:
    """The names, up to a colon, under which a stored run may hold samples of these metrics."""
    old = [name for name, metric in _OLD_METRICS.items() if split_name(metric)[0] in metrics]
    return [*map(str, metrics), *old]
