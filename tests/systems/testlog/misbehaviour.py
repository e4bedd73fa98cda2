"""Makes a leader lose, repeat or reorder messages that it acknowledges. The acks look as usual."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Protocol

from testlog.record import MessageRecord

# A message that is to be swapped waits this long for its successor.
_PATIENCE_S = 0.8

# (topic, partition)
Place = tuple[str, int]


class Misbehaviour(StrEnum):
    """A deliberate defect of a node."""

    LOSE = "lose"
    REPEAT = "repeat"
    REORDER = "reorder"


class Receipt(Protocol):
    """Collects the offsets of a request's messages for the answer."""

    def settle(self, number: int, offset: int) -> None:
        """Note the offset of a message that a majority has written."""

    def give_up(self) -> None:
        """Note that it is not known whether a majority writes the messages."""


class Intake(NamedTuple):
    """A message that a leader took in, with the receipt of its request and its number in the request."""

    record: MessageRecord
    receipt: Receipt
    number: int


class OffsetSlot(NamedTuple):
    """An offset of a batch. `written`: the message is written there. `acked`: its ack names this offset."""

    intake: Intake
    written: bool = True
    acked: bool = True


class Arrangement:
    """Arranges messages into batches in order. The misbehaviour changes every `every`th message."""

    def __init__(self, misbehaviour: Misbehaviour | None, every: int) -> None:
        self._misbehaviour, self._every = misbehaviour, every
        self._count = 0
        # Messages that wait for the next message of the same producer and key, each with the time when its wait ends.
        self._waiting: dict[tuple[Place, str, str | None], tuple[Intake, float]] = {}

    def arrange(self, place: Place, intakes: Iterable[Intake], now: float) -> list[OffsetSlot]:
        """Return the offsets of a batch, in order. A message may have to wait for a later batch."""
        slots: list[OffsetSlot] = []
        for intake in intakes:
            self._count += 1
            chosen = self._count % self._every == 0
            if self._misbehaviour is Misbehaviour.REORDER:
                slots += self._swap(place, intake, now, chosen=chosen)
            else:
                slots.append(OffsetSlot(intake, written=not (chosen and self._misbehaviour is Misbehaviour.LOSE)))
                if chosen and self._misbehaviour is Misbehaviour.REPEAT:
                    slots.append(OffsetSlot(intake, acked=False))
        return slots

    def overdue(self, now: float) -> list[tuple[Place, list[OffsetSlot]]]:
        """Return batches with the messages whose successor did not come in time."""
        late = [waiting for waiting, (_, until) in self._waiting.items() if until <= now]
        return [(waiting[0], [OffsetSlot(self._waiting.pop(waiting)[0])]) for waiting in late]

    def give_up(self) -> None:
        """Give up the messages that wait for a successor."""
        for intake, _ in self._waiting.values():
            intake.receipt.give_up()
        self._waiting.clear()

    def _swap(self, place: Place, intake: Intake, now: float, *, chosen: bool) -> list[OffsetSlot]:
        pair = (place, intake.record.producer, intake.record.key)
        if pair in self._waiting:
            earlier, _ = self._waiting.pop(pair)
            return [OffsetSlot(intake), OffsetSlot(earlier)]
        if chosen:
            self._waiting[pair] = (intake, now + _PATIENCE_S)
            return []
        return [OffsetSlot(intake)]
