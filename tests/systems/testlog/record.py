"""A message as it is sent, stored and delivered, many at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class MessageRecord(NamedTuple):
    """One message. `published_at` is the producer's time in microseconds."""

    producer: str
    seq: int
    key: str | None
    payload: bytes
    headers: dict[str, str]
    published_at: int


def pack_records(numbered: Iterable[tuple[int, MessageRecord]]) -> tuple[list[list[Any]], bytes]:
    """Rows for a header, and the payloads one after the other for a body.

    The number is the place in a request, the offset from an entry's first offset, or an offset in a partition.
    """
    rows: list[list[Any]] = []
    payloads: list[bytes] = []
    for number, record in numbered:
        rows.append(
            [
                number,
                record.producer,
                record.seq,
                record.key,
                record.headers,
                record.published_at,
                len(record.payload),
            ]
        )
        payloads.append(record.payload)
    return rows, b"".join(payloads)


def unpack_records(rows: list[list[Any]], body: bytes) -> list[tuple[int, MessageRecord]]:
    """Numbers and messages. Raises ValueError where the payloads do not fill the body."""
    numbered: list[tuple[int, MessageRecord]] = []
    start = 0
    for number, producer, seq, key, headers, published_at, size in rows:
        end = start + size
        numbered.append((number, MessageRecord(producer, seq, key, body[start:end], headers, published_at)))
        start = end
    if start != len(body):
        raise ValueError(f"payloads of {start} bytes in a body of {len(body)}")
    return numbered
