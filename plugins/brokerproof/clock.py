"""The one source of time: UTC microseconds for records, a monotonic clock for waiting.

All processes of one machine read the same clock, so their times compare down to its resolution. Times of two hosts
compare only within the error of their clocks, which is recorded with a run (`clock_error_us`; 0 when everything ran on
this machine).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from brokerproof.errors import DeadlineError

T = TypeVar("T")


class Clock:
    """This machine's clock. A test may use another clock, in which waiting takes no time."""

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        """Seconds since some moment, for measuring how long something takes."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for this time."""
        time.sleep(seconds)

    def wait_until(self, condition: Callable[[], T | None], *, timeout_s: float, what: str, every_s: float = 0.1) -> T:
        """Poll until `condition` returns something true, and return it.

        `what` completes the sentence "waited N s for …". Raises DeadlineError after `timeout_s` seconds. Exceptions
        of the condition are not caught: a condition says itself what it may overlook.
        """
        deadline = self.monotonic_s() + timeout_s
        while True:
            if result := condition():
                return result
            if self.monotonic_s() >= deadline:
                raise DeadlineError(f"waited {timeout_s:.0f} s for {what}")
            self.sleep(every_s)


SYSTEM_CLOCK = Clock()
# The clock for every caller that needs no other one.
now_us, wait_until = SYSTEM_CLOCK.now_us, SYSTEM_CLOCK.wait_until


def to_utc(microseconds: int) -> datetime:
    """The aware datetime of a time in microseconds since the epoch."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def to_microseconds(moment: datetime) -> int:
    """Microseconds since the epoch of an aware datetime."""
    if moment.tzinfo is None:
        raise ValueError("a naive datetime has no place on the clock; pass one with a time zone")
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond
