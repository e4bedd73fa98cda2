"""The protocols of a system's clients.

Clients publish, consume and read back single messages, and report the position of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import xxhash

from brokerproof.experiment.workload import Subscription
from brokerproof.run.tables import AttemptOutcome


class Position(NamedTuple):
    """Where a message is in a partition's log. Positions can be compared only within one (cluster, topic, partition).

    A log is a sequence of segments. If a system does not divide its logs, every position has segment 0. Offsets inside
    a segment may have gaps. Messages that share an offset differ in `index` (column `batch_index` of the tables).
    """

    segment: int
    offset: int
    # This field hides `tuple.index`, which a position does not need.
    index: int | None = None  # type: ignore[assignment]

    def reaches(self, end: Position) -> bool:
        """Return whether this position is `end` or comes after it. Indexes within a batch are not compared."""
        return self[:2] >= end[:2]


class Settled(NamedTuple):
    """The result of one attempt to publish, as the client reports it."""

    outcome: AttemptOutcome
    error: str | None = None
    # -1 for a topic without partitions.
    partition: int | None = None
    # None if the system gives no position, as for a deduplicated retry.
    position: Position | None = None


class Received(NamedTuple):
    """One message as a client received it."""

    producer: str | None
    seq: int | None
    key: str | None
    payload_hash: int
    partition: int
    # None if the system gives no position.
    position: Position | None
    redelivery_count: int
    # Microseconds since the epoch.
    published_at: int
    # The cluster that the message was published to; None if the message was received in that cluster.
    replicated_from: str | None


# The columns of a position in the tables.
_PLACE = ("segment", "offset", "batch_index")
_NO_POSITION = (None, None, None)


def list_columns(messages: Sequence[Received]) -> dict[str, Sequence[Any]]:
    """Return {column: values} of one or more messages, with the columns of a position instead of `position`."""
    columns: dict[str, Sequence[Any]] = dict(zip(Received._fields, zip(*messages, strict=True), strict=True))
    places = zip(*(position or _NO_POSITION for position in columns.pop("position")), strict=True)
    return columns | dict(zip(_PLACE, places, strict=True))


class Producer(Protocol):
    """Publishes messages. Each attempt to publish gets at most one result."""

    def send(self, seq: int, key: str, payload: bytes, settle: Callable[[Settled], None]) -> None:
        """Begin to publish a message. The callback `settle` gets the result later, usually on a client's thread."""

    def close(self) -> None:
        """Close the producer, and give up each attempt that has no result yet."""


class Consumer(Protocol):
    """Receives the messages of a subscription. A message may be any object that `Clients.describe` knows."""

    def receive(self, timeout_s: float) -> Any | None:
        """Return the next message; None if no message came within `timeout_s` seconds."""

    def acknowledge(self, message: Any) -> None:
        """Acknowledge a message without waiting. The cluster's answer is not reported."""

    def close(self) -> None:
        """Leave the subscription."""


class Reader(Protocol):
    """Reads a partition's log, from its beginning or from a position.

    A message may be any object that `Clients.describe` knows.
    """

    def read(self, timeout_s: float) -> Any | None:
        """Return the next message; None if no message came within `timeout_s` seconds."""

    def at_end(self) -> bool:
        """Return whether the reader has read all messages that the log holds now."""

    def next_position(self) -> Position | None:
        """Return the position after the last message that was read; None before the first message.

        If log entries that are not messages follow the message, the position after them may be returned instead.
        """

    def close(self) -> None:
        """Close the reader."""


class Clients(Protocol):
    """Connections to one cluster."""

    def producer(self, name: str) -> Producer:
        """Return a new producer on the workload's topic."""

    def consumer(self, subscription: Subscription, name: str) -> Consumer:
        """Return a new consumer on the workload's topic.

        If the subscription does not exist, it is created and starts at the topic's first message.
        """

    def reader(self, partition: int, start: Position | None = None) -> Reader:
        """Return a new reader of one partition, from its first message or from `start` on."""

    def describe(self, messages: Sequence[Any]) -> Mapping[str, Any]:
        """Return {column: values} of one or more messages of one consumer or reader, in the order of their arrival.

        The columns are those of `list_columns`, which makes them from `Received`. A message costs less time if a system
        makes each column for many messages at once. `join_columns` says what a column may be.
        """

    def close(self) -> None:
        """Close the connections."""


def make_payload(producer: str, seq: int, size: int) -> bytes:
    """Return `size` bytes that are unique to the message: a digest of `producer` and `seq`, repeated to this size."""
    seed = xxhash.xxh3_128_digest(f"{producer}/{seq}".encode())
    return (seed * (size // len(seed) + 1))[:size]


def hash_payload(content: bytes) -> int:
    """Return a hash of a payload as a signed 64-bit number."""
    return xxhash.xxh3_64_intdigest(content) - 2**63
