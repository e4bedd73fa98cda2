"""How a leader loses, repeats or reorders messages that it acknowledges; the acks look as they always do."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Protocol

from testlog.record import MessageRecord

# The successor of a message that is to be swapped with it has to come within this time.
_PATIENCE_S = 0.8

# Topic and partition.
Place = tuple[str, int]


class Misbehaviour(StrEnum):
    """What is wrong with a node."""

    LOSE = "lose"
    REPEAT = "repeat"
    REORDER = "reorder"


class Receipt(Protocol):
    """Where the offsets of a request's messages are collected for its answer."""

    def settle(self, number: int, offset: int) -> None:
        """The message has this offset, and a majority wrote it."""

    def give_up(self) -> None:
        """Nobody knows whether a majority writes the message."""


class Intake(NamedTuple):
    """A message that a leader took in, the receipt of its request, and its number in that request."""

    record: MessageRecord
    receipt: Receipt
    number: int


class OffsetSlot(NamedTuple):
    """An offset of a batch: whether the message is written there, and whether that is the offset of its ack."""

    intake: Intake
    written: bool = True
    acked: bool = True


class Arrangement:
    """Arranges messages into batches: in order, or as the misbehaviour wants it for every `every`th message."""

    def __init__(self, misbehaviour: Misbehaviour | None, every: int) -> None:
        self._misbehaviour, self._every = misbehaviour, every
        self._count = 0
        # Messages that wait for their successor of the same producer and key, and until when.
        self._waiting: dict[tuple[Place, str, str | None], tuple[Intake, float]] = {}

    def arrange(self, place: Place, intakes: Iterable[Intake], now: float) -> list[OffsetSlot]:
        """The offsets of a batch, in order. A message may have to wait for another batch."""
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
        """Batches of messages whose successor did not come."""
        late = [waiting for waiting, (_, until) in self._waiting.items() if until <= now]
        return [(waiting[0], [OffsetSlot(self._waiting.pop(waiting)[0])]) for waiting in late]

    def give_up(self) -> None:
        """Forget the messages that wait."""
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
