from __future__ import annotations

import pytest
from brokerproof_judging.measurements.run_times import Span
from brokerproof_judging.measurements.throughput import EventsInSecond, Throughput

SPAN = Span(start_us=0, end_us=10_000_000)


def steady(numbers, count=10):
    """Seconds with that many events each, spread evenly."""
    return {
        number: EventsInSecond(
            count=count, first_us=number * 1_000_000, last_us=number * 1_000_000 + 900_000, gap_us=100_000
        )
        for number in numbers
    }


@pytest.mark.parametrize(
    ("seconds", "held"),
    [
        (steady(range(10)), 0),
        (steady(range(3, 10)), 3),
        # Four seconds are not five, and a dip starts the count again.
        (steady(range(6, 10)), None),
        ({**steady(range(10)), **steady([2], count=8)}, 3),
        # Nine of ten are enough.
        (steady(range(10), count=9), 0),
        ({}, None),
    ],
)
def test_a_rate_is_held_after_five_seconds_in_a_row(seconds, held):
    assert Throughput(span=SPAN, seconds=seconds).find_second_held(10) == held


@pytest.mark.parametrize(
    ("seconds", "gap"),
    [
        ({}, (10.0, True)),
        (steady([4]), (5.1, True)),
        (steady([6]), (6.0, False)),
        (steady([0, 5, 9]), (4.1, False)),
    ],
)
def test_the_longest_gap_counts_the_edges(seconds, gap):
    assert Throughput(span=SPAN, seconds=seconds).find_longest_gap() == gap
