"""One direction of a route: its current cut, delay, jitter and limiters, which all connections of the route share."""

from __future__ import annotations

import random

from brokerproof.network.meter import Meter
from brokerproof.network.rate_limiter import RateLimiter


class RouteDirection:
    """The cut, delay, jitter, rate limiters and meter of the traffic from one node, or place of clients, to another."""

    def __init__(self, sender: str, receiver: str, regions: tuple[str, str], meter: Meter) -> None:
        self.sender, self.receiver, self.regions, self.meter = sender, receiver, regions, meter
        # Bytes that arrived since the start.
        self.bytes_delivered = 0
        self.cut = False
        self.delay_s = 0.0
        self.jitter_s = 0.0
        # Sorted: the limiter with the smallest bandwidth is first.
        self.limiters: tuple[RateLimiter, ...] = ()
        # Whether bytes may be written as soon as they are read.
        self.direct = True

    def set(self, *, cut: bool, delay_s: float, jitter_s: float, limiters: tuple[RateLimiter, ...]) -> bool:
        """Set these values. Returns whether any of them changed."""
        limiters = tuple(sorted(limiters, key=lambda limiter: limiter.bytes_per_s))
        if (cut, delay_s, jitter_s, limiters) == (self.cut, self.delay_s, self.jitter_s, self.limiters):
            return False
        self.cut, self.delay_s, self.jitter_s, self.limiters = cut, delay_s, jitter_s, limiters
        self.direct = not (cut or delay_s or limiters)
        return True

    def next_delay_s(self) -> float:
        """Return the delay of the next chunk in seconds, which is random if the direction has jitter."""
        if not self.jitter_s:
            return self.delay_s
        return self.delay_s + random.uniform(-self.jitter_s, self.jitter_s)
