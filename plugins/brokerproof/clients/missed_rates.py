"""Finds the times in which a producer missed its rate, and measures why, from the producer's own process.

The sender notes how it spends its time. Another thread takes a sample every half second, so a sender that hangs is
found too. The rate is missed if the acks of the last seconds are less than `HELD_SHARE` of the messages that were due,
in two samples in a row. So it is known after at most 3 s.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, fields
from enum import IntEnum
from pathlib import Path

from brokerproof.experiment.metrics import HELD_SHARE
from brokerproof.run.records import MissedRate

# A message that is sent with less delay than this is sent in time.
IN_TIME_S = 0.1
# The acks of the samples of at least this many seconds are compared with what was due.
_WINDOW_S = 2.0
# A record has this many times at most.
_MOST_TIMES = 200


class Activity(IntEnum):
    """How the sender spends its time."""

    # No message is due.
    IDLE = 0
    # It prepares messages that are due.
    PREPARING = 1
    # It is in `send` of the system's client.
    SENDING = 2
    # Messages are due, and a full `max_pending` holds them back.
    HELD_BACK = 3
    # In IDLE or PREPARING, it let a message become late.
    LATE = 4


class SenderTimes:
    """The time that the sender has spent in each activity. The sender writes it, and another thread reads it."""

    def __init__(self, now_us: int) -> None:
        # One tuple, which is replaced whole, so that a reader sees no half of a change.
        self._state = Activity.IDLE, now_us, (0,) * len(Activity)

    def enter(self, activity: Activity, now_us: int, *, is_late: bool = False) -> None:
        """End the present activity at `now_us` and begin another. If `is_late`, the ended time made messages late."""
        before, since_us, spent = self._state
        self._state = activity, now_us, _add(spent, Activity.LATE if is_late else before, now_us - since_us)

    def read(self, now_us: int) -> tuple[int, ...]:
        """Return the microseconds of each activity until now."""
        activity, since_us, spent = self._state
        lasts_us = max(0, now_us - since_us)
        is_late = activity in (Activity.IDLE, Activity.PREPARING) and lasts_us > IN_TIME_S * 1e6
        return _add(spent, Activity.LATE if is_late else activity, lasts_us)


def _add(spent: tuple[int, ...], activity: Activity, lasts_us: int) -> tuple[int, ...]:
    return (*spent[:activity], spent[activity] + lasts_us, *spent[activity + 1 :])


@dataclass(frozen=True, kw_only=True)
class LoadSample:
    """What a producer has done until a moment. Each number but `at` and `pending` only grows."""

    # In µs.
    at: int
    due: int
    acked: int
    pending: int
    # Of the sender.
    held_back_s: float
    sending_s: float
    late_s: float
    # Of the process: its processor time, the time in which a thread waited for a processor, and the time by which the
    # thread that takes the samples was late.
    processor_s: float
    waited_s: float
    overslept_s: float
    # The time in which some process of the machine waited for a processor; None if the kernel does not count it.
    contended_s: float | None


class RateWatch:
    """Decides from samples when a producer missed its rate."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._samples: deque[LoadSample] = deque()
        self._low = 0
        self._begin: LoadSample | None = None
        self.times: list[MissedRate] = []
        self.omitted = 0

    @property
    def now(self) -> MissedRate | None:
        """The time that goes on now, in which the rate is missed."""
        return self.times[-1] if self._begin is not None and self.times else None

    def add(self, sample: LoadSample) -> bool:
        """Add a sample, and return whether `times` or `now` changed."""
        samples = self._samples
        samples.append(sample)
        while len(samples) > 2 and sample.at - samples[1].at >= _WINDOW_S * 1e6:
            samples.popleft()
        first = samples[0]
        due, acked = sample.due - first.due, sample.acked - first.acked
        is_low = sample.at - first.at >= _WINDOW_S * 1e6 and acked < HELD_SHARE * due
        self._low = self._low + 1 if is_low else 0
        if not is_low:
            has_ended, self._begin = self._begin is not None, None
            return has_ended
        if self._low < 2:
            return False
        if self._begin is None:
            self._begin = first
            if len(self.times) == _MOST_TIMES:
                self.omitted += 1
                self.times.pop()
        else:
            self.times.pop()
        self.times.append(measure_miss(self._begin, sample, self._rate))
        return True


def measure_miss(begin: LoadSample, end: LoadSample, rate: float) -> MissedRate:
    """Return what was measured between two samples of a producer."""
    spent = {
        each.name: getattr(end, each.name) - getattr(begin, each.name)
        for each in fields(LoadSample)
        if None not in (getattr(end, each.name), getattr(begin, each.name))
    }
    # A client that computes in `send`, or waits for a processor in it, is not blocked by the cluster.
    blocked_s = spent["sending_s"] - spent["processor_s"] - spent["waited_s"] - spent["overslept_s"]
    unanswered_s = max(0, spent["pending"]) / rate
    return MissedRate(
        begin=begin.at,
        end=end.at,
        due=spent["due"],
        acked=spent["acked"],
        pushed_back_s=round(spent["held_back_s"] + max(0.0, blocked_s) + unanswered_s, 3),
        no_time_s=round(max(spent["late_s"], spent["waited_s"], spent["overslept_s"]), 3),
        contended_s=round(spent["contended_s"], 3) if "contended_s" in spent else None,
    )


class ProcessorWait:
    """Measures for how long threads of this process waited for a processor, as the kernel counts it."""

    def __init__(self) -> None:
        self._by_thread: dict[str, int] = {}
        self._waited_ns = 0

    def measure(self) -> float:
        """Return the seconds until now, of the thread that waited longest since each earlier call."""
        longest = 0
        for thread in Path("/proc/self/task").iterdir():
            try:
                waited = int((thread / "schedstat").read_text(encoding="ascii").split()[1])
            except (OSError, IndexError):
                # The thread has ended, or the kernel does not count.
                continue
            longest = max(longest, waited - self._by_thread.get(thread.name, 0))
            self._by_thread[thread.name] = waited
        self._waited_ns += longest
        return self._waited_ns / 1e9


def read_contention(file: Path = Path("/proc/pressure/cpu")) -> float | None:
    """Return the seconds since boot in which some process waited for a processor; None if the kernel has no number."""
    try:
        some = file.read_text(encoding="ascii").splitlines()[0]
        return int(some.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError, IndexError):
        return None


def sample_load(
    times: SenderTimes,
    wait: ProcessorWait,
    now_us: int,
    *,
    due: int,
    acked: int,
    pending: int,
    overslept_s: float,
) -> LoadSample:
    spent = times.read(now_us)
    return LoadSample(
        at=now_us,
        due=due,
        acked=acked,
        pending=pending,
        held_back_s=spent[Activity.HELD_BACK] / 1e6,
        sending_s=spent[Activity.SENDING] / 1e6,
        late_s=spent[Activity.LATE] / 1e6,
        processor_s=time.process_time(),
        waited_s=wait.measure(),
        overslept_s=overslept_s,
        contended_s=read_contention(),
    )
