"""One direction of a route through the link process: its cut, delay, jitter, rate limiters, and meter of its traffic.

All connections of a route share one `RouteDirection` per direction. All routes from one region to another share the
rate limiters and the meter. The meter also measures the delay that the emulation itself adds.
"""

from __future__ import annotations

import random
import time
from collections import deque
from typing import Protocol

from brokerproof.experiment.yaml_models import FrozenModel
from brokerproof.network.poller import Poller

# Four buckets per doubling, from 1 µs to more than an hour.
_BUCKETS = 4 * 33
# A sender gets its turn up to this many seconds before its segment leaves, and the time of leaving stays exact. So the
# poller wakes up once per 2 ms, not once per segment.
_AHEAD_S = 0.002


class RouteDirection:
    """The cut, delay, jitter, rate limiters and meter of the traffic from `sender` to `receiver`.

    `sender` and `receiver` each name a node, or all clients or all serving nodes (message servers) of a region.
    """

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
        """Set the cut, delay, jitter and rate limiters. Returns whether any of them changed."""
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


class Sender(Protocol):
    """The interface by which a rate limiter tells a waiting pipe that it is the pipe's turn to send."""

    def take_turn(self, most: int, now: float) -> bool:
        """Send the next segment, of at most `most` bytes. Returns whether more bytes wait for the rate limiter.

        `now` is in seconds of the monotonic clock.
        """


class RateLimiter:
    """Decides when each segment leaves, so that all together do not exceed the bandwidth. Senders take turns."""

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


class AddedDelay(FrozenModel):
    """The delay, beyond the configured one, of an interval's chunks: the number of timed chunks, and quantiles."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class Histogram:
    """Counts durations in buckets: four from 4 to 8 µs, four from 8 to 16 µs, and so on, and one per µs below 4 µs.

    So a quantile is at most a quarter too high, or at most 1 µs if it is below 4 µs.
    """

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self._count = 0
        self._max_s = 0.0

    def add(self, seconds: float) -> None:
        microseconds = int(seconds * 1_000_000)
        bits = microseconds.bit_length()
        bucket = microseconds if bits < 3 else bits * 4 + (microseconds >> (bits - 3) & 3) - 8
        self._counts[min(bucket, _BUCKETS - 1)] += 1
        self._count += 1
        if seconds > self._max_s:
            self._max_s = seconds

    def take(self) -> AddedDelay:
        """Return the number and quantiles of the durations since the last call, and set the counts to zero."""
        added = AddedDelay(
            count=self._count, p50_ms=self._quantile_ms(0.5), p99_ms=self._quantile_ms(0.99), max_ms=self._max_s * 1000
        )
        self._counts, self._count, self._max_s = [0] * _BUCKETS, 0, 0.0
        return added

    def _quantile_ms(self, share: float) -> float:
        seen, wanted = 0, share * self._count
        for bucket, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(_upper_microseconds(bucket) / 1000, self._max_s * 1000)
        return 0.0


def _upper_microseconds(bucket: int) -> int:
    """Return the upper end of a bucket, in microseconds."""
    if bucket < 4:
        return bucket + 1
    bits, quarter = divmod(bucket + 8, 4)
    return (5 + quarter) << (bits - 3)


class Meter:
    """Counters of the traffic from one region to another."""

    def __init__(self) -> None:
        self.bytes = 0
        self.opened = 0
        self.refused = 0
        self.added_delays = Histogram()
