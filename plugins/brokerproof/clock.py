"""The only source of time: UTC microseconds for records, and a monotonic clock for waiting.

A process that works on a run follows the run's time axis: CLOCK_MONOTONIC of the boot on which the run began, plus an
offset in microseconds that was measured once. So steps of the wall clock do not matter, and times of one boot can be
compared. Times of two hosts can be compared only within the error of their clocks (`clock_error_us` of the run).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from brokerproof.errors import DeadlineError, RunError

T = TypeVar("T")

# The variable by which a process passes its time axis to the processes that it starts, as "BOOT_ID OFFSET_US".
AXIS = "BROKERPROOF_TIME_AXIS"
_READINGS = 5
# The years 1 to 9999, which are those of Python's datetime.
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999


class Clock:
    """This machine's clock. A test may use another clock, in which waiting takes no time."""

    # Microseconds to add to CLOCK_MONOTONIC. Without a time axis it is None, and times come from the wall clock.
    offset_us: int | None = None

    def now_us(self) -> int:
        """Return the Unix time in microseconds: on the run's time axis, or from the wall clock if there is no run."""
        return self.wall_us() if self.offset_us is None else time.monotonic_ns() // 1000 + self.offset_us

    def now_s(self) -> float:
        return self.now_us() / 1e6

    def wall_us(self) -> int:
        """Return the Unix time in microseconds from the wall clock, which may step."""
        return time.time_ns() // 1000

    def measure_wall_lead(self) -> int:
        """Return by how many microseconds the wall clock is ahead of `now_us`; negative if it is behind.

        The fastest of `_READINGS` readings counts, because readings are inexact if the process loses the processor.
        """
        readings = []
        for _ in range(_READINGS):
            before, wall, after = self.now_us(), self.wall_us(), self.now_us()
            readings.append((after - before, wall - (before + after) // 2))
        return min(readings)[1]

    def monotonic_s(self) -> float:
        """Return seconds since an arbitrary moment, for measuring durations."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait_until(self, condition: Callable[[], T | None], *, timeout_s: float, what: str, every_s: float = 0.1) -> T:
        """Call `condition` until it returns a true value, and return this value.

        After `timeout_s` seconds, raises DeadlineError: "waited N s for `what`". Exceptions of `condition` are raised.
        """
        deadline = self.monotonic_s() + timeout_s
        while True:
            if result := condition():
                return result
            if self.monotonic_s() >= deadline:
                raise DeadlineError(f"waited {timeout_s:.0f} s for {what}")
            self.sleep(every_s)


SYSTEM_CLOCK = Clock()
# The functions for all callers that do not need a clock of their own.
now_us, now_s, wait_until = SYSTEM_CLOCK.now_us, SYSTEM_CLOCK.now_s, SYSTEM_CLOCK.wait_until


def read_boot_id() -> str:
    """Return the id of this machine's boot. Times of CLOCK_MONOTONIC can be compared only within one boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def measure_offset_us() -> int:
    """Return the offset in microseconds that turns CLOCK_MONOTONIC into the wall clock's time at this moment."""
    monotonic = Clock()
    monotonic.offset_us = 0
    return monotonic.measure_wall_lead()


def follow_axis(boot_id: str, offset_us: int) -> None:
    """From now on, take times from a run's time axis, in this process and in the processes that it starts.

    If the axis belongs to another machine or an earlier boot, an offset that is measured now replaces `offset_us`.
    """
    if boot_id != read_boot_id():
        boot_id, offset_us = read_boot_id(), measure_offset_us()
    SYSTEM_CLOCK.offset_us = offset_us
    os.environ[AXIS] = f"{boot_id} {offset_us}"


def list_variables() -> dict[str, str]:
    """Return the environment variables that pass this process's time axis to a process that does not inherit them.

    The result is empty if this process follows no axis.
    """
    return {AXIS: os.environ[AXIS]} if AXIS in os.environ else {}


def leave_axis() -> None:
    """Take times from the wall clock again."""
    SYSTEM_CLOCK.offset_us = None
    os.environ.pop(AXIS, None)


if AXIS in os.environ:
    _boot_id, _offset = os.environ[AXIS].split()
    follow_axis(_boot_id, int(_offset))


def to_utc(microseconds: int) -> datetime:
    """Return a Unix time in microseconds as an aware datetime in UTC.

    Raises RunError for a time that a datetime cannot have, which only a damaged record contains.
    """
    if not FIRST_US <= microseconds <= LAST_US:
        raise RunError("a time is before the year 1 or after the year 9999")
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def to_microseconds(moment: datetime) -> int:
    """Return an aware datetime as Unix time in microseconds. Raises ValueError for a naive datetime."""
    if moment.tzinfo is None:
        raise ValueError("a naive datetime has no place on the clock; pass one with a time zone")
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond
