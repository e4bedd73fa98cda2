"""Groups of rows: their order, their first rows and their runs, compared with numpy's general functions.

Which messages are crossed, and which are witnesses, is compared with all pairs of messages.
"""

from __future__ import annotations

import numpy as np
import pytest
from brokerproof_judging.messages.dense_order import (
    Compared,
    Rising,
    find_crossed,
    find_witnesses,
    list_groups,
    list_runs,
    sort_stably,
)


@pytest.mark.parametrize("highest", [0, 3, 0xFFFF, 0x10000, 0xFFFF_FFFF, 0x1_0000_0000, 1 << 60])
def test_rows_of_one_group_keep_their_order(highest: int) -> None:
    random = np.random.default_rng(highest)
    # Most groups have several rows.
    group = random.choice(random.integers(0, highest, 50, endpoint=True), 500)
    group[7] = highest

    assert sort_stably(group).tolist() == np.argsort(group, kind="stable").tolist()


def test_no_row_is_sorted_and_has_no_group() -> None:
    empty = np.zeros(0, np.int64)

    assert sort_stably(empty).tolist() == list_runs(empty).tolist() == []
    assert [each.tolist() for each in list_groups(empty)] == [[], []]


def test_a_group_has_its_first_row_and_its_number_of_rows_in_several_runs() -> None:
    number = np.array([3, 3, 0, 3, 0, 0, 5])

    first, count = list_groups(number)

    assert first.tolist() == [2, 0, 6]
    assert count.tolist() == [3, 3, 1]
    assert list_runs(number).tolist() == [0, 2, 3, 4, 6]


# Numbers of messages of which most rise, and of all others. Few others are sought in another way than many.
FIRST_AND_OTHERS = [(0, 0), (0, 7), (1, 1), (5, 0), (40, 30), (400, 3), (3000, 1), (3000, 5)]


@pytest.mark.parametrize("may_tie", [False, True])
@pytest.mark.parametrize(("first", "others"), FIRST_AND_OTHERS)
@pytest.mark.parametrize("seed", range(6))
def test_crossed_messages_are_those_of_all_pairs(first: int, others: int, seed: int, may_tie: bool) -> None:
    random = np.random.default_rng(seed)
    slot = random.permutation(first + others)
    slot[:first].sort()
    group = random.integers(0, (1, 3, 50)[seed % 3], first + others)
    # Values rise with the slot, and some are moved, so that some are equal.
    moved = random.random(len(slot)) < (0.002, 0.2)[seed % 2]
    moved[first:] = True
    value = slot + np.where(moved, random.integers(-9, 9, len(slot)), 0)
    highest = (0, 1 << 61)[seed // 3 % 2]

    late, early = find_crossed(Compared.from_values(slot, group, value + highest), first, may_tie=may_tie)

    is_lower = (value[:, None] < value) if may_tie else (value[:, None] <= value)
    is_crossed = (group[:, None] == group) & (slot[:, None] > slot) & is_lower
    assert np.flatnonzero(late).tolist() == np.flatnonzero(is_crossed.any(axis=0)).tolist()
    assert np.flatnonzero(early).tolist() == np.flatnonzero(is_crossed.any(axis=1)).tolist()


@pytest.mark.parametrize("sought", [1, 3, 500])
@pytest.mark.parametrize("seed", range(4))
def test_a_witness_is_the_last_rising_message_with_a_lower_value(seed: int, sought: int) -> None:
    random = np.random.default_rng(seed)
    slot, group = np.arange(3000), random.integers(0, 5, 3000)
    value = 10 * slot + (0, 1 << 61)[seed % 2]
    rising = Rising(compared=Compared.from_values(slot, group, value), rows=sort_stably(group))
    of_group, below = random.integers(0, 5, sought), random.integers(-9, 30_009, sought) + (0, 1 << 61)[seed % 2]

    found = find_witnesses(rising, of_group, below)

    before = [slot[(group == each) & (value < limit)] for each, limit in zip(of_group, below, strict=True)]
    assert {each[-1] for each in before if len(each)} <= set(found.tolist())
    assert len(found) <= sought
