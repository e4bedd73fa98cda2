"""Compares messages of a group by arrays: by position, by time of delivery, or by arrival.

A group has the messages of one producer, or of one of its keys, in one partition and to one incarnation of a consumer.

A message is *late* if one of its group with a higher seq has a lower value, and the other message is *early*. Messages
that are neither late nor early are in order, and SQL judges the order of the others without them.

Clean messages are not late, so they rise: a higher seq has a higher value. What happened before a late message is a
prefix of them, and the last one of the prefix has the highest seq, position and time of all. SQL needs only this one,
the *witness*, to find what it would find with all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from brokerproof_judging.messages.dense_arrays import Array, Mask

_MOST = 1 << 62
# To search for fewer numbers than this share of an array, its elements are read one by one.
_FEW_SOUGHT = 1 / 64


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Messages that are compared, each with its `slot` and `group`. `ordered` has numbers with their order.

    They are ordered by group, and in a group by value. Slots ascend with the seq in a group.
    """

    slot: Array
    group: Array
    ordered: Array
    # Different values in ascending order if they are too far apart for one number, or else None.
    values: Array | None
    lowest: int
    span: int

    @classmethod
    def from_values(cls, slot: Array, group: Array, value: Array) -> Compared:
        lowest, highest = (int(value.min()), int(value.max())) if len(value) else (0, 0)
        values, span = None, highest - lowest + 3
        if len(value) and span * (int(group.max()) + 2) >= _MOST:
            values, value = np.unique(value, return_inverse=True)
            lowest, span = 0, len(values) + 2
        compared = cls(slot=slot, group=group, ordered=value[:0], values=values, lowest=lowest, span=span)
        return replace(compared, ordered=compared.order(group, value))

    def take(self, rows: Array) -> Compared:
        return replace(self, slot=self.slot[rows], group=self.group[rows], ordered=self.ordered[rows])

    def number_by_seq(self, rows: Array | slice, slots: int) -> Array:
        """Return numbers of some rows in the order of group and seq. Each slot is below `slots`."""
        number: Array = self.group[rows] * np.int64(slots)
        number += self.slot[rows]
        return number

    def order(self, group: Array, value: Array) -> Array:
        # Each group has room for a number below and one above its values.
        ordered: Array = group * np.int64(self.span)
        ordered += value
        ordered -= self.lowest - 1
        return ordered


@dataclass(frozen=True, kw_only=True)
class Rising:
    """Messages that rise: some `rows` of `compared`, by group and seq."""

    compared: Compared
    rows: Array

    def count_lower_seqs(self, sought: Compared) -> Array:
        """Return how many of these messages have a lower seq in the group of each sought one, or a lower group."""
        slots = int(self.compared.slot.max(initial=0)) + 1
        return self._search(
            lambda places: self.compared.number_by_seq(self.rows[places], slots),
            sought.number_by_seq(slice(None), slots),
        )

    def count_lower(self, ordered: Array, side: Literal["left", "right"] = "left") -> Array:
        """Return how many of these messages are before each number of `Compared.ordered`."""
        return self._search(lambda places: self.compared.ordered[self.rows[places]], ordered, side)

    def find_places(self, group: Array, value: Array) -> Array:
        """Return how many of these messages are before each value in its group, or in a lower group."""
        if not len(self.rows):
            return np.zeros(len(group), np.int64)
        compared = self.compared
        if compared.values is not None:
            value = np.searchsorted(compared.values, value)
        value = np.clip(value, compared.lowest - 1, compared.lowest + compared.span - 2)
        return self.count_lower(compared.order(np.minimum(group, compared.group[self.rows[-1]] + 1), value))

    def _search(self, read: Callable[[Any], Array], sought: Array, side: Literal["left", "right"] = "left") -> Array:
        """Return what `np.searchsorted` returns for the array whose elements `read` returns by their places."""
        count = len(self.rows)
        if len(sought) >= _FEW_SOUGHT * count:
            places: Array = np.searchsorted(read(slice(None)), sought, side)
            return places
        is_before = np.less if side == "left" else np.less_equal
        low, high = np.zeros(len(sought), np.int64), np.full(len(sought), count)
        for _ in range(count.bit_length()):
            middle = (low + high) >> 1
            is_behind = is_before(read(np.minimum(middle, count - 1)), sought) & (low < high)
            low, high = np.where(is_behind, middle + 1, low), np.where(is_behind, high, middle)
        return low


