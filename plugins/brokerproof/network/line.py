"""A line of limited bandwidth that connections share in turns."""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol

from brokerproof.network.poller import Poller

# Departures are handed out so far ahead, each with its exact time: a wake-up per 2 ms and not one per segment.
_AHEAD_S = 0.002


class Sender(Protocol):
    """Somebody who waits for turns on a line."""

    def take_turn(self, most: int, now: float) -> bool:
        """Send the next segment, at most so many bytes, at a monotonic time. Returns whether more of it waits."""


class Line:
    """Sends one segment after the other at its rate; senders that wait take turns."""

    def __init__(self, bandwidth_mbit: float, poller: Poller) -> None:
        self.bytes_per_s = bandwidth_mbit * 1_000_000 / 8
        # What one sender may send before the next one's turn: a packet on slow lines, 2 ms worth of bytes on fast ones.
        self._turn_bytes = int(min(65_536, max(1_500, self.bytes_per_s * _AHEAD_S)))
        self._poller = poller
        self._free_at = 0.0
        self._waiting: deque[Sender] = deque()
        self._woken = False

    def join(self, sender: Sender) -> None:
        """Let a sender wait for its turns."""
        self._waiting.append(sender)
        if not self._woken:
            self._serve()

    def leave(self, sender: Sender) -> None:
        """Let a sender wait no longer."""
        if sender in self._waiting:
            self._waiting.remove(sender)

    def send(self, size: int, now: float) -> float:
        """Occupy the line with so many bytes; when the last of them is on its way (monotonic seconds)."""
        self._free_at = max(self._free_at, now) + size / self.bytes_per_s
        return self._free_at

    def _serve(self) -> None:
        self._woken = False
        now = time.monotonic()
        while self._waiting and self._free_at <= now + _AHEAD_S:
            sender = self._waiting.popleft()
            if sender.take_turn(self._turn_bytes, now):
                self._waiting.append(sender)
        if self._waiting:
            self._woken = True
            self._poller.call_at(self._free_at - _AHEAD_S, self._serve)
