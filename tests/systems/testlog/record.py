"""Messages, and their form in requests, in the log and in deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class MessageRecord(NamedTuple):
    """One message. `published_at` is the producer's time in microseconds since the epoch."""

    producer: str
    seq: int
    key: str | None
    payload: bytes
    headers: dict[str, str]
    published_at: int


def pack_records(numbered: Iterable[tuple[int, MessageRecord]]) -> tuple[list[list[Any]], bytes]:
    """Return the rows of a header, and a body with the payloads one after the other.

    A message's number is its place in a request, its distance from an entry's first offset, or its offset.
    """
    rows: list[list[Any]] = []
    payloads: list[bytes] = []
    for number, record in numbered:
        rows.append(
            [number, record.producer, record.seq, record.key, record.headers, record.published_at, len(record.payload)]
        )
        payloads.append(record.payload)
    return rows, b"".join(payloads)


def unpack_records(rows: list[list[Any]], body: bytes) -> list[tuple[int, MessageRecord]]:
    """Return (number, message) of each row. Raises ValueError if the payloads' sizes do not add up to the body."""
    numbered: list[tuple[int, MessageRecord]] = []
    start = 0
    for number, producer, seq, key, headers, published_at, size in rows:
        end = start + size
        numbered.append((number, MessageRecord(producer, seq, key, body[start:end], headers, published_at)))
        start = end
    if start != len(body):
        raise ValueError(f"payloads of {start} bytes in a body of {len(body)}")
    return numbered
