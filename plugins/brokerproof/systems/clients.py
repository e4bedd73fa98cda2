"""What the jobs ask of a system's client: publish, consume, read back; one message at a time, positions and all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import xxhash

from brokerproof.experiment.workload import Subscription
from brokerproof.run.tables import AttemptOutcome


class Position(NamedTuple):
    """Where a message is stored; compares only inside one (cluster, topic, partition).

    A log is a row of segments (0 where it has only one), a segment a row of offsets, which may have gaps; several
    messages that share an offset have an index. The tables call them `ledger_id`, `entry_id` and `batch_index`.
    """

    segment: int
    offset: int
    # It hides tuple.index, which nobody needs of a position.
    index: int | None = None  # type: ignore[assignment]

    def reaches(self, end: Position) -> bool:
        """Whether nothing is left before `end`."""
        return self[:2] >= end[:2]


class Settled(NamedTuple):
    """The client's result of one attempt."""

    outcome: AttemptOutcome
    error: str | None = None
    # -1 for a topic without partitions.
    partition: int | None = None
    # None where the system does not say, as for a deduplicated retry.
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """One message as a client got it. Times in microseconds."""

    producer: str | None
    seq: int | None
    key: str | None
    payload_hash: int
    partition: int
    # None where the system does not say.
    position: Position | None
    redelivery_count: int
    published_at: int
    replicated_from: str | None
    # The client's own object, for `acknowledge`.
    handle: Any


class Producer(Protocol):
    """Publishes; every attempt is settled exactly once, or never."""

    def send(self, seq: int, key: str, payload: bytes, settle: Callable[[Settled], None]) -> None:
        """Publish without waiting. `settle` is called on the client's own thread."""

    def close(self) -> None:
        """Give up whatever is not settled."""


class Consumer(Protocol):
    """Receives from a subscription."""

    def receive(self, timeout_s: float) -> Received | None:
        """The next message, None where none came in time."""

    def acknowledge(self, received: Received) -> None:
        """Acknowledge without waiting; nothing confirms it here."""

    def close(self) -> None:
        """Leave the subscription."""


class Reader(Protocol):
    """Reads a partition's log from its beginning."""

    def read(self, timeout_s: float) -> Received | None:
        """The next message, None where none came in time."""

    def at_end(self) -> bool:
        """Whether the log has nothing more."""

    def next_position(self) -> Position | None:
        """The position before which everything was read, None before anything is known.

        It may lie behind entries that are no messages, so it can reach a log's end although the last message does
        not.
        """

    def close(self) -> None:
        """End."""


class Clients(Protocol):
    """Connections to one cluster."""

    def producer(self, name: str) -> Producer:
        """A producer on the workload's topic."""

    def consumer(self, subscription: Subscription, name: str) -> Consumer:
        """A consumer on the workload's topic, from its beginning. The subscription is made if it is not there."""

    def reader(self, partition: int, start: Position | None = None) -> Reader:
        """A fresh reader of one partition, from the earliest message or from `start` on."""

    def close(self) -> None:
        """Close the connections."""


def make_payload(producer: str, seq: int, size: int) -> bytes:
    """`size` bytes that no other message has: a digest of producer and seq, repeated, because that is cheap."""
    seed = xxhash.xxh3_128_digest(f"{producer}/{seq}".encode())
    return (seed * (size // len(seed) + 1))[:size]


def hash_payload(content: bytes) -> int:
    """64 bits over a payload, as a signed number."""
    return xxhash.xxh3_64_intdigest(content) - 2**63
