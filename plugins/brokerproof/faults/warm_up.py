"""Whether the topic has reached the target rate, and what it held instead if it does not get there."""

from __future__ import annotations

# The load counts as steady after this many seconds in a row at this share of the target rate.
STEADY_S, STEADY_SHARE = 3, 0.9
# The problem of a run whose load is too much begins so; the history reads it again.
NEVER_HELD = "the topic never held"
# A rate that has not grown by so much in so many seconds grows no more: a cluster is slow for half a minute after its
# start, while its programs are compiled.
_GROWTH, _STALLED_S = 1.05, 45.0
_BUSY = 90.0
# The share of the samples in which a producer waits for answers, from which on that is what limits the rate.
_OFTEN = 0.5


class WarmUp:
    """The rates of the topic from the first message on."""

    def __init__(self, target: float, started_s: float, *, max_pending: int) -> None:
        """`target` is in messages a second; all times are of the monotonic clock.

        A producer with `max_pending` unanswered messages waits for an answer.
        """
        self._target, self._started_s, self._now_s = target, started_s, started_s
        self._last: tuple[float, int] | None = None
        self._held = 0
        self._best, self._best_s = 0.0, started_s
        # Of this machine's processors, in percent, once messages came.
        self._utilization: list[float] = []
        self._max_pending = max_pending
        # How often messages came, and how often a producer waited for answers then.
        self._samples, self._waits = 0, 0

    def add(self, count: int, now_s: float, utilization: float, *, pending: int) -> float | None:
        """Note the topic's counter of messages, and how busy the machine was. Returns the rate, None for the first.

        `pending` is the largest number of unanswered messages that a producer has.
        """
        self._now_s = now_s
        last, self._last = self._last, (now_s, count)
        # The counter begins again with each owner of the topic.
        if last is None or count < last[1]:
            return None
        rate = (count - last[1]) / (now_s - last[0])
        if rate:
            self._utilization.append(utilization)
            self._samples += 1
            self._waits += pending >= self._max_pending
        if rate > _GROWTH * self._best:
            self._best, self._best_s = rate, now_s
        self._held = self._held + 1 if rate >= self._target else 0
        return rate

    @property
    def is_steady(self) -> bool:
        """Whether the target rate has been held long enough."""
        return self._held >= STEADY_S

    @property
    def has_stalled(self) -> bool:
        """Whether messages came for long enough without the rate having grown."""
        return self._best > 0 and self._held == 0 and self._now_s - self._best_s > _STALLED_S

    def describe_shortfall(self) -> str:
        """What was held instead of the target, why, and what to do."""
        after_s = self._now_s - self._started_s
        what = f"{NEVER_HELD} {self._target:.0f} messages/s for {STEADY_S} s in {after_s:.0f} s"
        if not self._utilization:
            return f"{what}; not one was acknowledged: see the load job's log"
        busy = sum(self._utilization) / len(self._utilization)
        if busy >= _BUSY:
            why, remedy = f"this machine can do no more: its processors were {busy:.0f} % busy", "lower workload.rate"
        elif self._waits > _OFTEN * self._samples:
            # What limits a rate so, the time that an answer takes or the number of answers waited for, is one product.
            why = (
                f"its producers waited for answers with {self._max_pending} messages unanswered each, with this "
                f"machine's processors {busy:.0f} % busy"
            )
            remedy = "raise workload.client.max_pending, and lower workload.rate where that changes nothing"
        else:
            why = f"the cluster takes in no more, with this machine's processors {busy:.0f} % busy"
            remedy = "lower workload.rate"
        return f"{what}; the most was {self._best:.0f}/s, and {why}; {remedy}"
