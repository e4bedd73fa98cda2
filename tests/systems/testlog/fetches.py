"""Requests for messages. A leader answers them when it has messages for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from testlog.record import MessageRecord, pack_records, unpack_records
from testlog.session import Request
from testlog.topics import LogPartition
from testlog.wire import unpack


class _Fetch(NamedTuple):
    request: Request
    partition: LogPartition
    offset: int
    until: float


class Fetches:
    """The requests that wait for messages."""

    def __init__(self, content_at: Callable[[int], bytes]) -> None:
        """`content_at` returns the content of an entry of the node's log by index."""
        self._content_at = content_at
        self._waiting: list[_Fetch] = []

    def take(self, request: Request, partition: LogPartition) -> None:
        """Answer at once if there are messages, otherwise after the request's `wait_ms` at the latest."""
        until = time.monotonic() + request.header["wait_ms"] / 1000
        self._waiting.append(_Fetch(request, partition, request.header["offset"], until))
        self.answer()

    def answer(self) -> None:
        """Answer the requests for which there are messages, and the requests whose time is over."""
        now = time.monotonic()
        fetches, self._waiting = self._waiting, []
        for fetch in fetches:
            if fetch.until <= now or fetch.partition.messages_from(fetch.offset):
                self._answer(fetch)
            else:
                self._waiting.append(fetch)

    def give_up(self) -> list[Request]:
        """Forget the requests that wait, and return them."""
        fetches, self._waiting = self._waiting, []
        return [fetch.request for fetch in fetches]

    def _answer(self, fetch: _Fetch) -> None:
        records: list[tuple[int, MessageRecord]] = []
        size, next_offset = 0, fetch.offset
        for base, index, following in fetch.partition.entries_from(fetch.offset):
            header, body = unpack(self._content_at(index))
            records += [
                (base + number, record)
                for number, record in unpack_records(header["records"], body)
                if base + number >= fetch.offset
            ]
            next_offset = max(next_offset, following)
            size += len(body)
            if size >= fetch.request.header["most_bytes"]:
                break
        else:
            # All messages were read. Control records may follow the last one.
            next_offset = max(next_offset, fetch.partition.end)
        rows, payloads = pack_records(records)
        fetch.request.answer({"records": rows, "next": next_offset, "end": fetch.partition.end}, payloads)
