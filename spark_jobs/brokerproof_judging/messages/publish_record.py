"""Whether the record of publishes is complete. If it is not, no message can be called missing.

A part's summary also has the rows of each client, which client_counts.py compares with what the client counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from brokerproof_judging.database import DuckDB

# Enough for a person to see what is wrong.
_SHOWN = 3

# Every producer, with how many different numbers it has, the lowest and the highest.
_PRODUCERS = "SELECT who, count(*), min(number), max(number) FROM published GROUP BY who"

# What every client has in its table, by what it counts apart.
_ATTEMPTS = """
    SELECT coalesce(producer_of(who), 'an unnamed producer'), coalesce(epoch, 0), outcome, count(*)
    FROM publishes
    GROUP BY ALL
"""
_DELIVERIES = "SELECT cluster, subscription, consumer, incarnation, count(*) FROM deliveries GROUP BY ALL"

# Every log that messages had to reach. Nobody knows which one that is for an attempt that was not acked nor found.
_LOGS = "SELECT DISTINCT home, cluster, topic, partition FROM log_facts WHERE required AND partition IS NOT NULL"

# Two rows for one attempt mean that the load ran twice or recorded twice.
_RECORDED_TWICE = """
    SELECT concat(who, ' seq ', number, ' in epoch ', epoch) AS attempt
    FROM publishes
    GROUP BY who, number, epoch
    HAVING count(*) > 1
    ORDER BY attempt
    LIMIT 4
"""

_TWO_HOMES = "SELECT min(concat(who, ' seq ', number)) FROM published WHERE home != other_home"

_TWO_PAYLOADS = "SELECT min(concat(who, ' seq ', number)) FROM published WHERE payload_hash != other_payload_hash"

_TWO_KEYS = "SELECT min(concat(who, ' seq ', number)) FROM published WHERE key != other_key"


@dataclass(frozen=True, kw_only=True)
class PartSummary:
    """The summary of a part's attempts and deliveries. Its size does not grow with the number of messages."""

    # (producer, different numbers, lowest, highest)
    producers: list[tuple[str, int, int, int]]
    # (producer, epoch, outcome, rows)
    attempts: list[tuple[str, int, str, int]]
    # (cluster, subscription, consumer, incarnation, rows)
    deliveries: list[tuple[str, str, str, int | None, int]]
    # (home, cluster, topic, partition)
    logs: list[tuple[str, str, str, int]]
    # Up to four examples.
    recorded_twice: list[str]
    # One example of each, None where there is none.
    two_homes: str | None
    two_payloads: str | None
    two_keys: str | None


def summarize_part(connection: DuckDB) -> PartSummary:
    """The summary of a part whose tables `publishes`, `deliveries`, `published` and `log_facts` are there."""
    (two_homes,), (two_payloads,), (two_keys,) = (
        connection.execute(query).fetchone() or (None,) for query in (_TWO_HOMES, _TWO_PAYLOADS, _TWO_KEYS)
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
    )


def find_problems(summaries: Iterable[PartSummary]) -> Iterator[str]:
    """A sentence for everything that makes the record incomplete or contradictory."""
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


def list_logs(summaries: Iterable[PartSummary]) -> list[tuple[str, tuple[str, str, int]]]:
    """(home, log) of every log that messages had to reach."""
    return sorted(
        {
            (home, (cluster, topic, partition))
            for summary in summaries
            for home, cluster, topic, partition in summary.logs
        }
    )


def _list_some(found: list[str]) -> str:
    return ", ".join(sorted(found)[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
