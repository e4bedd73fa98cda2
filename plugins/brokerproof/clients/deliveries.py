"""The deliveries to one consumer, and the acks of these deliveries that the cluster has confirmed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from brokerproof import clock
from brokerproof.run.tables import SCHEMAS, join_columns, make_batch
from brokerproof.systems.clients import Position

# Microseconds that a row waits for the confirmation of its ack. After this time it is complete without confirmation.
_CONFIRM_US = 20_000_000
# The consumer makes rows of this many messages at once. Until then, they keep their payloads in memory.
_MOST_MESSAGES = 1000
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, kw_only=True)
class ConfirmedAcks:
    """A cluster's answer at the time `at`: for each partition, the position before which everything is acknowledged."""

    cluster: str
    positions: Mapping[int, Position] = field(default_factory=dict)
    at: int

    def to_plain(self) -> dict[str, Any]:
        """Return the answer as lists, dicts, texts and numbers, for JSON."""
        positions = [[partition, *position[:2]] for partition, position in self.positions.items()]
        return {"cluster": self.cluster, "at": self.at, "positions": positions}

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> Self:
        """Return the answer that `to_plain` wrote. Raises ValueError, LookupError or TypeError for something else."""
        positions = {partition: Position(segment, offset) for partition, segment, offset in content["positions"]}
        numbers = [content["at"], *(number for at, place in positions.items() for number in (at, *place[:2]))]
        if not isinstance(content["cluster"], str) or not all(map(_is_number, numbers)):
            raise ValueError("an answer about acks has something else than its numbers and its cluster")
        return cls(cluster=content["cluster"], at=content["at"], positions=positions)


