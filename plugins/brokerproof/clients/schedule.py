"""The open-loop schedule of a producer: when each of its messages is due, at one rate or at several in turn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from math import ceil, inf
from typing import Any

import numpy as np
import numpy.typing as npt

from brokerproof.run.records import LoadRates

# Later than every time in a run.
NEVER_US = 2**62


class Schedule:
    """From each time on, messages are due at another rate. Message `first` is due at the beginning."""

    def __init__(
        self, start_at: float, rate: float, changes: Iterable[tuple[float, float]] = (), *, first: int = 0
    ) -> None:
        """`start_at` is in Unix time. `changes` are (Unix time, messages a second from then on), in order."""
        self._times, self._firsts, self._rates = [start_at], [float(first)], [rate]
        for at, later_rate in changes:
            if at <= start_at:
                self._rates[0] = later_rate
                continue
            # A message may be due between two messages, so this is no whole number.
            self._firsts.append(self._firsts[-1] + (at - self._times[-1]) * self._rates[-1])
            self._times.append(at)
            self._rates.append(later_rate)

    @property
    def rate(self) -> float:
        """The last rate, in messages a second."""
        return self._rates[-1]

    def count_due(self, now: float) -> int:
        """Return how many messages are due until a Unix time, with those before the first one."""
        step = bisect_right(self._times, now) - 1
        if step < 0:
            return int(self._firsts[0])
        if not self._rates[step]:
            return ceil(self._firsts[step])
        return int(self._firsts[step] + (now - self._times[step]) * self._rates[step]) + 1

    def find_time(self, seq: int) -> float:
        """Return the Unix time at which a message is due. A message before the first one was due before the start.

        It is infinite if the last rate is 0 and the message is due later.
        """
        step = max(0, bisect_right(self._firsts, seq) - 1)
        if not self._rates[step]:
            return inf
        return self._times[step] + (seq - self._firsts[step]) / self._rates[step]

    def compute_times_us(self, seqs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the times at which messages are due, in µs of Unix time. Each of them must have been due already."""
        steps = np.maximum(np.searchsorted(self._firsts, seqs, side="right") - 1, 0)
        times, firsts, rates = (np.array(each)[steps] for each in (self._times, self._firsts, self._rates))
        # A message that was sent although the producer was to be quiet was due when it became so.
        rates[rates == 0] = inf
        due: npt.NDArray[Any] = (times + (seqs - firsts) / rates) * 1e6
        return due.astype(np.int64)


def list_quiet_times(rates: LoadRates | None, label: str) -> list[tuple[int, int]]:
    """Return the times (from, to) in µs of Unix time in which the producer `label` had nothing to send."""
    steps = [step for step in (rates.steps if rates else ()) if not step.producers or label in step.producers]
    ends = [*(step.at for step in steps[1:]), NEVER_US]
    return [(step.at, until) for step, until in zip(steps, ends, strict=False) if not step.rate]


def list_changes(rates: LoadRates | None, producers: int, label: str) -> list[tuple[float, float]]:
    """Return the changes of the rate of the producer `label`, if `producers` share the rate of a cluster."""
    steps = () if rates is None else rates.steps
    return [(step.at / 1e6, step.rate / producers) for step in steps if not step.producers or label in step.producers]
