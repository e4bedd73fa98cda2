"""When a source of samples counts as silent after a fault."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof_judging.measurements.samples import SILENCE_US
from brokerproof_judging.measurements.waiting import is_silent

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