def find_crossed(compared: Compared, first: int, *, may_tie: bool) -> tuple[Mask, Mask]:
    """Return which messages are late, and which are early. Equal values count as crossed too unless they `may_tie`.

    Among the `first` messages, those of each group are in the order of seq. Most of them rise, and the others are
    compared with these by binary search.
    """
    late, early = (np.zeros(len(compared.slot), bool) for _ in range(2))
    rows, others, ordered = np.arange(first), np.arange(first, len(late)), compared.ordered[:first]
    if _falls(compared.group[:first]):
        rows = sort_stably(compared.group[:first])
        ordered = ordered[rows]
    if (is_crossed := np.logical_or(*_cross(ordered, may_tie=may_tie))).any():
        others, rows = np.concatenate([rows[is_crossed], others]), rows[~is_crossed]
    rising = Rising(compared=compared, rows=rows)
    others = others[np.lexsort((compared.slot[others], compared.group[others]))]
    others_late, others_early = _cross(compared.ordered[others], may_tie=may_tie)
    # How many rising messages have a lower seq, a lower value, and a value that is not higher.
    sought = compared.take(others)
    lower_seq = rising.count_lower_seqs(sought)
    lower, not_higher = rising.count_lower(sought.ordered), rising.count_lower(sought.ordered, "right")
    first_above, end_below = (not_higher, lower) if may_tie else (lower, not_higher)
    late[rows[_list_between(first_above, lower_seq)]] = True
    early[rows[_list_between(lower_seq, end_below)]] = True
    late[others] |= others_late | (lower_seq < end_below)
    early[others] |= others_early | (first_above < lower_seq)
    return late, early


def _cross(ordered: Array, *, may_tie: bool) -> tuple[Mask, Mask]:
    """Return which of the messages, by group and seq, are late, and which are early."""
    late, early = (np.zeros(len(ordered), bool) for _ in range(2))
    is_crossed = np.greater if may_tie else np.greater_equal
    if is_crossed(ordered[:-1], ordered[1:]).any():
        late[:-1] = is_crossed(ordered[:-1], np.minimum.accumulate(ordered[::-1])[::-1][1:])
        early[1:] = is_crossed(np.maximum.accumulate(ordered)[:-1], ordered[1:])
    return late, early


def _list_between(first: Array, end: Array) -> Array:
    """Return the places in ranges, in ascending order. A range whose end is before its beginning has none."""
    is_range = first < end
    if not is_range.any():
        return np.zeros(0, np.int64)
    first, end = first[is_range], end[is_range]
    count = int(end.max()) + 1
    return np.flatnonzero(np.cumsum(np.bincount(first, minlength=count) - np.bincount(end, minlength=count)))


def _falls(values: Array) -> bool:
    return bool((values[1:] < values[:-1]).any())


def find_witnesses(rising: Rising, group: Array, value: Array) -> Array:
    """Return the slots of the last rising message with a lower value in the group of each value, if there is one.

    If a group has none, the last message of a lower group is among the slots.
    """
    place = rising.find_places(group, value) - 1
    return np.unique(rising.compared.slot[rising.rows[place[place >= 0]]])


def sort_stably(group: Array) -> Array:
    """Return the rows in the order of their groups, which are not negative."""
    # A stable sort of 16 bits is a radix sort, which takes a third of the time of others.
    order: Array = np.argsort(group.astype(np.uint16), kind="stable")
    for shift in range(16, int(group.max(initial=0)).bit_length(), 16):
        order = order[np.argsort((group >> shift).astype(np.uint16)[order], kind="stable")]
    return order


def number_groups(*columns: Array) -> Array:
    """Return a small number for each different combination of values, the same for equal combinations."""
    number = np.zeros(len(columns[0]), np.int64)
    count = 1
    for column in columns:
        lowest, highest = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        if lowest == highest:
            continue
        if count * (highest - lowest + 1) >= _MOST:
            number, column = (np.unique(each, return_inverse=True)[1] for each in (number, column))
            lowest, highest, count = 0, int(column.max()), int(number.max()) + 1
        if count > 1:
            number *= highest - lowest + 1
        number += column
        number -= lowest
        count *= highest - lowest + 1
    if count >= 4 * len(number) + (1 << 16):
        number = np.unique(number, return_inverse=True)[1]
    return number


def list_groups(number: Array) -> tuple[Array, Array]:
    """Return the first row of each group, and its number of rows. `number_groups` numbered the groups."""
    counts = np.bincount(number)
    first = np.empty(len(counts), np.int64)
    runs = list_runs(number)
    first[number[runs][::-1]] = runs[::-1]
    exists = counts > 0
    return first[exists], counts[exists]


def is_in_groups(number: Array, wanted: Array) -> Mask:
    """Return which rows are in the wanted groups. `number_groups` numbered the groups."""
    is_wanted = np.zeros(int(number.max(initial=0)) + 1, bool)
    is_wanted[wanted] = True
    mask: Mask = is_wanted[number]
    return mask


def list_runs(values: Array) -> Array:
    """Return the first row of each run of equal values."""
    is_first = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def is_rising(group: Array, order: Array, value: Array) -> bool:
    """Return whether values never fall within a group, in the order of `order`."""
    if not len(group):
        return True
    if (group != group[0]).any() or (order[:-1] > order[1:]).any():
        rows = np.lexsort((order, group))
        group, value = group[rows], value[rows]
    return not ((group[:-1] == group[1:]) & (value[:-1] > value[1:])).any()


def join_by_slot(slot: Array, sorted_slot: Array) -> tuple[Array, Array]:
    """Return the indices of all pairs with an equal slot: in `slot`, and in `sorted_slot`."""
    low, high = np.searchsorted(sorted_slot, slot, "left"), np.searchsorted(sorted_slot, slot, "right")
    count = high - low
    first_of_pairs = np.cumsum(count) - count
    pairs = np.arange(count.sum()) - np.repeat(first_of_pairs, count) + np.repeat(low, count)
    return np.repeat(np.arange(len(slot)), count), pairs
