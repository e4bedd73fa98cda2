"""The one source of time: UTC microseconds for records, a monotonic clock for waiting.

What it can tell: on one machine all processes read the same clock, so times of different processes compare down to
its resolution. What it cannot: times of two hosts compare only within their clocks' error, which is recorded with a
run (`clock_error_us`; 0 when everything ran on this machine).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from brokerproof.errors import DeadlineError

T = TypeVar("T")


def now_us() -> int:
    """Microseconds since the epoch, UTC."""
    return time.time_ns() // 1000


def utc(microseconds: int) -> datetime:
    """The aware datetime of a time in microseconds since the epoch."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def microseconds(moment: datetime) -> int:
    """Microseconds since the epoch of an aware datetime."""
    if moment.tzinfo is None:
        raise ValueError("a naive datetime has no place on the clock; pass one with a time zone")
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def wait_until(condition: Callable[[], T | None], *, timeout_s: float, what: str, every_s: float = 0.1) -> T:
    """Poll until `condition` returns something true, and return it.

    `what` completes the sentence "waited N s for …". Raises DeadlineError after `timeout_s` seconds. Exceptions of
    the condition are not caught: a condition says itself what it may overlook.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        if result := condition():
            return result
        if time.monotonic() >= deadline:
            raise DeadlineError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(every_s)
