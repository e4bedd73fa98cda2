"""When a load counts as steady."""

from __future__ import annotations

from brokerproof.faults.steady_load import SteadyLoad


def test_a_second_without_a_known_rate_interrupts_the_seconds_at_the_target_rate() -> None:
    load = SteadyLoad(100, 0, max_pending=10)
    for second, count in enumerate([0, 100, 200]):
        load.add(count, second, 50, pending=0)
    # A new owner of the topic counts from 0, and nothing says what the topic received in this second.
    assert load.add(5, 3, 50, pending=0) is None
    for second, count in ((4, 105), (5, 205)):
        load.add(count, second, 50, pending=0)
        assert not load.is_steady
    load.add(305, 6, 50, pending=0)
    assert load.is_steady
