"""How a run went over time, step by step: what its page draws. `verify` makes it once, for all who read.

Nothing is judged by it. All series of a run have the same steps: step `n` begins `n * step_s` seconds after `start`. A
value is None where nothing was measured in the step.
"""

from __future__ import annotations

from collections.abc import Iterator

from brokerproof.run.counts import Count
from brokerproof.run.measurement import FiniteOrNone
from brokerproof.run.records import Moment, Record
from brokerproof.run.strict_model import StrictModel


class PublishSeries(StrictModel):
    """Messages to one cluster.

    `acked` are counted in the step of their acknowledgement. All others, and the latencies from schedule to
    acknowledgement, belong to the step that the message was scheduled in.
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
    """Deliveries to one subscription, repeated ones among them, and the latencies from schedule to first delivery.

    Both belong to the step of the delivery.
    """

    cluster: str
    subscription: str
    delivered: tuple[Count, ...]
    p50_ms: tuple[FiniteOrNone, ...]
    p99_ms: tuple[FiniteOrNone, ...]


class SampleSeries(StrictModel):
    """One sampled metric of one source, by its names in observations.py: the last value of each step.

    Of a counter it is what was added in the step, per second.
    """

    source: str
    metric: str
    values: tuple[FiniteOrNone, ...]


class OwnerChange(StrictModel):
    """From a moment on, a node serves a topic or a partition of it.

    `owner` is empty if no node does, and None if no node answered who does.
    """

    topic: str
    at: Moment
    owner: str | None


class RunSeries(Record):
    """All series of a run. `problem` says why there are none."""

    KIND = "series"

    problem: str = ""
    start: Moment = 0
    step_s: float = 1.0
    steps: Count = 0
    publishes: tuple[PublishSeries, ...] = ()
    deliveries: tuple[DeliverySeries, ...] = ()
    samples: tuple[SampleSeries, ...] = ()
    owners: tuple[OwnerChange, ...] = ()

    def find_samples(self, metric: str) -> Iterator[tuple[str, str, SampleSeries]]:
        """(name of the source, subject, series) of a metric; the subject is empty where the metric has none."""
        for one in self.samples:
            name, _, subject = one.metric.partition(":")
            if name == metric:
                yield one.source.partition(":")[2], subject, one
