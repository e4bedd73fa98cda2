"""Time series of a run, for the charts on the run's page. No verdict depends on them.

The task `verify` of the run's DAG computes them once. All series of a run have the same time steps: time step `n`
begins `n * step_s` seconds after `start`. A value is None if nothing was measured in its time step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from brokerproof.run.judgement import Count
from brokerproof.run.measurement import FiniteOrNone
from brokerproof.run.records import Moment, Record
from brokerproof.run.strict_model import StrictModel

# A screen has no room for more points.
MOST_STEPS = 1500


class PublishSeries(StrictModel):
    """By time step, the messages published to one cluster, and their latencies from schedule to ack.

    An acked message counts in the time step of its ack. All other counts and the latencies belong to the time step in
    which the message was scheduled.
    """

    cluster: str
    acked: tuple[Count, ...]
    failed: tuple[Count, ...]
    unknown: tuple[Count, ...]
    not_sent: tuple[Count, ...] = ()
    p50_ms: tuple[FiniteOrNone, ...]
    p99_ms: tuple[FiniteOrNone, ...]
    max_ms: tuple[FiniteOrNone, ...]


class DeliverySeries(StrictModel):
    """By time step, the deliveries to one subscription, and the latencies from schedule to first delivery.

    `delivered` includes repeated deliveries. Counts and latencies belong to the time step in which the message was
    received.
    """

    cluster: str
    subscription: str
    delivered: tuple[Count, ...]
    p50_ms: tuple[FiniteOrNone, ...]
    p99_ms: tuple[FiniteOrNone, ...]


class SampleSeries(StrictModel):
    """By time step, the value of one metric that was sampled from one source, such as a node or a topic.

    `source` and `metric` are named as in observations.py. A value is the last sample of its time step, a counter's
    increase per second, or the length of a list (`SeriesKind`).
    """

    source: str
    metric: str
    values: tuple[FiniteOrNone, ...]


class OwnerChange(StrictModel):
    """From the time `at` on, the node `owner` serves `topic`, which is a topic or one partition.

    `owner` is empty if no node serves `topic`. It is None if no node answered, so that the owner is unknown.
    """

    topic: str
    at: Moment
    owner: str | None


class RunSeries(Record):
    """All series of a run, or in `problem` the reason why there are none."""

    problem: str = ""
    start: Moment = 0
    step_s: float = 1.0
    steps: Annotated[Count, Field(le=MOST_STEPS)] = 0
    publishes: tuple[PublishSeries, ...] = ()
    deliveries: tuple[DeliverySeries, ...] = ()
    samples: tuple[SampleSeries, ...] = ()
    owners: tuple[OwnerChange, ...] = ()

    def find_samples(self, metric: str) -> Iterator[tuple[str, str, SampleSeries]]:
        """Yield (name of the source, subject, series) for each series of a sampled metric.

        For example, a topic (source) has one `backlog` for each subscription (subject). The subject is empty if the
        source has only one value of the metric.
        """
        for one in self.samples:
            name, _, subject = one.metric.partition(":")
            if name == metric:
                yield one.source.partition(":")[2], subject, one
