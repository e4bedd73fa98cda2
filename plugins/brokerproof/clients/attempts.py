"""The attempts of one producer to publish: those without a result, and the rows of those with a result."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from brokerproof import clock
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.clients import Settled


class Attempts:
    """The attempts of one producer. Three threads use the object: sender, system's client, and record's writer."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(AttemptOutcome, 0)
        self._pending: dict[int, dict[str, Any]] = {}
        self._settled: deque[dict[str, Any]] = deque()
        self._lock = threading.Lock()

    @property
    def pending(self) -> int:
        """The number of attempts without a result."""
        return len(self._pending)

    def begin(self, seq: int, row: dict[str, Any]) -> None:
        """Note an attempt that is about to be sent; `row` has the columns that are known so far."""
        self._pending[seq] = row

    def settle(self, seq: int, settled: Settled) -> None:
        """Note the result of an attempt. A result that comes after `give_up` is ignored."""
        at = clock.now_us()
        with self._lock:
            row = self._pending.pop(seq, None)
            if row is not None:
                self._finish(row, settled, at)

    def give_up(self) -> None:
        """Give every attempt without a result the outcome `unknown`."""
        with self._lock:
            for seq in list(self._pending):
                unknown = Settled(AttemptOutcome.UNKNOWN, error="not settled in time")
                self._finish(self._pending.pop(seq), unknown, None)

    def skip(self, rows: Sequence[dict[str, Any]]) -> None:
        """Note as `not_sent` the messages that were due but never attempted; `rows` have the columns that are known."""
        with self._lock:
            for row in rows:
                self._finish(row | {"sent_at": None}, Settled(AttemptOutcome.NOT_SENT), None)

    def take(self) -> list[dict[str, Any]]:
        """Return the rows of the attempts that got a result since the last call."""
        return [self._settled.popleft() for _ in range(len(self._settled))]

    def _finish(self, row: dict[str, Any], settled: Settled, at: int | None) -> None:
        segment, offset, index = settled.position or (None, None, None)
        row |= {
            "settled_at": at,
            "outcome": settled.outcome.value,
            "error": settled.error,
            "partition": settled.partition,
            "segment": segment,
            "offset": offset,
            "batch_index": index,
        }
        self.counts[settled.outcome] += 1
        self._settled.append(row)
