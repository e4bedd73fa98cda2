"""Measurements of the traffic from one region to another, and of the delay that the emulation itself adds."""

from __future__ import annotations

from brokerproof.experiment.yaml_models import FrozenModel

# Four buckets per doubling, from 1 µs to more than an hour.
_BUCKETS = 4 * 33


class AddedDelay(FrozenModel):
    """The delay of the chunks in an interval beyond the configured delay: the number of chunks, and quantiles."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class Histogram:
    """Counts durations in buckets. Four buckets per doubling make a quantile at most a quarter too high."""

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
        """Return the quantiles of the durations since the last call, and set the counts to zero."""
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
