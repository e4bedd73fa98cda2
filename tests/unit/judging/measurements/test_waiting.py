"""When a source of samples counts as silent after a fault, and how soon an event may have come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof_judging.measurements.samples import SILENCE_US
from brokerproof_judging.measurements.waiting import is_silent, read_arrival

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
