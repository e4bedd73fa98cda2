"""A clock on which waiting takes no time."""

from __future__ import annotations

from brokerproof.clock import Clock


class SimulatedClock(Clock):
    """Time passes only while somebody sleeps, and by a microsecond whenever somebody looks."""

    def __init__(self) -> None:
        self._now_us = 1_800_000_000_000_000

    def now_us(self) -> int:
        self._now_us += 1
        return self._now_us

    def monotonic_s(self) -> float:
        return self.now_us() / 1e6

    def sleep(self, seconds: float) -> None:
        self._now_us += int(seconds * 1e6)
