"""When a producer's messages are due, at one rate and at several in turn."""

from __future__ import annotations

import numpy as np
import pytest
from brokerproof.clients.schedule import NEVER_US, Schedule, list_changes, list_quiet_times
from brokerproof.run.records import LoadRates, RateStep

START = 1_800_000_000.0


def list_times(schedule: Schedule, count: int) -> list[float]:
    """The times of the first messages, in seconds after the start."""
    times = schedule.compute_times_us(np.arange(count))
    assert [schedule.find_time(seq) for seq in range(count)] == pytest.approx(times / 1e6, abs=2e-6)
    return [round(float(at), 3) for at in times / 1e6 - START]


def test_messages_of_one_rate_are_due_at_equal_distances() -> None:
    schedule = Schedule(START, 4.0)
    assert list_times(schedule, 4) == [0, 0.25, 0.5, 0.75]
    assert [schedule.count_due(START + at) for at in (-0.1, 0, 0.24, 0.25, 1)] == [0, 1, 1, 2, 5]


def test_a_change_of_the_rate_changes_no_earlier_message_and_loses_none() -> None:
    schedule = Schedule(START, 4.0, [(START + 1, 10.0), (START + 1.5, 2.0)])
    # Message 4 is due when the second rate begins, and message 9 when the third one does.
    assert list_times(schedule, 12) == [0, 0.25, 0.5, 0.75, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 2, 2.5]
    assert [schedule.count_due(START + at) for at in (0.99, 1.01, 1.41, 2.01)] == [4, 5, 9, 11]
    assert schedule.rate == 2.0


def test_a_message_between_two_rates_is_due_in_proportion() -> None:
    """The first rate ends when half of the distance to message 1 is over."""
    schedule = Schedule(START, 1.0, [(START + 0.5, 10.0)])
    assert list_times(schedule, 3) == [0, 0.55, 0.65]


def test_a_producer_that_starts_later_begins_with_the_rate_of_its_time() -> None:
    schedule = Schedule(START, 1.0, [(START - 9, 5.0), (START - 4, 10.0), (START + 1, 2.0)])
    assert list_times(schedule, 12)[-3:] == [0.9, 1.0, 1.5]
    assert schedule.count_due(START + 0.95) == 10


def test_producers_share_the_recorded_rate() -> None:
    assert list_changes(None, 4, "p0") == []
    rates = LoadRates(steps=(RateStep(at=5_000_000, rate=1000), RateStep(at=6_000_000, rate=20)), at=1)
    assert list_changes(rates, 4, "p0") == [(5.0, 250.0), (6.0, 5.0)]


def test_a_step_of_some_producers_changes_no_other_one() -> None:
    steps = (RateStep(at=5_000_000, rate=0, producers=("p0", "p1")), RateStep(at=6_000_000, rate=20, producers=("p0",)))
    rates = LoadRates(steps=steps, at=1)
    assert list_changes(rates, 4, "p0") == [(5.0, 0.0), (6.0, 5.0)]
    assert list_changes(rates, 4, "p1") == [(5.0, 0.0)]
    assert list_changes(rates, 4, "p2") == []
    assert list_quiet_times(rates, "p0") == [(5_000_000, 6_000_000)]
    assert list_quiet_times(rates, "p1") == [(5_000_000, NEVER_US)]
    assert list_quiet_times(rates, "p2") == list_quiet_times(None, "p0") == []


@pytest.mark.parametrize("quiet_at", [1.0, 1.1])
def test_no_message_is_due_while_there_is_none_to_send(quiet_at: float) -> None:
    quiet = Schedule(START, 4.0, [(START + quiet_at, 0.0)])
    due = 4 if quiet_at == 1 else 5
    assert [quiet.count_due(START + at) for at in (0.99, quiet_at, 50)] == [4, due, due]
    assert quiet.find_time(due) == float("inf")
    assert list_times(quiet, due) == [0, 0.25, 0.5, 0.75, 1][:due]
    again = Schedule(START, 4.0, [(START + quiet_at, 0.0), (START + 9, 2.0)])
    assert [again.count_due(START + at) for at in (quiet_at, 8.99, 10.01)] == [due, due, due + 3 - (quiet_at == 1.1)]
    # Between two rates, the distance to the next message counts in proportion.
    assert list_times(again, 7)[due:] == ([9.0, 9.5, 10.0] if quiet_at == 1 else [9.3, 9.8])


def test_a_message_that_was_sent_although_there_was_none_to_send_was_due_when_that_began() -> None:
    quiet = Schedule(START, 4.0, [(START + 1, 0.0)])
    assert quiet.compute_times_us(np.array([4, 5])).tolist() == [int((START + 1) * 1e6)] * 2


def test_a_later_process_begins_with_its_own_first_message() -> None:
    schedule = Schedule(START, 4.0, [(START + 1, 10.0)], first=1000)
    assert [schedule.find_time(seq) - START for seq in (1000, 1004, 1014)] == [0.0, 1.0, 2.0]
    assert [schedule.count_due(START + s) for s in (-1, 0, 1, 2)] == [1000, 1001, 1005, 1015]
