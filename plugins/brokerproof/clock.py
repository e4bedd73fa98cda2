"""The one source of time: UTC microseconds for records, a monotonic clock for waiting.

A process that works on a run follows the run's time axis: CLOCK_MONOTONIC of the boot on which the run began, and an
offset that was taken once. So a step of the wall clock moves no recorded time, and the times of all processes of one
boot compare. Times of two hosts compare only within the error of their clocks, which is recorded with a run
(`clock_error_us`). A process that works on no run reads the wall clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from brokerproof.errors import DeadlineError

T = TypeVar("T")

# How a process tells those that it starts which axis it follows: the boot and the offset.
AXIS = "BROKERPROOF_TIME_AXIS"
_READINGS = 5


class Clock:
    """This machine's clock. A test may use another clock, in which waiting takes no time."""

    # From CLOCK_MONOTONIC to the time axis. Without one, times are the wall clock's.
    offset_us: int | None = None

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC; no step of the wall clock moves it if there is a time axis."""
        return self.wall_us() if self.offset_us is None else time.monotonic_ns() // 1000 + self.offset_us

    def now_s(self) -> float:
        """The same in seconds."""
        return self.now_us() / 1e6

    def wall_us(self) -> int:
        """Microseconds since the epoch, UTC, by the wall clock, which may step."""
        return time.time_ns() // 1000

    def measure_wall_lead(self) -> int:
        """How many microseconds the wall clock is ahead of `now_us`.

        It is read several times: a reading in which the process lost the processor says little.
        """
        readings = []
        for _ in range(_READINGS):
            before, wall, after = self.now_us(), self.wall_us(), self.now_us()
            readings.append((after - before, wall - (before + after) // 2))
        return min(readings)[1]

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
now_us, now_s, wait_until = SYSTEM_CLOCK.now_us, SYSTEM_CLOCK.now_s, SYSTEM_CLOCK.wait_until


def read_boot_id() -> str:
    """Return the name of this machine's boot: CLOCK_MONOTONIC compares only within one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def measure_offset_us() -> int:
    """Return what turns CLOCK_MONOTONIC into the wall clock's time of this moment."""
    monotonic = Clock()
    monotonic.offset_us = 0
    return monotonic.measure_wall_lead()


def follow_axis(boot_id: str, offset_us: int) -> None:
    """Take times from a time axis from now on, in this process and in those that it starts.

    On another boot than the axis's, the offset is taken now: steps of the wall clock move nothing after that.
    """
    if boot_id != read_boot_id():
        boot_id, offset_us = read_boot_id(), measure_offset_us()
    SYSTEM_CLOCK.offset_us = offset_us
    os.environ[AXIS] = f"{boot_id} {offset_us}"


def list_variables() -> dict[str, str]:
    """Return what a process that does not inherit this one's environment needs to follow the same axis."""
    return {AXIS: os.environ[AXIS]} if AXIS in os.environ else {}


def leave_axis() -> None:
    """Take times from the wall clock again."""
    SYSTEM_CLOCK.offset_us = None
    os.environ.pop(AXIS, None)


if AXIS in os.environ:
    _boot_id, _offset = os.environ[AXIS].split()
    follow_axis(_boot_id, int(_offset))


def to_utc(microseconds: int) -> datetime:
    """The aware datetime of a time in microseconds since the epoch."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def to_microseconds(moment: datetime) -> int:
    """Microseconds since the epoch of an aware datetime."""
    if moment.tzinfo is None:
        raise ValueError("a naive datetime has no place on the clock; pass one with a time zone")
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond
