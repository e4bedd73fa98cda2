"""Rates of repeated runs: their intervals, whether two of them differ, and how many runs that needs."""

from __future__ import annotations

from math import comb

import pytest
from brokerproof.results import rates
from brokerproof.results.rates import Rate, compare_rates, compute_rate, count_runs_needed, list_rates


def failed(number: int, n: int) -> Rate:
    return compute_rate(["failed"] * number + ["passed"] * (n - number))


def test_a_rate_counts_only_runs_that_passed_or_failed() -> None:
    rate = compute_rate(["failed", "passed", "unknown", "no_data", "failed"])
    assert (rate.failed, rate.n, rate.share) == (2, 3, 2 / 3)
    nothing = compute_rate(["unknown", "unknown"])
    assert (nothing.n, nothing.share, nothing.low, nothing.high) == (0, None, 0.0, 1.0)
    assert str(nothing) == "no run was judged"


@pytest.mark.parametrize(
    ("number", "n", "low", "high"),
    [
        # The ends have closed forms: (alpha / 2) ** (1 / n) if every run failed, and its mirror image if none did.
        (2, 2, 0.025**0.5, 1.0),
        (0, 3, 0.0, 1 - 0.025 ** (1 / 3)),
        # Clopper and Pearson's own example of 1934 has 10 and n = 20.
        (10, 20, 0.272, 0.728),
    ],
)
def test_the_interval_is_that_of_clopper_and_pearson(number: int, n: int, low: float, high: float) -> None:
    rate = failed(number, n)
    assert (rate.low, rate.high) == (pytest.approx(low, abs=5e-4), pytest.approx(high, abs=5e-4))


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [
        ((2, 2), (0, 2), False),
        ((3, 3), (0, 3), True),
        ((4, 5), (1, 5), False),
        ((5, 5), (1, 5), True),
        ((3, 3), (3, 3), False),
        ((0, 3), (0, 30), False),
    ],
)
def test_two_rates_differ_if_chance_hardly_explains_them(
    first: tuple[int, int], second: tuple[int, int], differs: bool
) -> None:
    found = compare_rates(failed(*first), failed(*second))
    again = compare_rates(failed(*second), failed(*first))
    assert found is not None
    assert again is not None
    assert found.differs is again.differs is differs
    assert found.probability == pytest.approx(again.probability)


def test_a_rate_of_no_run_is_compared_with_nothing() -> None:
    assert compare_rates(failed(2, 2), compute_rate(["unknown"])) is None


def test_a_difference_of_noise_is_found_in_at_most_5_of_100() -> None:
    n = 6
    told_apart = [
        (a, b)
        for a in range(n + 1)
        for b in range(a)
        if (difference := compare_rates(failed(a, n), failed(b, n))) is not None and difference.differs
    ]
    for rate in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        chance = [comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(n + 1)]
        assert 0 < sum(2 * chance[a] * chance[b] for a, b in told_apart) <= 0.05


def test_the_more_two_rates_differ_the_fewer_runs_are_needed() -> None:
    needed = [count_runs_needed(0.0, rate) for rate in (1.0, 0.9, 0.7, 0.5)]
    assert needed[0] == 3
    assert None not in needed
    assert needed == sorted(needed, key=lambda n: n or 0)
    assert count_runs_needed(0.3, 0.3) is None
    assert count_runs_needed(0.01, 0.02) is None
    assert count_runs_needed(1.0, 0.0) == count_runs_needed(0.0, 1.0)


@pytest.mark.parametrize("n", range(2, 13))
def test_each_pair_that_is_told_apart_is_counted_once(n: int) -> None:
    every = [
        (a, b)
        for a in range(n + 1)
        for b in range(n + 1)
        if a != b and rates._compute_probability(max(a, b), n, min(a, b), n) <= rates.LEVEL
    ]
    assert sorted(rates._list_told_apart(n)) == every


def test_each_group_is_compared_with_the_first_one() -> None:
    runs = [(name, verdict) for _ in range(3) for name, verdict in (("4.0.6", "failed"), ("4.0.8", "passed"))]
    rows = list_rates([*runs, ("4.0.8", "unknown"), ("4.1", "unknown")])
    assert [str(row) for row in rows] == [
        "4.0.6: failed in 3 of 3 (29% to 100%)",
        "4.0.8: failed in 0 of 3 (0% to 71%), and 1 without a verdict; differs, by chance in at most 0.032",
        "4.1: no run was judged, and 1 without a verdict",
    ]
    few = list_rates([("a", "failed"), ("b", "passed"), ("a", "failed"), ("b", "passed")])
    assert (
        str(few[1])
        == "b: failed in 0 of 2 (0% to 84%); not told apart, by chance in at most 0.125; 3 runs of each needed"
    )
