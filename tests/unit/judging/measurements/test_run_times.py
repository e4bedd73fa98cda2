"""Spans of time, and a fault's seconds, to the microsecond."""

from __future__ import annotations

import pytest
from brokerproof_judging.measurements.run_times import EffectiveFault, Span

SPAN = Span(start_us=1_000_000, end_us=1_001_500_000)


@pytest.mark.parametrize(
    ("at_us", "is_held"),
    [(999_999, False), (1_000_000, True), (1_001_499_999, True), (1_001_500_000, False), (1_001_500_001, False)],
)
def test_the_end_of_a_span_is_not_part_of_it(at_us: int, is_held: bool) -> None:
    assert SPAN.holds(at_us) is is_held


def test_seconds_are_exact() -> None:
    fault = EffectiveFault(name="kill", targets=(), span=SPAN, client_span=Span(start_us=500_000, end_us=2_000_000))
    assert SPAN.seconds == 1000.5
    assert fault.seconds_until(1_000_000_000) == 999.0
    assert fault.seconds_since_injection(1_000_000_000) == 999.5
