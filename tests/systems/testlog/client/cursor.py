"""Reads partitions, each from its own offset on, from the node that leads."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from testlog.client.cluster import LogCluster
from testlog.client.connection import AnswerCallback, LogConnection, RequestError, UnavailableError
from testlog.record import MessageRecord, unpack_records
from testlog.wire import Content, Header

# How long the leader waits for messages before it answers without messages.
_WAIT_S = 0.5
_MOST_BYTES = 262_144
_RETRY_S = 0.05


class Delivery(NamedTuple):
    """A message and its position."""

    partition: int
    offset: int
    record: MessageRecord


class Cursor:
    """Reads partitions and keeps the next offset of each. It delivers each message once."""

    def __init__(self, cluster: LogCluster, topic: str, offsets: Mapping[int, int]) -> None:
        self._cluster, self._topic = cluster, topic
        # The next offset to read by partition. Control records before it are counted as read.
        self.offsets = dict(offsets)
        # The exclusive end of each partition's log in the last answer; -1 before the first answer.
        self.ends = dict.fromkeys(offsets, -1)
        self._connection: LogConnection | None = None
        self._asked: set[int] = set()
        self._deliveries: list[Delivery] = []
        self._leads = True
        self._refusal: RequestError | None = None

    def poll(self, timeout_s: float) -> list[Delivery]:
        """Return the messages that come within `timeout_s` seconds. Raises RequestError if the topic does not exist."""
        until = time.monotonic() + timeout_s
        while True:
            try:
                self._poll_once(until)
            except UnavailableError:
                self.close()
                time.sleep(max(0.0, min(_RETRY_S, until - time.monotonic())))
            if self._deliveries or time.monotonic() >= until:
                deliveries, self._deliveries = self._deliveries, []
                return deliveries

    def send(self, header: Header, answered: AnswerCallback) -> None:
        """Send another request about the topic, if there is a connection. A later `poll` calls `answered`."""
        if self._connection is not None:
            try:
                self._connection.send({"topic": self._topic, **header}, b"", answered)
            except UnavailableError:
                self.close()

    def close(self) -> None:
        """Close the connection. The next `poll` opens another one."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._leads = None, True
        self._asked.clear()

    def _poll_once(self, until: float) -> None:
        if self._connection is None:
            self._connection = self._cluster.connect_to_leader()
        for partition in self.offsets.keys() - self._asked:
            self._fetch(self._connection, partition)
        self._connection.receive(until - time.monotonic())
        if self._refusal is not None:
            raise self._refusal
        if not self._leads:
            raise UnavailableError("the node leads no more")

    def _fetch(self, connection: LogConnection, partition: int) -> None:
        header = {
            "type": "fetch",
            "topic": self._topic,
            "partition": partition,
            "offset": self.offsets[partition],
            "wait_ms": int(_WAIT_S * 1000),
            "most_bytes": _MOST_BYTES,
        }
        connection.send(header, b"", lambda content: self._fetched(partition, content), wait_s=_WAIT_S)
        self._asked.add(partition)

    def _fetched(self, partition: int, content: Content) -> None:
        header, body = content
        self._asked.discard(partition)
        if header.get("error") == "not_leader":
            self._leads = False
        elif "error" in header:
            self._refusal = RequestError(header)
        else:
            self._deliveries += [
                Delivery(partition, offset, record) for offset, record in unpack_records(header["records"], body)
            ]
            self.offsets[partition], self.ends[partition] = header["next"], header["end"]
