"""Publishes messages without waiting for their acks."""

from __future__ import annotations

import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from testlog.client.cluster import LogCluster
from testlog.client.connection import LogConnection, UnavailableError
from testlog.record import MessageRecord, pack_records
from testlog.wire import Content

# Messages that are sent within this time go out together.
_LINGER_S = 0.005
_RETRY_S = 0.05
_REQUEST_BYTES = 1024 * 1024


class PublishOutcome(StrEnum):
    """The result for a message: written by a majority, certainly not written, or not known."""

    ACKED = "acked"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Settlement(NamedTuple):
    """The client's result for one message."""

    outcome: PublishOutcome
    partition: int
    offset: int | None = None
    error: str | None = None


class _Message(NamedTuple):
    record: MessageRecord
    partition: int
    settle: Callable[[Settlement], None]
    queued_at: float


class LogProducer:
    """One producer. Every message is settled once, on the producer's own thread.

    A message is sent again only if a node refused it because it does not lead; then it was certainly not written. If a
    connection breaks, every sent message without an answer is unknown, and the producer goes on with the next messages.
    Messages of a key go to one partition in the order of their `send` calls.
    """

    def __init__(self, cluster: LogCluster, topic: str, name: str, *, queue_timeout_s: float = 30.0) -> None:
        """A message fails if no leader accepts it within `queue_timeout_s` seconds. Raises as `ask_leader`."""
        self._cluster, self._topic, self._name = cluster, topic, name
        self._queue_timeout_s = queue_timeout_s
        self._partitions = len(cluster.ask_leader({"type": "log_ends", "topic": topic})["ends"])
        self._queue: deque[_Message] = deque()
        self._unanswered: dict[int, list[_Message]] = {}
        # {number of the request: messages that a node refused because it does not lead}
        self._refused: dict[int, list[_Message]] = {}
        self._requests = 0
        self._sent_at = 0.0
        self._connected = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"producer {name}", daemon=True)
        self._thread.start()

    def send(
        self,
        seq: int,
        key: str | None,
        payload: bytes,
        settle: Callable[[Settlement], None],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Publish without waiting. `settle` must be quick."""
        partition = (seq if key is None else zlib.crc32(key.encode())) % self._partitions
        record = MessageRecord(self._name, seq, key, payload, dict(headers or {}), time.time_ns() // 1000)
        self._queue.append(_Message(record, partition, settle, time.monotonic()))

    @property
    def connected(self) -> bool:
        """Whether there is a connection to a node that led when the connection was made."""
        return self._connected

    def close(self) -> None:
        """Settle all messages that are open: a sent message is unknown, an unsent one has failed."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                connection = self._cluster.connect_to_leader(self._name)
            except UnavailableError as error:
                self._fail_queued(str(error), self._queue_timeout_s)
                self._closing.wait(_RETRY_S)
                continue
            self._connected = True
            try:
                self._publish(connection)
            except UnavailableError as error:
                self._settle_unanswered(str(error))
            finally:
                self._connected = False
                connection.close()
            self._queue_refused()
        self._settle_unanswered("closed before the answer")
        self._fail_queued("closed before it was sent", 0.0)

    def _publish(self, connection: LogConnection) -> None:
        """Send and settle messages until the node refuses one. Raises UnavailableError if the connection breaks."""
        while not self._closing.is_set():
            connection.receive(_LINGER_S)
            if not self._refused:
                if self._queue and time.monotonic() - self._sent_at >= _LINGER_S:
                    self._send_queued(connection)
            elif not self._unanswered:
                # On this connection the node has refused all messages after the first refused one, so the order holds.
                return

    def _send_queued(self, connection: LogConnection) -> None:
        self._sent_at = time.monotonic()
        batches: dict[int, list[_Message]] = {}
        size = 0
        while self._queue and size < _REQUEST_BYTES:
            message = self._queue.popleft()
            size += len(message.record.payload)
            batches.setdefault(message.partition, []).append(message)
        first = self._requests + 1
        for messages in batches.values():
            self._requests += 1
            self._unanswered[self._requests] = messages
        for number, (partition, messages) in enumerate(batches.items(), first):
            rows, payloads = pack_records(enumerate(message.record for message in messages))
            connection.send(
                {"type": "produce", "topic": self._topic, "partition": partition, "records": rows},
                payloads,
                partial(self._answered, number),
            )

    def _answered(self, number: int, content: Content) -> None:
        header = content.header
        messages = self._unanswered.pop(number)
        match header.get("error"):
            case None:
                for message, offset in zip(messages, header["offsets"], strict=True):
                    message.settle(Settlement(PublishOutcome.ACKED, message.partition, offset))
            case "not_leader":
                self._refused[number] = messages
            case "no_topic":
                for message in messages:
                    message.settle(Settlement(PublishOutcome.FAILED, message.partition, error="no_topic"))
            case error:
                for message in messages:
                    message.settle(Settlement(PublishOutcome.UNKNOWN, message.partition, error=error))

    def _queue_refused(self) -> None:
        refused = [message for _, messages in sorted(self._refused.items()) for message in messages]
        self._refused.clear()
        self._queue.extendleft(reversed(refused))

    def _settle_unanswered(self, error: str) -> None:
        unanswered, self._unanswered = self._unanswered, {}
        for messages in unanswered.values():
            for message in messages:
                message.settle(Settlement(PublishOutcome.UNKNOWN, message.partition, error=error))

    def _fail_queued(self, error: str, older_than_s: float) -> None:
        until = time.monotonic() - older_than_s
        while self._queue and self._queue[0].queued_at <= until:
            message = self._queue.popleft()
            message.settle(Settlement(PublishOutcome.FAILED, message.partition, error=error))
