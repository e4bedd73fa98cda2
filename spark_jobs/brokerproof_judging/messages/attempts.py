"""Whether the record of what was published is whole: without that nothing can be said about what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from brokerproof_judging import partitioned_sql

# Enough for a person to see what is wrong.
_SHOWN = 3

Told = dict[str, Any]


def told(connection: partitioned_sql.Connection) -> Told:
    """What a part tells of its attempts, short whatever the number of messages.

    `producers`: [who, different numbers, lowest, highest]; `logs`: [home, cluster, topic, partition] of every log that
    messages had to reach; the others are up to four examples each.
    """
    home = "FROM logs WHERE outcome IS NOT NULL AND cluster = home"
    contradiction = f"SELECT min(concat(who, ' seq ', number)) AS shown {home} AND"
    queries = {
        "producers": f"SELECT who, count(*), min(number), max(number) {home} GROUP BY who",
        "logs": "SELECT DISTINCT home, cluster, topic, partition FROM logs WHERE required AND partition IS NOT NULL",
        # Two rows for one attempt mean that the load ran twice or recorded twice.
        "twice": (
            "SELECT concat(who, ' seq ', number, ' in epoch ', epoch) AS shown FROM rows WHERE kind = 0 "
            f"GROUP BY who, number, epoch HAVING count(*) > 1 ORDER BY shown LIMIT {_SHOWN + 1}"
        ),
        "homes": f"{contradiction} home_low != home_high",
        "hashes": f"{contradiction} hash_low != hash_high",
    }
    return {name: connection.execute(query).fetchall() for name, query in queries.items()}


def problems(all_told: Iterable[Told]) -> Iterator[str]:
    """A sentence for everything that makes the record incomplete or contradictory, from what every part told."""
    all_told = list(all_told)
    counted: dict[str, tuple[int, int, int]] = {}
    for who, count, low, high in (row for each in all_told for row in each["producers"]):
        before = counted.get(who, (0, low, high))
        counted[who] = (before[0] + count, min(before[1], low), max(before[2], high))
    yield from _said(
        "The seq of what was published has gaps: {}.",
        [
            f"{who} ({count} different of {high + 1}, from {low} to {high})"
            for who, (count, low, high) in counted.items()
            if low != 0 or count != high + 1
        ],
    )
    yield from _said(
        "One attempt is recorded more than once, so the load's record contradicts itself: {}.",
        _shown(all_told, "twice"),
    )
    for name, sentence in (
        ("homes", "Messages were published to two clusters, so they have no home; one is {}."),
        ("hashes", "Messages were published with two payloads under one name; one is {}."),
    ):
        if shown := _shown(all_told, name):
            yield sentence.format(min(shown))


def logs(all_told: Iterable[Told]) -> list[tuple[str, tuple[str, str, int]]]:
    """(home, log) of every log that messages had to reach."""
    rows = {tuple(row) for each in all_told for row in each["logs"]}
    return sorted((home, (cluster, topic, partition)) for home, cluster, topic, partition in rows)


def _shown(all_told: Iterable[Told], name: str) -> list[str]:
    return [shown for each in all_told for (shown,) in each[name] if shown is not None]


def _said(sentence: str, found: list[str]) -> Iterator[str]:
    if found:
        yield sentence.format(", ".join(sorted(found)[:_SHOWN]) + (", …" if len(found) > _SHOWN else ""))
