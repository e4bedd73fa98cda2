"""A measurement and its bounds, in each relation that they can have, and the words for it."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import pytest
from brokerproof_judging.suites.tally import Tally

HELD, UNEXPECTED, UNDECIDED, LEGAL = "held", "unexpected", "undecided", "legal"


@pytest.fixture(scope="module")
def expectations() -> ModuleType:
    """The module under test, which imports Great Expectations. That would take seconds while pytest collects."""
    from brokerproof_judging.suites import measurement_expectation

    return measurement_expectation


def row(value: float | None = None, **columns: Any) -> dict[str, Any]:
    """A row of `measurements`, without bounds of its own."""
    bare = dict.fromkeys(("at_least", "at_most", "minimum", "maximum", "doubt", "cut_off_by"))
    return {"subject": "killed", "unit": "s", "value": value, **bare, **columns}


@pytest.mark.parametrize(
    ("columns", "minimum", "maximum", "result"),
    [
        # The suite's bounds, both ends included.
        ({"value": 5.0}, 5.0, 5.0, HELD),
        ({"value": 4.9}, 5.0, None, UNEXPECTED),
        ({"value": 5.1}, None, 5.0, UNEXPECTED),
        # The scenario's own bound allows more than the suite's, or less.
        ({"value": 0.7, "minimum": 0.5}, 0.9, None, LEGAL),
        ({"value": 0.7, "minimum": 0.8}, 0.6, None, UNEXPECTED),
        ({"value": 7.0, "maximum": 9.0}, None, 5.0, LEGAL),
        ({"value": 7.0, "maximum": 6.0}, None, 9.0, UNEXPECTED),
        ({"value": 7.0, "maximum": 9.0}, 1.0, 8.0, HELD),
        # The scenario sets one bound, and the suite's other one stays in force.
        ({"value": 0.7, "maximum": 9.0}, 0.9, None, UNEXPECTED),
        # Limits of a value.
        ({"at_least": 6.0}, None, 5.0, UNEXPECTED),
        ({"at_least": 4.0}, None, 5.0, UNDECIDED),
        ({"at_most": 6.0}, None, 5.0, UNDECIDED),
        ({"at_most": 4.0}, None, 5.0, HELD),
        ({"at_least": 0.0, "at_most": 4.0}, None, 5.0, HELD),
        ({"at_most": 4.0}, 5.0, None, UNEXPECTED),
        ({"at_least": 6.0, "at_most": 8.0, "maximum": 9.0}, None, 5.0, LEGAL),
        ({"at_least": 0.6, "at_most": 0.7, "minimum": 0.5}, 0.9, None, LEGAL),
        # No value, a doubt, or a bound that is no number.
        ({"value": None}, None, 5.0, UNDECIDED),
        ({"value": math.nan}, None, 5.0, UNDECIDED),
        ({"value": 1.0, "doubt": "why"}, None, 5.0, UNDECIDED),
        ({"value": 9.0, "doubt": "why"}, None, 5.0, UNDECIDED),
        ({"value": 1.0, "maximum": math.nan}, None, 5.0, UNDECIDED),
        ({"value": 1.0}, None, math.nan, UNDECIDED),
        ({"value": 1.0}, math.nan, None, UNDECIDED),
    ],
)
@pytest.mark.parametrize("required", [False, True])
def test_a_value_is_compared_with_the_bounds_in_force(
    expectations: ModuleType,
    columns: dict[str, Any],
    minimum: float | None,
    maximum: float | None,
    result: str,
    required: bool,
) -> None:
    found = expectations.find_bound_result(row(**columns), minimum=minimum, maximum=maximum, required=required)
    assert found == result


@pytest.mark.parametrize(
    ("columns", "required", "result"),
    [
        ({"value": 5.0}, True, HELD),
        ({"value": None}, True, UNDECIDED),
        ({"value": math.nan}, True, UNDECIDED),
        # What a later fault cut off is not missing.
        ({"value": None, "cut_off_by": "next"}, True, HELD),
        ({"value": None}, False, HELD),
        ({"value": None, "doubt": "why"}, False, HELD),
    ],
)
def test_without_bounds_only_a_required_value_can_be_missing(
    expectations: ModuleType, columns: dict[str, Any], required: bool, result: str
) -> None:
    assert expectations.find_bound_result(row(**columns), minimum=None, maximum=None, required=required) == result


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"value": 51.0}, "51 s"),
        ({"value": 0.0}, "0 s"),
        ({"at_least": 61.0}, "at least 61 s"),
        ({"at_most": 9.0}, "at most 9 s"),
        ({"at_least": 1.0, "at_most": 9.0}, "at least 1 s"),
        ({"value": None}, "not measured"),
        ({"value": math.nan}, "not measured"),
    ],
)
def test_a_value_in_words(expectations: ModuleType, columns: dict[str, Any], words: str) -> None:
    assert expectations.describe_value(row(**columns)) == words


@pytest.mark.parametrize(
    ("columns", "minimum", "maximum", "words"),
    [
        ({}, None, None, "51 s of killed"),
        ({"subject": ""}, None, None, "51 s"),
        ({"subject": None}, None, 90.0, "51 s (at most 90 s)"),
        ({}, 5.0, None, "51 s of killed (at least 5 s)"),
        ({}, 5.0, 90.0, "51 s of killed (at least 5 s, at most 90 s)"),
        ({"maximum": 60.0}, None, 90.0, "51 s of killed (at most 60 s)"),
        ({"minimum": 6.0}, 5.0, None, "51 s of killed (at least 6 s)"),
        ({"minimum": math.nan}, 5.0, None, "51 s of killed"),
    ],
)
def test_a_value_in_words_has_its_subject_and_the_bounds_in_force(
    expectations: ModuleType, columns: dict[str, Any], minimum: float | None, maximum: float | None, words: str
) -> None:
    assert expectations._describe_value(row(51.0, **columns), minimum, maximum) == words


@pytest.mark.parametrize(
    ("observed", "rows", "words"),
    [([], 0, "nothing was measured"), (["a", "b"], 2, "a; b"), (["a", "b"], 7, "a; b; and 5 more")],
)
def test_the_values_that_are_not_shown_are_counted(
    expectations: ModuleType, observed: list[str], rows: int, words: str
) -> None:
    tally = Tally(rows=rows, unexpected=0, undecided=0, legal=0)
    expectation = expectations.ExpectMeasurementWithinBounds(metric="rto_s")
    assert expectation.describe_observed({"brokerproof.bound_results": (tally, [], observed)}, tally) == words
