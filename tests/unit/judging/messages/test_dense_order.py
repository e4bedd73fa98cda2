"""Groups of rows: their order, their first rows and their runs, compared with numpy's general functions."""

from __future__ import annotations

import numpy as np
import pytest
from brokerproof_judging.messages.dense_order import list_groups, list_runs, sort_stably


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
