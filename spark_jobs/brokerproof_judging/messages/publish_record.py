"""Finds gaps and contradictions in the table `publishes`. If there are any, no message can be called missing.

They are found from one summary for each part (the rows of one Spark task). The summary also counts the rows of each
client and log. client_counts.py compares these counts with the clients' and log readers' own counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from brokerproof_judging.database import DuckDB

# The most examples in one sentence.
_SHOWN = 3

# Each producer's number of messages, and their lowest and highest seq.
_PRODUCERS = "SELECT who, count(*), min(number), max(number) FROM published GROUP BY who"

# Each client's number of rows, by the columns that tell the clients and their own counts apart.
_ATTEMPTS = """
    SELECT coalesce(producer_of(who), 'an unnamed producer'), coalesce(epoch, 0), outcome, count(*)
    FROM publishes
    GROUP BY ALL
"""
_DELIVERIES = "SELECT cluster, subscription, consumer, incarnation, count(*) FROM deliveries GROUP BY ALL"

# Each log's number of rows. If a position was read twice, it has two rows, and the reader counted two messages.
_STORED = "SELECT cluster, topic, coalesce(partition, -1), count(*) FROM stored GROUP BY ALL"

# Every log that messages had to reach. A message that was neither acked nor found has no known partition.
_LOGS = "SELECT DISTINCT home, cluster, topic, partition FROM log_facts WHERE required AND partition IS NOT NULL"

# The shortest time from a message's sending to its first delivery. Messages with several attempts are left out, because
# it is not known which attempt was delivered.
_LEAST_DELAY = "SELECT min(first_delivery.received_at - sent_at) FROM subscription_facts WHERE attempts = 1"

# Two rows for one attempt mean that the load ran twice or recorded twice.
MOST_EXAMPLES = 4
_RECORDED_TWICE = f"""
    SELECT concat(who, ' seq ', number, ' in epoch ', epoch) AS attempt
    FROM publishes
    GROUP BY who, number, epoch
    HAVING count(*) > 1
    ORDER BY attempt
    LIMIT {MOST_EXAMPLES}
"""

_TWO_HOMES = "SELECT min(concat(who, ' seq ', number)) FROM published WHERE home != other_home"

_TWO_PAYLOADS = "SELECT min(concat(who, ' seq ', number)) FROM published WHERE payload_hash != other_payload_hash"

_TWO_KEYS = "SELECT min(concat(who, ' seq ', number)) FROM published WHERE key != other_key"


@dataclass(frozen=True, kw_only=True)
class PartSummary:
    """A summary of one part (the rows of one Spark task). Its size does not grow with the number of messages."""

    # (producer, messages, lowest seq, highest seq)
    producers: list[tuple[str, int, int, int]]
    # (producer, epoch, outcome, rows)
    attempts: list[tuple[str, int, str, int]]
    # (cluster, subscription, consumer, incarnation, rows)
    deliveries: list[tuple[str, str, str, int | None, int]]
    # (home, cluster, topic, partition)
    logs: list[tuple[str, str, str, int]]
    # At most `MOST_EXAMPLES` examples.
    recorded_twice: list[str]
    # One example of a message with two homes, payloads or keys; None without one.
    two_homes: str | None
    two_payloads: str | None
    two_keys: str | None
    # (cluster, topic, partition, rows of `stored`)
    stored: list[tuple[str, str, int, int]] = field(default_factory=list)
    # Negative if the clocks of two hosts differ by more than the delay. None if no message with one attempt was
    # delivered.
    least_delay_us: int | None = None


def summarize_part(connection: DuckDB) -> PartSummary:
    """Return the summary of a part whose records and facts are in the database."""
    (two_homes,), (two_payloads,), (two_keys,), (least_delay_us,) = (
        connection.execute(query).fetchone() or (None,)
        for query in (_TWO_HOMES, _TWO_PAYLOADS, _TWO_KEYS, _LEAST_DELAY)
    )
    return PartSummary(
        producers=connection.execute(_PRODUCERS).fetchall(),
        attempts=connection.execute(_ATTEMPTS).fetchall(),
        deliveries=connection.execute(_DELIVERIES).fetchall(),
        logs=connection.execute(_LOGS).fetchall(),
        recorded_twice=[attempt for (attempt,) in connection.execute(_RECORDED_TWICE).fetchall()],
        two_homes=two_homes,
        two_payloads=two_payloads,
        two_keys=two_keys,
        stored=connection.execute(_STORED).fetchall(),
        least_delay_us=least_delay_us,
    )


def find_problems(summaries: Iterable[PartSummary]) -> Iterator[str]:
    """Yield a sentence for each kind of gap or contradiction in the record of publishes."""
    summaries = list(summaries)
    producers: dict[str, tuple[int, int, int]] = {}
    for who, count, low, high in (row for summary in summaries for row in summary.producers):
        before = producers.get(who, (0, low, high))
        producers[who] = (before[0] + count, min(before[1], low), max(before[2], high))
    gaps = [
        f"{who} ({count} different of {high + 1}, from {low} to {high})"
        for who, (count, low, high) in producers.items()
        if low != 0 or count != high + 1
    ]
    if gaps:
        yield f"The seq of what was published has gaps: {_list_some(gaps)}."
    if twice := [attempt for summary in summaries for attempt in summary.recorded_twice]:
        yield f"One attempt is recorded more than once, so the load's record contradicts itself: {_list_some(twice)}."
    if homes := [summary.two_homes for summary in summaries if summary.two_homes]:
        yield f"Messages were published to two clusters, so they have no home; one is {min(homes)}."
    if payloads := [summary.two_payloads for summary in summaries if summary.two_payloads]:
        yield f"Messages were published with two payloads under one name; one is {min(payloads)}."
    if keys := [summary.two_keys for summary in summaries if summary.two_keys]:
        yield f"Messages were published with two keys under one name; one is {min(keys)}."


def find_least_delay(summaries: Iterable[PartSummary]) -> int | None:
    """Return the shortest time in µs from a message's sending to its delivery, of all parts; None if none is known."""
    return min((each.least_delay_us for each in summaries if each.least_delay_us is not None), default=None)


def list_logs(summaries: Iterable[PartSummary]) -> list[tuple[str, tuple[str, str, int]]]:
    """Return (home, (cluster, topic, partition)) of every log that had to get messages published to `home`."""
    return sorted(
        {
            (home, (cluster, topic, partition))
            for summary in summaries
            for home, cluster, topic, partition in summary.logs
        }
    )


def _list_some(found: list[str]) -> str:
    return ", ".join(sorted(found)[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
