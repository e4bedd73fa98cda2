"""Compares the messages of different parts: positions that two messages name, acks that went back, order across blocks.

Each part leaves what the others need to know of it (`describe_part`): all positions that its messages name, the highest
position acked and the lowest position sent in each short time of a log, and the range of each block of a producer's
messages. `compare_parts` finds from these what makes clean messages suspicious, or witnesses (`Doubts`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from brokerproof.run.tables import AttemptOutcome

from brokerproof_judging.messages.array_files import Sliceable
from brokerproof_judging.messages.clean_messages import PartMessages, select
from brokerproof_judging.messages.dense_arrays import NO_POSITION, NO_TEXT, NO_TIME, Array, PartArrays, Rows
from brokerproof_judging.messages.dense_order import list_groups, list_runs, number_groups, sort_stably

# (cluster, topic, partition)
Log = tuple[str, str, int]
# What is compared of whom: (value, cluster, subscription, incarnation, topic, producer, partition).
BlockKind = tuple[str, str, str, str, str, str, int]

# Shorter than the usual time to an ack, so that acks rarely make a message suspicious that was sent in their bucket.
# All messages that were acked in a suspicious one's bucket are compared with it. Of 20,000 a second, these are four.
BUCKET_US = 200
# Rows of all parts that are compared at once, of up to 16 bytes. A range may have `_ROWS_A_SAMPLE` more of each part.
_ROWS_A_RANGE = 4_000_000
_ROWS_A_SAMPLE = 4096


@dataclass(frozen=True, kw_only=True)
class SortedRows:
    """Rows in the order of the key, which is their first column. Columns may be in a file, and are read by ranges."""

    columns: tuple[Sliceable, ...]
    # The key of each `_ROWS_A_SAMPLE`th row, and of the last one.
    samples: Array

    @classmethod
    def from_columns(cls, *columns: Array) -> SortedRows:
        key = columns[0]
        return cls(columns=columns, samples=np.concatenate([key[::_ROWS_A_SAMPLE], key[-1:]]))

    def read(self, low: int, high: int) -> tuple[Array, ...]:
        """Return the columns of the rows whose keys are at least `low` and less than `high`."""
        first, end = (int(index) for index in np.searchsorted(self.samples, [low, high]))
        # Row i * _ROWS_A_SAMPLE has the key samples[i]. For the last sample, this is behind all rows.
        near = slice(max(0, first - 1) * _ROWS_A_SAMPLE, end * _ROWS_A_SAMPLE)
        key = self.columns[0][near]
        first, end = (near.start + int(index) for index in np.searchsorted(key, [low, high]))
        return key[first - near.start : end - near.start], *(column[first:end] for column in self.columns[1:])


@dataclass(frozen=True, kw_only=True)
class LogOfPart:
    """What a part knows of a log."""

    # One row for each message and position that it names.
    named: SortedRows
    # Each bucket of time, and the highest position whose ack was settled in it.
    settled: SortedRows
    # Each bucket of time, which is early by the clocks' error, and the lowest acked position that was sent in it.
    sent: SortedRows


# (kind, number of the block, lowest value, highest value)
BlockRange = tuple[BlockKind, int, int, int]


@dataclass(frozen=True, kw_only=True)
class PartDescription:
    """What the other parts need to know of a part."""

    logs: Mapping[Log, LogOfPart]
    ranges: Sequence[BlockRange]


@dataclass(frozen=True, kw_only=True)
class DoubtsOfLog:
    """What makes a log's messages suspicious, as sorted arrays."""

    # Positions that two messages name.
    conflicts: Array
    # Buckets of time in which a message may have been sent after the ack of a higher position. A message that was sent
    # in such a bucket is suspicious if its position is below the `limit`.
    buckets: Array
    limits: Array
    # The highest positions that were acked before these buckets. They are of witnesses.
    witnesses: Array


@dataclass(frozen=True, kw_only=True)
class Doubts:
    """What the comparison of parts found. In the ranges `overlaps`, messages of two blocks meet."""

    logs: Mapping[Log, DoubtsOfLog] = field(default_factory=dict)
    overlaps: Sequence[tuple[BlockKind, int, int]] = ()


