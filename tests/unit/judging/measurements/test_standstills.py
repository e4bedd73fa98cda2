"""How long nothing is proven, if a client or the monitor may have caused a wait itself."""

from __future__ import annotations

import pytest
from brokerproof_judging.measurements.standstills import find_proven_end, list_causes, list_free_times


@pytest.mark.parametrize(
    ("causes", "proven"),
    [
        ([], 25),
        # A cause ends at the moment itself, or before it.
        ([(20, 25)], 20),
        ([(20, 24)], 25),
        ([(25, 30)], 25),
        # The second cause begins inside the first one, in both orders.
        ([(10, 20), (15, 30)], 10),
        ([(15, 30), (10, 20)], 10),
        # They do not touch.
        ([(10, 14), (15, 30)], 15),
    ],
)
def test_the_proven_end_lies_in_no_cause(causes: list[tuple[int, int]], proven: int) -> None:
    assert find_proven_end(causes, 25) == proven


@pytest.mark.parametrize(
    ("standstills", "lead", "causes"),
    [
        ([], 0, []),
        # The messages that came due meanwhile take as long again, and at least the lead.
        ([(10, 20)], 0, [(10, 30)]),
        ([(10, 12)], 5, [(10, 17)]),
        # The second one begins while the first one has an effect, at its last moment, and after it.
        ([(10, 20), (25, 30)], 0, [(10, 35)]),
        ([(10, 20), (30, 31)], 0, [(10, 32)]),
        ([(10, 20), (31, 32)], 0, [(10, 30), (31, 33)]),
        # The shorter one ends before the longer one, although it is given first.
        ([(12, 13), (10, 20)], 0, [(10, 30)]),
    ],
)
def test_a_standstill_has_an_effect_until_the_client_has_caught_up(
    standstills: list[tuple[int, int]], lead: int, causes: list[tuple[int, int]]
) -> None:
    assert list_causes(standstills, lead) == causes


def test_the_times_between_the_effects_of_standstills_are_free() -> None:
    (first, second, third) = list_free_times({"p0": [(10, 20), (50, 60)]}, 15)
    assert (first[0], first[2], second, third[0], third[1]) == ("p0", 10, ("p0", 35, 50), "p0", 75)
    assert first[1] < 0
    assert third[2] > 2**60
