"""A limiter of bandwidth, at which connections take turns."""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol

from brokerproof.network.poller import Poller

# A sender gets its turn up to this many seconds before its segment leaves, and the time of leaving stays exact. So the
# poller wakes up once per 2 ms, not once per segment.
_AHEAD_S = 0.002


class Sender(Protocol):
    """A pipe, as a rate limiter sees it. It waits for its turns at the limiter."""

    def take_turn(self, most: int, now: float) -> bool:
        """Send the next segment, of at most `most` bytes. Returns whether more bytes wait for this limiter.

        `now` is in seconds of the monotonic clock.
        """


class RateLimiter:
    """Decides when each segment leaves, so that all segments together keep the bandwidth. Senders take turns."""

    def __init__(self, bandwidth_mbit: float, poller: Poller) -> None:
        self.bytes_per_s = bandwidth_mbit * 1_000_000 / 8
        # The most bytes that a sender may send in one turn: a packet at a low bandwidth, else the bytes of 2 ms.
        self._turn_bytes = int(min(65_536, max(1_500, self.bytes_per_s * _AHEAD_S)))
        self._poller = poller
        self._free_at = 0.0
        self._waiting: deque[Sender] = deque()
        self._wake_up_is_set = False

    def join(self, sender: Sender) -> None:
        self._waiting.append(sender)
        if not self._wake_up_is_set:
            self._serve()

    def leave(self, sender: Sender) -> None:
        if sender in self._waiting:
            self._waiting.remove(sender)

    def send(self, size: int, now: float) -> float:
        """Reserve the limiter for `size` bytes. Returns the time at which the last byte leaves (monotonic seconds)."""
        self._free_at = max(self._free_at, now) + size / self.bytes_per_s
        return self._free_at

    def _serve(self) -> None:
        self._wake_up_is_set = False
        now = time.monotonic()
        while self._waiting and self._free_at <= now + _AHEAD_S:
            sender = self._waiting.popleft()
            if sender.take_turn(self._turn_bytes, now):
                self._waiting.append(sender)
        if self._waiting:
            self._wake_up_is_set = True
            self._poller.call_at(self._free_at - _AHEAD_S, self._serve)
