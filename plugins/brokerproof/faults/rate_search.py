"""The search for the highest rate that the topic holds, before the steady phase (`workload.rate: max`).

A rate is held if the producers' acks keep up with their schedule. The rates are fixed numbers, 20 for each power of
ten, so that two runs on one machine usually find the same one and can be compared. The search leaps upwards. After a
rate that is missed, it lets the producers catch up, and goes on from the highest held rate with shorter leaps. A miss
is never final, because a cluster is slow for half a minute after its start, while its programs are compiled.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerproof.errors import DeadlineError
from brokerproof.experiment.workload import MOST_RATE
from brokerproof.faults.stage import Stage
from brokerproof.faults.steady_load import NEVER_HELD, require_load
from brokerproof.run.live_status import read_live_status
from brokerproof.run.load_rate import FIRST_RATE, LONGEST_SEARCH_S
from brokerproof.run.records import FoundRate, LoadRates, RateStep, write_record

# The numbers of the series R20 (ISO 3): each is about 12 % above the one before.
_SERIES = (100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800, 900)
# Numbers of the series from one rate to the next: at first twice the rate, then 41 % more, then 12 % more.
_FIRST_LEAP = 6
# Producers ask for new rates every 0.25 s, so a step is recorded this many seconds before its time.
_LEAD_S = 1.0
# A rate is held if producers are at most this many seconds behind their schedule in the last half second of the step.
# So a rate that is up to 8 % too high counts as held, and the next lower one, which the load keeps, is not too high.
_STEP_S, _BEHIND_S = 4.0, 0.25
# At this many seconds behind the schedule, the step ends early.
_TOO_FAR_BEHIND_S = 1.0
# A producer whose status is older than this counts as too far behind.
_SILENT_S = 2.0
_LOOK_EVERY_S = 0.25
# The first rate has this long to be held, and a missed one to be caught up. Then the search ends without a result.
_WAIT_S = 180.0


def make_rate(number: int) -> int:
    """Return a rate of the series. Number 0 is `FIRST_RATE`."""
    # The smallest rate that is needed, number -1, is 900.
    return _SERIES[number % len(_SERIES)] * 10 ** (number // len(_SERIES) + 1)


_LAST = next(number for number in range(1000) if make_rate(number) >= MOST_RATE)


class RateSearch:
    """Chooses the next rate from those that were held and missed. All are numbers of the series."""

    def __init__(self) -> None:
        self.held = 0
        self._missed: set[int] = set()
        self._leap = _FIRST_LEAP

    @property
    def next(self) -> int | None:
        """The next rate to try; None if the search is over."""
        return min(self.held + self._leap, _LAST) if self._leap and self.held < _LAST else None

    @property
    def missed(self) -> int | None:
        """The lowest missed rate above the highest held one; None if there is none."""
        return min((number for number in self._missed if number > self.held), default=None)

    def judge(self, number: int, *, is_held: bool) -> None:
        """Note whether a rate was held."""
        if is_held:
            self.held = number
        else:
            self._missed.add(number)
            self._leap //= 2


class _Ramp:
    """Sets the rate of all producers, and looks how far they are behind their schedules."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._workload = stage, stage.run.scenario.workload
        self._steps: list[RateStep] = []

    def set_rate(self, rate: float) -> float:
        """Let the producers of each cluster have a rate together. Return the Unix time at which they change to it."""
        at = self._stage.clock.now_us() + int(_LEAD_S * 1e6)
        self._steps.append(RateStep(at=at, rate=rate))
        self._write(None)
        return at / 1e6

    def conclude(self, found: FoundRate) -> None:
        self._write(found)

    def _write(self, found: FoundRate | None) -> None:
        write_record(self._stage.run, LoadRates(steps=tuple(self._steps), found=found, at=self._stage.clock.now_us()))

    def measure_delay(self, since: float) -> float | None:
        """Return how many seconds the slowest producer is behind its schedule.

        The result is None if a producer has not shown its status since the Unix time `since`, and infinity if it has
        been silent for too long.
        """
        rate = self._steps[-1].rate if self._steps else FIRST_RATE
        now, delays = self._stage.clock.now_us(), []
        for number in range(self._workload.producer_count):
            status = read_live_status(self._stage.run, f"load-{number}")
            shown_us = status.get("due_us", 0)
            if shown_us < since * 1e6:
                return float("inf") if now > max(shown_us, since * 1e6) + _SILENT_S * 1e6 else None
            delays.append((status["due"] - status["acked"]) / (rate / self._workload.producers))
        return max(delays)


