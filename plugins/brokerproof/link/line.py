"""A line of limited bandwidth that connections share in turns."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from brokerproof.link.poller import Poller

if TYPE_CHECKING:
    from brokerproof.link.pipe import Pipe

# Departures are handed out so far ahead, each with its exact time: a wake-up per 2 ms and not one per segment.
_AHEAD_S = 0.002


class Line:
    """Sends one segment after the other at its rate; pipes that wait take turns."""

    def __init__(self, bandwidth_mbit: float, poller: Poller) -> None:
        self.bytes_per_s = bandwidth_mbit * 1_000_000 / 8
        # What one pipe may send before the next one's turn: a packet on slow lines, 2 ms worth of bytes on fast ones.
        self._turn_bytes = int(min(65_536, max(1_500, self.bytes_per_s * _AHEAD_S)))
        self._poller = poller
        self._free_at = 0.0
        self._waiting: deque[Pipe] = deque()
        self._woken = False

    def join(self, pipe: Pipe) -> None:
        """Let a pipe wait for its turns."""
        self._waiting.append(pipe)
        if not self._woken:
            self._serve()

    def leave(self, pipe: Pipe) -> None:
        """Let a pipe wait no longer."""
        if pipe in self._waiting:
            self._waiting.remove(pipe)

    def send(self, size: int, now: float) -> float:
        """Occupy the line with so many bytes; when the last of them is on its way (monotonic seconds)."""
        self._free_at = max(self._free_at, now) + size / self.bytes_per_s
        return self._free_at

    def _serve(self) -> None:
        self._woken = False
        now = time.monotonic()
        while self._waiting and self._free_at <= now + _AHEAD_S:
            pipe = self._waiting.popleft()
            segment, size = pipe.take(self._turn_bytes)
            # A pipe waits for its narrowest line only; the wider ones are occupied as well, so that their sum holds.
            pipe.depart(segment, max(line.send(size, now) for line in pipe.way.lines))
            if pipe.waits:
                self._waiting.append(pipe)
            else:
                pipe.line = None
        if self._waiting:
            self._woken = True
            self._poller.call_at(self._free_at - _AHEAD_S, self._serve)
