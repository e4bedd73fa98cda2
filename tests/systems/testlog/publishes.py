"""Requests with messages to a leader, which writes the messages into the log and acknowledges them."""

from __future__ import annotations

import time
from collections.abc import Callable

from testlog.configuration import ServerConfiguration
from testlog.misbehaviour import Arrangement, Intake, OffsetSlot, Place
from testlog.record import pack_records, unpack_records
from testlog.replica import DecisionCallback
from testlog.session import Request
from testlog.topics import RECORDS
from testlog.wire import Header


class _Receipt:
    """Collects the offsets of a request's messages, and answers when all are known."""

    def __init__(self, request: Request, count: int) -> None:
        self._request = request
        self._offsets = [-1] * count
        self._missing = count

    def settle(self, number: int, offset: int) -> None:
        self._offsets[number] = offset
        self._missing -= 1
        if self._missing == 0:
            self._request.answer({"offsets": self._offsets})

    def give_up(self) -> None:
        """Answer, only once, that it is unknown whether the request's messages will be written."""
        if self._missing > 0:
            self._missing = -1
            self._request.refuse("unknown")


class Publishes:
    """The messages that one leader takes in."""

    def __init__(
        self, configuration: ServerConfiguration, propose: Callable[[Header, bytes, DecisionCallback], None]
    ) -> None:
        """`propose` appends an entry to the log."""
        self._arrangement = Arrangement(configuration.misbehaviour, configuration.misbehaviour_every)
        self._propose = propose
        self._taken_in: dict[Place, int] = {}

    def take(self, request: Request, place: Place) -> None:
        """Take in a request's messages. The request is answered when a majority has written all of them."""
        numbered = unpack_records(request.header["records"], request.body)
        if not numbered:
            raise ValueError("no records")
        receipt = _Receipt(request, len(numbered))
        self._taken_in[place] = self.taken_in(place) + len(numbered)
        intakes = [Intake(record, receipt, number) for number, record in numbered]
        self._write(place, self._arrangement.arrange(place, intakes, time.monotonic()))

    def taken_in(self, place: Place) -> int:
        """Return the number of a partition's messages that were taken in since the leadership began."""
        return self._taken_in.get(place, 0)

    def write_overdue(self) -> None:
        """Write the messages whose successor did not come in time."""
        for place, slots in self._arrangement.overdue(time.monotonic()):
            self._write(place, slots)

    def count_anew(self) -> None:
        """Set all counts to 0, because a leadership begins."""
        self._taken_in.clear()

    def give_up(self) -> None:
        """Give up the messages that are not written, because the leadership is over."""
        self._arrangement.give_up()

    def _write(self, place: Place, slots: list[OffsetSlot]) -> None:
        """Append a batch with the control record that follows it."""
        if not slots:
            return

        def decided(result: Header | None) -> None:
            for number, slot in enumerate(slots):
                if not slot.acked:
                    continue
                if result is None:
                    slot.intake.receipt.give_up()
                else:
                    slot.intake.receipt.settle(slot.intake.number, result["base"] + number)

        rows, payloads = pack_records((number, slot.intake.record) for number, slot in enumerate(slots) if slot.written)
        topic, partition = place
        header = {"kind": RECORDS, "topic": topic, "partition": partition, "span": len(slots) + 1, "records": rows}
        self._propose(header, payloads, decided)
