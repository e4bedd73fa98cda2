"""Compares messages of one producer, key and partition by arrays: by position, by time of delivery, or by arrival.

A message is *late* if one of its group with a higher seq has a lower value, and the other message is *early*. Messages
that are neither late nor early are in order, and SQL judges the order of the others without them.

Clean messages are not late, so they rise: a higher seq has a higher value. What happened before a late message is a
prefix of them, and the last one of the prefix has the highest seq, position and time of all. SQL needs only this one,
the *witness*, to find what it would find with all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from brokerproof_judging.messages.dense_arrays import Array, Mask

_MOST = 1 << 62


@dataclass(frozen=True, kw_only=True)
class BySeq:
    """Messages by group and seq, each with its `slot` and `group`, and numbers that are `ordered` like them."""

    slot: Array
    group: Array
    ordered: Array
    # Different values in ascending order if they are too far apart for one number, or else None.
    values: Array | None
    lowest: int
    span: int

    @classmethod
    def from_sorted(cls, slot: Array, group: Array, value: Array) -> BySeq:
        lowest, highest = (int(value.min()), int(value.max())) if len(value) else (0, 0)
        values, span = None, highest - lowest + 3
        if len(value) and span * (int(group[-1]) + 2) >= _MOST:
            values, value = np.unique(value, return_inverse=True)
            lowest, span = 0, len(values) + 2
        by_seq = cls(slot=slot, group=group, ordered=value[:0], values=values, lowest=lowest, span=span)
        return replace(by_seq, ordered=by_seq._order(group, value))

    def take(self, chosen: Array) -> BySeq:
        return replace(self, slot=self.slot[chosen], group=self.group[chosen], ordered=self.ordered[chosen])

    def _order(self, group: Array, value: Array) -> Array:
        # Each group has room for a number below and one above its values.
        ordered: Array = group * np.int64(self.span) + (value - (self.lowest - 1))
        return ordered

    def find_places(self, group: Array, value: Array, side: Literal["left", "right"]) -> Array:
        """Return how many of these messages, which rise, are before each value in its group, or in a lower group."""
        if not len(self.group):
            return np.zeros(len(group), np.int64)
        if self.values is not None:
            value, side = np.searchsorted(self.values, value, side), "left"
        value = np.clip(value, self.lowest - 1, self.lowest + self.span - 2)
        places: Array = np.searchsorted(self.ordered, self._order(np.minimum(group, self.group[-1] + 1), value), side)
        return places


def find_crossed(by_seq: BySeq, *, may_tie: bool) -> tuple[Mask, Mask]:
    """Return which messages are late, and which are early. Equal values count as crossed too unless they `may_tie`."""
    ordered, is_crossed = by_seq.ordered, np.greater if may_tie else np.greater_equal
    late, early = (np.zeros(len(ordered), bool) for _ in range(2))
    late[:-1] = is_crossed(ordered[:-1], np.minimum.accumulate(ordered[::-1])[::-1][1:])
    early[1:] = is_crossed(np.maximum.accumulate(ordered)[:-1], ordered[1:])
    return late, early


def find_witnesses(rising: BySeq, group: Array, value: Array) -> Array:
    """Return the slots of the last rising message with a lower value in the group of each value, if there is one.

    If a group has none, the last message of a lower group is among the slots.
    """
    place = rising.find_places(group, value, "left") - 1
    return np.unique(rising.slot[place[place >= 0]])


def sort_stably(group: Array) -> Array:
    """Return the rows in the order of their groups."""
    # A stable sort of small numbers is a radix sort.
    small = not len(group) or int(group.max()) <= np.iinfo(np.uint16).max
    order: Array = np.argsort(group.astype(np.uint16) if small else group, kind="stable")
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
    first[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    exists = counts > 0
    return first[exists], counts[exists]


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