def _is_number(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


class Deliveries:
    """The deliveries to one consumer, and the cluster's answers about acks, until they are written to the record.

    One thread adds deliveries, one adds answers, and one takes both.
    """

    def __init__(self, constant: Mapping[str, Any], time: clock.Clock = clock.SYSTEM_CLOCK) -> None:
        """`constant` has the values of the columns that are equal in all rows."""
        self._constant, self._time = constant, time
        self.count = 0
        self._describe: Callable[[Sequence[Any]], Mapping[str, Any]] = lambda _: {}
        self._cluster, self._incarnation = "", 0
        # Messages without columns, and the time of each.
        self._messages: list[Any] = []
        self._times: list[int] = []
        self._arrived = 0
        self._rows: list[pa.RecordBatch] = []
        self._acks: deque[ConfirmedAcks] = deque()
        self._lock = threading.Lock()

    def begin(self, describe: Callable[[Sequence[Any]], Mapping[str, Any]], *, cluster: str, incarnation: int) -> None:
        """Begin an incarnation. `describe` returns the columns of its messages, as `Clients.describe` does."""
        self._make_rows()
        with self._lock:
            self._describe, self._cluster, self._incarnation = describe, cluster, incarnation

    def add(self, message: Any) -> None:
        """Note a delivery that is about to be acknowledged."""
        # `_make_rows` counts the messages on another thread and takes the time of each, so the time comes first.
        self._times.append(self._time.now_us())
        self._messages.append(message)
        self.count += 1
        if len(self._messages) >= _MOST_MESSAGES:
            self._make_rows()

    def add_columns(self, columns: Mapping[str, Any], count: int) -> None:
        """Note `count` deliveries at once, with columns as `Clients.describe` returns them."""
        self._make_rows()
        with self._lock:
            self._append(columns, [self._time.now_us()] * count)
            self.count += count

    def confirm(self, confirmed: ConfirmedAcks) -> None:
        """Note a cluster's answer about the acks of this consumer's subscription."""
        self._acks.append(confirmed)

    def take(self) -> tuple[pa.RecordBatch, list[ConfirmedAcks]]:
        """Return the deliveries and the cluster's answers that came since the last call, both in order of arrival.

        The deliveries are rows of the table `deliveries`. `acknowledged_at` is empty in each of them.
        """
        # Acks are taken first, because the deliveries that they confirm were added before them.
        acks = [self._acks.popleft() for _ in range(len(self._acks))]
        self._make_rows()
        with self._lock:
            batches, self._rows = self._rows, []
        return pa.concat_batches(batches) if batches else make_batch("deliveries", [], {}), acks

    def _make_rows(self) -> None:
        """Make rows of the messages that came since the last call, and drop the messages.

        Any thread may call it. An error of `describe` is raised, and these messages have no rows then.
        """
        with self._lock:
            count = len(self._messages)
            if not count:
                return
            messages, times = self._messages[:count], self._times[:count]
            del self._messages[:count], self._times[:count]
            self._append(self._describe(messages), times)

    def _append(self, columns: Mapping[str, Any], times: Sequence[int]) -> None:
        arrivals = np.arange(self._arrived, self._arrived + len(times))
        own = {**columns, "arrival": arrivals, "received_at": np.array(times)}
        constant = {"cluster": self._cluster, "incarnation": self._incarnation, "acknowledged_at": None}
        self._rows.append(join_columns("deliveries", own, {**self._constant, **constant}))
        self._arrived += len(times)


class AckedDeliveries:
    """Gives each delivery in a consumer's record the time at which the cluster confirmed its ack."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._newest = 0

    def add(self, rows: pa.RecordBatch, acks: Sequence[ConfirmedAcks]) -> Iterator[pa.RecordBatch]:
        """Take the record's next deliveries and the cluster's next answers. Yield the batches that are complete.

        The order is kept. A batch is complete once its acks are confirmed or it has waited `_CONFIRM_US` microseconds.
        """
        if rows.num_rows:
            self._waiting.append(_Waiting(rows))
            self._newest = max(self._newest, self._waiting[-1].newest_us)
        for answer in acks:
            self._newest = max(self._newest, answer.at)
            for waiting in self._waiting:
                waiting.confirm(answer)
        while self._waiting and self._waiting[0].is_complete(self._newest):
            yield self._waiting.popleft().complete()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches that still wait for acks, because no more answers will come."""
        while self._waiting:
            yield self._waiting.popleft().complete()


class _Waiting:
    """A batch of rows, some of whose acks may not be confirmed yet."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self._clusters = rows.column("cluster")
        numbers = {name: _to_numbers(rows.column(name)) for name in ("partition", "segment", "offset")}
        self._partitions, self._segments, self._offsets = numbers.values()
        self._received_us = _to_numbers(rows.column("received_at").cast(pa.int64()))
        self._acked_us = np.full(rows.num_rows, _NEVER, dtype=np.int64)
        self._has_position = ~np.asarray(pc.is_null(rows.column("segment")))
        self.newest_us = int(self._received_us.max())

    def confirm(self, answer: ConfirmedAcks) -> None:
        """Set the ack time of each row that the cluster's answer covers and no earlier answer covered."""
        here = np.asarray(pc.fill_null(pc.equal(self._clusters, answer.cluster), fill_value=False))
        open_ = here & self._has_position & (self._acked_us == _NEVER) & (self._received_us <= answer.at)
        if not open_.any():
            return
        partitions, segments, offsets = _to_columns(answer)
        # The answer's place for each row, which is the right one only if the partition is the same.
        place = np.searchsorted(partitions[:-1], self._partitions)
        at_segment = segments[place]
        before = (self._segments < at_segment) | ((self._segments == at_segment) & (self._offsets < offsets[place]))
        self._acked_us[open_ & (partitions[place] == self._partitions) & before] = answer.at

    def is_complete(self, newest_us: int) -> bool:
        """Return whether all acks of the batch are confirmed, or it has waited more than `_CONFIRM_US` microseconds.

        `newest_us` is the newest time in the record so far, which counts as the present.
        """
        return bool((self._acked_us != _NEVER).all()) or newest_us - self.newest_us > _CONFIRM_US

    def complete(self) -> pa.RecordBatch:
        schema = SCHEMAS["deliveries"]
        place = schema.get_field_index("acknowledged_at")
        acked = pa.array(self._acked_us, mask=self._acked_us == _NEVER).cast(schema.field(place).type)
        return self._rows.set_column(place, schema.field(place), acked)


def _to_columns(answer: ConfirmedAcks) -> Any:
    """Return an answer's partitions in ascending order, their segments and their offsets, and one more of each.

    The last ones are of no partition, so that every row has a place.
    """
    places = sorted((partition, *position[:2]) for partition, position in answer.positions.items())
    return np.array([*places, (_NEVER, 0, 0)], dtype=np.int64).T


def _to_numbers(column: pa.Array) -> Any:
    return pc.fill_null(column.cast(pa.int64()), fill_value=-1).to_numpy(zero_copy_only=False)
