"""How numbers are written."""

from __future__ import annotations

import math

import pytest
from brokerproof.experiment.numbers import format_count, format_seconds, format_value


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "s", "–"),
        (0.0, "messages", "0 messages"),
        (49.0, "s", "49 s"),
        (49.357718, "s", "49.4 s"),
        (0.02345, "share", "0.0234 share"),
        (12345.6, "messages", "12,346 messages"),
        (math.inf, "s", "inf s"),
        (math.nan, "", "nan"),
        (12, "", "12"),
    ],
)
def test_as_many_digits_as_mean_something(value: float | None, unit: str, text: str) -> None:
    assert format_value(value, unit) == text


def test_lengths_of_time_as_people_say_them() -> None:
    assert [format_seconds(seconds) for seconds in (None, 0.3249, 9.96, 49.34, 246.0)] == [
        "–",
        "0.32 s",
        "10 s",
        "49.3 s",
        "4 min 6 s",
    ]


def test_counts_have_separators_and_nothing_is_not_zero() -> None:
    assert [format_count(count) for count in (None, 0, 1234567)] == ["–", "0", "1,234,567"]
