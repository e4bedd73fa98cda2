"""The deliveries to one consumer, until it is known whether the cluster has their acks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerproof import clock
from brokerproof.systems.clients import Position, Received

# A delivery waits this long for the confirmation of its ack before it is written without one.
_CONFIRM_S = 20.0


@dataclass(frozen=True, kw_only=True)
class ConfirmedAcks:
    """A cluster's answer at one moment: for each partition, the position before which everything is acknowledged."""

    cluster: str = ""
    positions: Mapping[int, Position] = field(default_factory=dict)
    at: int = 0

    def cover(self, row: Mapping[str, Any]) -> bool:
        """Whether the cluster has the ack of a delivery."""
        if row["cluster"] != self.cluster or row["received_at"] > self.at:
            return False
        end = self.positions.get(row["partition"])
        return end is not None and (row["ledger_id"], row["entry_id"]) < end[:2]


class Deliveries:
    """Three threads use it: one adds deliveries, one confirms acks, and one takes the rows to write."""

    def __init__(self, *, await_confirmation: bool, time: clock.Clock = clock.SYSTEM_CLOCK) -> None:
        """`await_confirmation` is true if the cluster says which acks it has."""
        self._time = time
        self.count = 0
        self._await_confirmation = await_confirmation
        self._waiting: deque[dict[str, Any]] = deque()
        # It is replaced as a whole, because another thread reads it.
        self._confirmed = ConfirmedAcks()

    def add(self, received: Received, *, cluster: str, incarnation: int) -> None:
        """Note a delivery, which is about to be acknowledged."""
        segment, offset, index = received.position or (None, None, None)
        self._waiting.append(
            {
                "cluster": cluster,
                "incarnation": incarnation,
                "arrival": self.count,
                "received_at": self._time.now_us(),
                "producer": received.producer,
                "seq": received.seq,
                "key": received.key,
                "payload_hash": received.payload_hash,
                "partition": received.partition,
                "ledger_id": segment,
                "entry_id": offset,
                "batch_index": index,
                "redelivery_count": received.redelivery_count,
                "published_at": received.published_at,
                "replicated_from": received.replicated_from,
                "acknowledged_at": None,
            }
        )
        self.count += 1

    def confirm(self, confirmed: ConfirmedAcks) -> None:
        """Note the acks that a cluster has, in the place of its earlier answer."""
        self._confirmed = confirmed

    def take(self, *, last: bool = False) -> list[dict[str, Any]]:
        """Rows of deliveries whose ack is confirmed, or which have waited long enough for that, in order of arrival.

        With `last`, all that are left.
        """
        rows = []
        confirmed = self._confirmed
        waited_since = self._time.now_us() - int(_CONFIRM_S * 1e6)
        while self._waiting:
            row = self._waiting[0]
            if confirmed.cover(row):
                row["acknowledged_at"] = confirmed.at
            elif self._await_confirmation and not last and row["received_at"] > waited_since:
                break
            rows.append(self._waiting.popleft())
        return rows
