"""A client's gauge: what the client holds now, in memory that its Spark task reads while the client is frozen.

A fault that needs a client in the middle of its work freezes the client, reads the gauge, and lets the client go on if
it has nothing in hand. Without a gauge, such a fault would meet such a client by luck.
"""

from __future__ import annotations

import mmap
import os
from typing import NamedTuple

from brokerproof.experiment.fault import ClientMoment

_SIZE = mmap.PAGESIZE


class Holding(NamedTuple):
    """The messages that a client has in hand.

    `unacknowledged` were sent or received, and are not acknowledged. `in_batch` is the rest of a batch (messages that
    the client sends or received together) of which the client has sent or acknowledged another part; 0 between batches.
    """

    unacknowledged: int
    in_batch: int

    def fits(self, moment: ClientMoment) -> bool:
        return bool(self.in_batch if moment is ClientMoment.IN_BATCH else self.unacknowledged)

    def describe(self) -> str:
        """Return it in words, such as "7 unacknowledged messages, with 3 of a batch to do"."""
        return f"{self.unacknowledged:,} unacknowledged messages, with {self.in_batch:,} of a batch to do"


class Gauge:
    """The memory that a client and its Spark task share. The client writes, and the task reads."""

    def __init__(self, descriptor: int | None = None) -> None:
        """`descriptor` is that of the task's gauge, which the client inherits; None makes a new one."""
        self.descriptor = os.memfd_create("brokerproof-gauge") if descriptor is None else descriptor
        if descriptor is None:
            os.ftruncate(self.descriptor, _SIZE)
        self._numbers = memoryview(mmap.mmap(self.descriptor, _SIZE)).cast("q")

    def note_unacknowledged(self, count: int) -> None:
        self._numbers[0] = count

    def note_in_batch(self, count: int) -> None:
        self._numbers[1] = count

    def read(self) -> Holding:
        return Holding(self._numbers[0], self._numbers[1])