def search_rate(stage: Stage, measure_utilization: Callable[[], float]) -> FoundRate:
    """Let the load find the highest rate that is held, and then keep the next lower one, which is about 90 % of it.

    Raises DeadlineError if not even the first rate is held, and RunError if the load ends.
    """
    ramp, search, busy = _Ramp(stage), RateSearch(), list[float]()
    _await_no_delay(stage, ramp, f"{FIRST_RATE:,} messages/s", for_s=_STEP_S)
    ends_at = stage.clock.monotonic_s() + LONGEST_SEARCH_S
    while (number := search.next) is not None and stage.clock.monotonic_s() < ends_at:
        rate = make_rate(number)
        stage.show(text=f"tries {rate:,} messages/s; held {make_rate(search.held):,}")
        begins_at = ramp.set_rate(rate)
        measure_utilization()
        is_held = _is_held(stage, ramp, begins_at)
        search.judge(number, is_held=is_held)
        if not is_held:
            busy.append(measure_utilization())
            ramp.set_rate(make_rate(search.held) / 2)
            _await_no_delay(stage, ramp, f"{make_rate(search.held):,} messages/s again", for_s=0)
    found = FoundRate(
        rate=make_rate(search.held - 1),
        held=make_rate(search.held),
        missed=None if search.missed is None else make_rate(search.missed),
        busy=round(sum(busy) / len(busy), 1) if busy else None,
    )
    ramp.set_rate(found.rate)
    ramp.conclude(found)
    return found


def _is_held(stage: Stage, ramp: _Ramp, begins_at: float) -> bool:
    """Wait for the end of a step, and return whether its rate was held."""
    delays = []
    while True:
        require_load(stage.run, "before its rate was found")
        delay = ramp.measure_delay(begins_at)
        if delay is not None and delay > _TOO_FAR_BEHIND_S:
            return False
        now = stage.clock.now_us() / 1e6
        if delay is not None and now > begins_at + _STEP_S - 0.5:
            delays.append(delay)
        if delays and now > begins_at + _STEP_S:
            return min(delays) <= _BEHIND_S
        stage.clock.sleep(_LOOK_EVERY_S)


def _await_no_delay(stage: Stage, ramp: _Ramp, what: str, *, for_s: float) -> None:
    """Wait until no producer was behind its schedule for `for_s` seconds.

    Raises DeadlineError, with `what` as the rate that was not held, after `_WAIT_S` seconds.
    """
    began_at = stage.clock.now_us() / 1e6
    in_time_since: float | None = None

    def has_lasted() -> bool:
        nonlocal in_time_since
        require_load(stage.run, "before its rate was found")
        delay, now = ramp.measure_delay(began_at), stage.clock.now_us() / 1e6
        if delay is not None:
            in_time_since = None if delay > _BEHIND_S else in_time_since or now
        return in_time_since is not None and now >= in_time_since + for_s

    try:
        stage.clock.wait_until(has_lasted, timeout_s=_WAIT_S, what=what, every_s=_LOOK_EVERY_S)
    except DeadlineError:
        raise DeadlineError(
            f"{NEVER_HELD} {what} within {_WAIT_S:.0f} s, so its highest rate is not known; give workload.rate a number"
        ) from None