def describe_part(found: PartMessages, clock_error_us: int) -> PartDescription:
    """Return what other parts need to know."""
    names = found.part.names
    clusters, topics = names["cluster"].texts, names["topic"].texts
    acks, positions = dict(_split_by_log(_list_acks(found))), dict(_split_by_log(_list_positions(found)))
    logs = {}
    empty = np.zeros(0, np.int64)
    for key in {*positions, *acks}:
        settled = sent = (empty, empty)
        if key in acks:
            rows = acks[key]
            settled = _reduce(np.maximum, rows["settled_at"] // BUCKET_US, rows["position"])
            sent = _reduce(np.minimum, (rows["sent_at"] - clock_error_us) // BUCKET_US, rows["position"])
        logs[clusters[key[0]], topics[key[1]], key[2]] = LogOfPart(
            named=SortedRows.from_columns(_sort_runs(positions[key]["position"]) if key in positions else empty),
            settled=SortedRows.from_columns(*settled),
            sent=SortedRows.from_columns(*sent),
        )
    return PartDescription(logs=logs, ranges=list(_list_ranges(found)))


def _list_positions(found: PartMessages) -> Rows:
    """Return a row for each position and message that was acked or stored there, or was delivered from there."""
    names, part = ("cluster", "topic", "partition", "position"), found.part
    listed = []
    for cluster, copy in found.copies.items():
        slot = np.flatnonzero(found.clean & copy.is_required)
        topic, partition = found.published.topic[slot], found.published.partition[slot]
        columns = (np.full(len(slot), cluster, np.int32), topic, partition, copy.position[slot])
        listed.append(dict(zip(names, columns, strict=True)))
    others = []
    for table in (part.publishes, part.stored, part.deliveries):
        is_clean = np.zeros(len(table["slot"]), bool)
        is_clean[table["slot"] >= 0] = found.clean[table["slot"][table["slot"] >= 0]]
        others.append(
            select(
                {name: table[name] for name in (*names, "producer", "seq")},
                ~is_clean & (table["position"] != NO_POSITION),
            )
        )
    rows = {name: np.concatenate([each[name] for each in others]) for name in (*names, "producer", "seq")}
    rows = select(rows, _is_first(rows))
    return {name: np.concatenate([rows[name], *(each[name] for each in listed)]) for name in names}


def _is_first(rows: Rows) -> Array:
    """Return which rows differ in a column from all rows before them."""
    count = len(rows["position"])
    sort = np.lexsort(tuple(rows.values()))
    is_new = np.zeros(count, bool)
    is_new[:1] = True
    for values in rows.values():
        is_new[1:] |= values[sort][1:] != values[sort][:-1]
    first = np.zeros(count, bool)
    first[sort[is_new]] = True
    return first


def _list_acks(found: PartMessages) -> Rows:
    rows = found.part.publishes
    acked = rows["outcome"] == found.part.names["outcome"].find(AttemptOutcome.ACKED)
    acked &= (rows["position"] != NO_POSITION) & (rows["sent_at"] != NO_TIME) & (rows["settled_at"] >= rows["sent_at"])
    return select(
        {name: rows[name] for name in ("cluster", "topic", "partition", "position", "sent_at", "settled_at")}, acked
    )


def _split_by_log(rows: Rows) -> Iterator[tuple[tuple[int, int, int], Rows]]:
    """Yield the rows of each log."""
    log = [rows.pop(name) for name in ("cluster", "topic", "partition")]
    number = number_groups(*log)
    first, counts = list_groups(number)
    order = sort_stably(number) if len(first) > 1 else slice(None)
    rows = {name: values[order] for name, values in rows.items()}
    for row, count, end in zip(first, counts, np.cumsum(counts), strict=True):
        own = {name: values[end - count : end] for name, values in rows.items()}
        yield (int(log[0][row]), int(log[1][row]), int(log[2][row])), own


def _sort_runs(values: Array) -> Array:
    # Positions of blocks and parts are sorted runs. A stable sort merges them in a third to a tenth of the time.
    return np.sort(values, kind="stable")


def _reduce(extreme: Any, bucket: Array, value: Array) -> tuple[Array, Array]:
    """Return the buckets in ascending order, and the extreme value of each."""
    order = np.argsort(bucket, kind="stable")
    bucket, value = bucket[order], value[order]
    starts = list_runs(bucket)
    return bucket[starts], extreme.reduceat(value, starts) if len(starts) else value


def _list_ranges(found: PartMessages) -> Iterator[BlockRange]:
    names = {name: each.texts for name, each in found.part.names.items()}
    labels = label_incarnations(found.part)
    topic, producer, number = found.part.slots.split_blocks()
    for each in found.ranges:
        subscription = "" if each.subscription is None else names["subscription"][each.subscription]
        for index, block in enumerate(each.block):
            incarnation = labels[int(each.incarnation[index])] if each.value == "arrival" else ""
            kind = (
                *(each.value, names["cluster"][each.cluster], subscription, incarnation),
                *(names["topic"][int(topic[block])], names["producer"][int(producer[block])]),
                int(each.partition[index]),
            )
            yield kind, int(number[block]), int(each.lowest[index]), int(each.highest[index])


def label_incarnations(part: PartArrays) -> dict[int, str]:
    """Return a text for the subscription, consumer and incarnation of deliveries, by the number of the incarnation.

    The text is the same in all parts.
    """
    rows, labels = part.deliveries, {}
    for row in list_groups(rows["consumer_incarnation"])[0]:
        numbers = {name: rows[name][row] for name in ("cluster", "subscription", "consumer")}
        texts = [None if number == NO_TEXT else part.names[name].texts[number] for name, number in numbers.items()]
        labels[int(rows["consumer_incarnation"][row])] = json.dumps([*texts, int(rows["incarnation"][row])])
    return labels


def compare_parts(parts: Iterable[PartDescription]) -> Doubts:
    """Return what makes messages of the parts suspicious."""
    of_logs: dict[Log, list[LogOfPart]] = defaultdict(list)
    ranges: dict[BlockKind, list[tuple[int, int, int]]] = defaultdict(list)
    for part in parts:
        for log, known in part.logs.items():
            of_logs[log].append(known)
        for kind, *block in part.ranges:
            ranges[kind].append((block[0], block[1], block[2]))
    return Doubts(
        logs={log: doubts for log, known in of_logs.items() if (doubts := _compare_log(known)) is not None},
        overlaps=[
            (kind, *overlap)
            for kind, blocks in ranges.items()
            for overlap in _find_overlaps(blocks, may_tie=kind[0] == "received_at")
        ],
    )


def _compare_log(known: Sequence[LogOfPart]) -> DoubtsOfLog | None:
    conflicts = _find_conflicts([each.named for each in known])
    buckets, limits, before = _find_regressed(known)
    if not len(conflicts) and not len(buckets):
        return None
    return DoubtsOfLog(conflicts=conflicts, buckets=buckets, limits=limits, witnesses=np.unique(before))


def _divide(parts: Sequence[SortedRows]) -> Iterator[tuple[int, int]]:
    """Yield the lowest key of each range, and that of the next one. Together, the ranges have all keys of all parts.

    Ranges are compared one by one, so that the rows of all parts are never in memory together.
    """
    edges = np.sort(np.concatenate([each.samples for each in parts]))[:: max(1, _ROWS_A_RANGE // _ROWS_A_SAMPLE)]
    edges = np.append(np.unique(edges), np.iinfo(np.int64).max)
    yield from pairwise(edges.tolist())


def _read(parts: Sequence[SortedRows], low: int, high: int) -> tuple[Array, ...]:
    read = (each.read(low, high) for each in parts)
    return tuple(np.concatenate(columns) for columns in zip(*read, strict=True))


def _find_conflicts(parts: Sequence[SortedRows]) -> Array:
    """Return the positions that are named twice, in ascending order."""
    conflicts = [np.zeros(0, np.int64)]
    for low, high in _divide(parts):
        named = _sort_runs(_read(parts, low, high)[0])
        conflicts.append(np.unique(named[1:][named[1:] == named[:-1]]))
    return np.concatenate(conflicts)


def _find_regressed(known: Sequence[LogOfPart]) -> tuple[Array, Array, Array]:
    """Return the buckets of time in which a message may have been sent after the ack of a higher position.

    The second array has the highest position acked by the end of each bucket, the third one that acked before it.
    """
    settled_parts, sent_parts = [each.settled for each in known], [each.sent for each in known]
    found = [(np.zeros(0, np.int64),) * 3]
    highest_before = NO_POSITION
    for low, high in _divide([*settled_parts, *sent_parts]):
        settled, highest = _reduce(np.maximum, *_read(settled_parts, low, high))
        sent, lowest = _reduce(np.minimum, *_read(sent_parts, low, high))
        highest = np.maximum.accumulate(np.concatenate([np.full(1, highest_before), highest]))
        through = highest[np.searchsorted(settled, sent, "right")]
        before = highest[np.searchsorted(settled, sent, "left")]
        went_back = lowest < through
        found.append((sent[went_back], through[went_back], before[went_back]))
        highest_before = highest[-1]
    buckets, limits, earlier = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return buckets, limits, earlier


def _find_overlaps(blocks: Sequence[tuple[int, int, int]], *, may_tie: bool) -> Iterator[tuple[int, int]]:
    """Yield the ranges in which a block has values that are not below all values of the later blocks."""
    above = None
    for _, lowest, highest in sorted(blocks):
        if above is not None and (lowest < above if may_tie else lowest <= above):
            yield lowest, above
        above = highest if above is None else max(above, highest)
