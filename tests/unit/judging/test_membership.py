"""The periods in which the samples of a partition prove the same consumers and the same owner."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from brokerproof_judging.membership import LONGEST_GAP_US, Sampled, find_unchanged

TIMES = [0, 500_000, 1_000_000, 1_500_000, 2_000_000, 2_500_000]
OWNED: list[Sampled] = [(0, "broker-1")]


def sample(*values: str, times: Sequence[int] = TIMES) -> list[Sampled]:
    return list(zip(times, values, strict=True))


def test_a_period_ends_with_the_last_sample_but_one() -> None:
    # The answer that arrived at the last time may be as old as the sample before it.
    assert list(find_unchanged(sample(*"aaaaaa"), OWNED)) == [(0, 2_000_000)]


@pytest.mark.parametrize(
    ("values", "periods"),
    [
        ("aaabbb", [(0, 500_000), (1_500_000, 2_000_000)]),
        ("aabaaa", [(0, 0), (1_500_000, 2_000_000)]),
        ("ababab", []),
    ],
)
def test_other_consumers_begin_another_period(values: str, periods: list[tuple[int, int]]) -> None:
    assert list(find_unchanged(sample(*values), OWNED)) == periods


@pytest.mark.parametrize(("longer", "periods"), [(0, [(0, 1_500_000)]), (1, [(0, 0), (1_500_001, 1_500_001)])])
def test_a_gap_in_the_samples_ends_a_period(longer: int, periods: list[tuple[int, int]]) -> None:
    after = 500_000 + LONGEST_GAP_US + longer
    times = [0, 500_000, after, after + 500_000]
    assert list(find_unchanged(sample(*"aaaa", times=times), OWNED)) == periods


@pytest.mark.parametrize(
    ("owners", "periods"),
    [
        ([], []),
        ([(0, None)], []),
        ([(0, "")], []),
        ([(0, "broker-1"), (600_000, "broker-1")], [(0, 2_000_000)]),
        ([(0, "broker-1"), (1_200_000, "broker-2")], [(0, 500_000), (1_500_000, 2_000_000)]),
        # A change that no sample of the consumers shows.
        ([(0, "broker-1"), (1_100_000, "broker-2"), (1_200_000, "broker-1")], [(0, 500_000), (1_500_000, 2_000_000)]),
        ([(0, "broker-1"), (1_200_000, None)], [(0, 500_000)]),
    ],
)
def test_a_period_has_one_owner(owners: list[Sampled], periods: list[tuple[int, int]]) -> None:
    assert list(find_unchanged(sample(*"aaaaaa"), owners)) == periods
