"""When a source of samples counts as silent after a fault, and how soon an event may have come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof_judging.measurements.measured_values import Estimate
from brokerproof_judging.measurements.samples import SILENCE_US
from brokerproof_judging.measurements.waiting import Level, describe_raised, is_silent, read_arrival, widen_by_silence

FAULT: Any = SimpleNamespace(span=SimpleNamespace(end_us=2 * SILENCE_US))


@pytest.mark.parametrize(
    ("last_of_all", "values", "silent"),
    [
        (3 * SILENCE_US, [SILENCE_US], False),
        (3 * SILENCE_US, [SILENCE_US - 1], True),
        # Sampling ended before the fault's span.
        (SILENCE_US + 5, [5], False),
        (SILENCE_US + 5, [4], True),
        (SILENCE_US + 5, [1, 5], False),
        (0, [], True),
    ],
)
def test_a_source_is_silent_without_a_sample_of_the_last_five_seconds(
    last_of_all: int, values: list[int], silent: bool
) -> None:
    samples: Any = SimpleNamespace(last_us=last_of_all)
    assert is_silent(samples, FAULT, [(at, "1") for at in values]) is silent


@pytest.mark.parametrize(("begin_s", "proven_s"), [(5, 0.0), (10, 0.0), (10.5, 0.5), (11, 1.0)])
def test_an_event_that_a_standstill_delayed_may_have_come_at_its_begin_and_never_before_the_effect(
    begin_s: float, proven_s: float
) -> None:
    samples: Any = SimpleNamespace(silences=[])
    fault: Any = SimpleNamespace(span=SimpleNamespace(start_us=10_000_000))
    stood_still = [(round(begin_s * 1e6), 20_000_000)]
    estimate = read_arrival(samples, fault, 12_000_000, "low again", standstills=stood_still)
    assert (estimate.value, estimate.at_most, estimate.proven) == (2.0, True, proven_s)


@pytest.mark.parametrize(
    ("raised_s", "sentence"),
    [
        ([], ""),
        # A sample of the moment at which all was low again is not later.
        ([20], ""),
        ([20, 21, 23], "; slightly above again until 13.0 s after the effect"),
    ],
)
def test_only_what_rose_after_the_end_rose_again(raised_s: list[int], sentence: str) -> None:
    fault: Any = SimpleNamespace(seconds_until=lambda at_us: at_us - 10)
    levels = [[(20, Level.LOW)], [(at, Level.RAISED) for at in raised_s]]
    assert describe_raised(fault, levels, 20) == sentence


def test_a_later_silence_leaves_what_was_proven() -> None:
    samples: Any = SimpleNamespace(silences=[(13_000_000, 19_000_000)])
    span = SimpleNamespace(start_us=10_000_000, end_us=60_000_000)
    fault: Any = SimpleNamespace(span=span, cut_off_by=None, seconds_until=lambda at_us: (at_us - 10_000_000) / 1e6)
    before = Estimate(value=3.0, evidence="low again", at_most=True, proven=2.0)
    after = widen_by_silence(samples, fault, before, 13_000_000)
    assert (after.value, after.at_most, after.proven) == (9.0, True, 2.0)
