"""Compares messages of one producer, key and partition by arrays: by position, by time of delivery, or by arrival.

The clean messages of a group rise: a higher seq has a higher value. So what happened before a message of any other kind
is a prefix of the clean ones, and the last one of the prefix has the highest seq, position and time of all. SQL needs
only this one, the *witness*, to find what it would find with all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from brokerproof_judging.messages.dense_arrays import Array, Mask

_MOST = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Sequence:
    """Messages or rows: the `slot` of each, the number of the `group` in which it is compared, and its `value`."""

    slot: Array
    group: Array
    value: Array


def peel_order(clean: Sequence, *, may_tie: bool) -> tuple[Sequence, Array]:
    """Return the clean messages that rise in their groups, by group and seq, and the slots of the others.

    A message does not rise if one with a higher seq has a lower value, or the same value unless it `may_tie`.
    """
    order = _sort_stably(clean.group)
    slot, group, value = clean.slot[order], clean.group[order], clean.value[order]
    comparable = _combine(group, value)
    lowest_behind = np.minimum.accumulate(comparable[::-1])[::-1]
    rises = np.ones(len(slot), bool)
    if may_tie:
        rises[:-1] = comparable[:-1] <= lowest_behind[1:]
    else:
        rises[:-1] = comparable[:-1] < lowest_behind[1:]
    return Sequence(slot=slot[rises], group=group[rises], value=value[rises]), slot[~rises]


def find_disturbed(rising: Sequence, others: Sequence, slots: int, *, may_tie: bool) -> Array:
    """Return the slots of rising messages with a lower seq and a higher value than a row of `others`.

    A message with the same value counts too unless it `may_tie`.
    """
    low = _find_places(rising, others.group, others.value, "right" if may_tie else "left")
    high = _find_seq_places(rising, others, slots)
    crossed = low < high
    change = np.zeros(len(rising.slot) + 1, np.int64)
    np.add.at(change, low[crossed], 1)
    np.add.at(change, high[crossed], -1)
    return rising.slot[np.cumsum(change[:-1]) > 0]


def find_witnesses(rising: Sequence, others: Sequence) -> Array:
    """Return the slots of the last rising message with a lower value than each row of `others`, if there is one.

    If a group has none, the last message of a lower group is among the slots.
    """
    place = _find_places(rising, others.group, others.value, "left") - 1
    return np.unique(rising.slot[place[place >= 0]])


def _find_places(rising: Sequence, group: Array, value: Array, side: str) -> Array:
    """Return how many rising messages are before each value in its group, or in a lower group."""
    ordered = _combine(np.concatenate([rising.group, group]), np.concatenate([rising.value, value]))
    count = len(rising.group)
    places: Array = np.searchsorted(ordered[:count], ordered[count:], side)  # type: ignore[call-overload]
    return places


def _find_seq_places(rising: Sequence, others: Sequence, slots: int) -> Array:
    group = rising.group.astype(np.int64) * slots + rising.slot
    places: Array = np.searchsorted(group, others.group.astype(np.int64) * slots + others.slot)
    return places


def _combine(group: Array, value: Array) -> Array:
    """Return numbers that are ordered by group, then by value."""
    if not len(value):
        return np.zeros(0, np.int64)
    lowest, groups = int(value.min()), int(group.max()) + 1
    span = int(value.max()) - lowest + 1
    if span * groups >= _MOST:
        value = np.unique(value, return_inverse=True)[1]
        lowest, span = 0, int(value.max()) + 1
    combined: Array = group.astype(np.int64) * span + (value - lowest)
    return combined


def _sort_stably(group: Array) -> Array:
    # A stable sort of small numbers is a radix sort.
    small = not len(group) or int(group.max()) <= np.iinfo(np.uint16).max
    order: Array = np.argsort(group.astype(np.uint16) if small else group, kind="stable")
    return order


def number_groups(*columns: Array) -> Array:
    """Return a small number for each different combination of values, the same for equal combinations."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        lowest = int(column.min()) if len(column) else 0
        span = int(column.max()) - lowest + 1 if len(column) else 1
        if (int(number.max()) + 1 if len(number) else 1) * span >= _MOST:
            number, column = (np.unique(each, return_inverse=True)[1] for each in (number, column))
            lowest, span = 0, int(column.max()) + 1
        number = number * span + (column.astype(np.int64) - lowest)
    if len(number) and int(number.max()) >= 4 * len(number) + (1 << 16):
        number = np.unique(number, return_inverse=True)[1]
    return number


def is_rising(group: Array, order: Array, value: Array) -> bool:
    """Return whether values never fall within a group, in the order of `order`."""
    if not len(group):
        return True
    is_sorted = (group == group[0]).all() and (order[:-1] <= order[1:]).all()
    rows = np.arange(len(group)) if is_sorted else np.lexsort((order, group))
    before, behind = rows[:-1], rows[1:]
    return not ((group[before] == group[behind]) & (value[before] > value[behind])).any()


def mark(slots: int, *found: Array) -> Mask:
    """Return which of `slots` slots are in one of the lists."""
    marked = np.zeros(slots, bool)
    for each in found:
        marked[each] = True
    return marked


def join_by_slot(slot: Array, sorted_slot: Array) -> tuple[Array, Array]:
    """Return the indices of all pairs with an equal slot: in `slot`, and in `sorted_slot`."""
    low, high = np.searchsorted(sorted_slot, slot, "left"), np.searchsorted(sorted_slot, slot, "right")
    count = high - low
    first_of_pairs = np.cumsum(count) - count
    pairs = np.arange(count.sum()) - np.repeat(first_of_pairs, count) + np.repeat(low, count)
    return np.repeat(np.arange(len(slot)), count), pairs
