"""How long nothing is proven, if a client or the monitor may have caused a wait itself."""

from __future__ import annotations

import pytest
from brokerproof_judging.measurements.standstills import find_proven_end


@pytest.mark.parametrize(
    ("causes", "proven"),
    [
        ([], 25),
        # A cause ends at the moment itself, or before it.
        ([(20, 25)], 20),
        ([(20, 24)], 25),
        ([(25, 30)], 25),
        # The second cause begins inside the first one, in whatever order they are given.
        ([(10, 20), (15, 30)], 10),
        ([(15, 30), (10, 20)], 10),
        # They do not touch.
        ([(10, 14), (15, 30)], 15),
    ],
)
def test_the_proven_end_lies_in_no_cause(causes: list[tuple[int, int]], proven: int) -> None:
    assert find_proven_end(causes, 25) == proven
