"""Lists the periods in which samples prove that the consumers of a subscription stayed the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from brokerproof.run.directory import Run
from brokerproof.run.observations import INTERVAL_S, SampledMetric, make_topic_source
from brokerproof.run.table_rows import iterate_rows

# (cluster, topic, subscription, partition)
SubscribedPartition = tuple[str, str, str, int]
# (time in µs, value)
Sampled = tuple[int, str | None]

# The monitor waits for an answer for less than the interval, so two samples are less than two intervals apart.
LONGEST_GAP_US = round(2 * INTERVAL_S * 1e6)


def list_periods(run: Run, places: Collection[SubscribedPartition]) -> Iterator[tuple[SubscribedPartition, int, int]]:
    """Yield each period of the places as (place, first time, last time), in µs."""
    series: dict[tuple[str, str], list[Sampled]] = defaultdict(list)
    kinds = {"consumers": SampledMetric.CONSUMERS, "owner": SampledMetric.OWNER}
    where = " OR ".join(f"starts_with(metric, ${name})" for name in kinds)
    columns = ("at", "source", "metric", "value")
    for row in iterate_rows(run, "observations", columns, where=where, values=kinds, filled=columns[:3]):
        series[row["source"], row["metric"]].append((row["at"], row["value"]))
    for place in places:
        cluster, topic, subscription, partition = place
        source = make_topic_source(topic, cluster if len(run.topology.clusters) > 1 else None)
        consumers = series[source, SampledMetric.CONSUMERS.join_subscription(subscription, partition)]
        owners = series[source, SampledMetric.OWNER.join_partition(partition)]
        for since, until in find_unchanged(consumers, owners):
            yield place, since, until


def find_unchanged(consumers: Sequence[Sampled], owners: Sequence[Sampled]) -> Iterator[tuple[int, int]]:
    """Yield the periods (from, to) in which all samples of a partition show the same consumers and the same owner.

    A sample of consumers names their connections, so a consumer that connects anew is another one. A period ends with
    a gap in the samples of consumers, and if no owner is known. A sample is dated when the answer has arrived. The
    answer may be older, but it is younger than the sample before. So the period lasts until the last sample but one.
    """
    times: list[int] = []
    known: str | None = None
    owner: str | None = None
    events = [*((at, 0, value) for at, value in owners), *((at, 1, value) for at, value in consumers)]
    for at, is_of_consumers, value in sorted(events, key=lambda event: event[:2]):
        unchanged = value == (known if is_of_consumers else owner)
        if not unchanged or (is_of_consumers and times and at - times[-1] > LONGEST_GAP_US):
            if len(times) > 1:
                yield times[0], times[-2]
            times = []
        if not is_of_consumers:
            owner = value
            continue
        known = value
        if owner:
            times.append(at)
    if len(times) > 1:
        yield times[0], times[-2]
