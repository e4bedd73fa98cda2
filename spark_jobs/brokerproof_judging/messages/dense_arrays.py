"""The rows of a part as arrays: texts as numbers, positions as one number each, and a slot for each published message.

A message is a producer and a seq, and seq has no gaps. So a message's slot is computed from its name, and a join of two
tables by message is an array index. clean_messages.py decides by these arrays which messages are clean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from brokerproof.errors import RunError
from brokerproof.run.division import IDENTITY

from brokerproof_judging.recorded_parts import RecordedParts

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
# Columns of a table's rows, by name.
Rows = dict[str, Array]

# A position is one number: the segment, and below it this many bits of the offset and of the batch index + 1.
_OFFSET_BITS, _BATCH_BITS, _SEGMENT_BITS = 28, 12, 22
# In place of null.
NO_POSITION, NO_TEXT = -1, -1
NO_TIME, NO_NUMBER = np.iinfo(np.int64).min, np.iinfo(np.int32).min

# A task holds about 150 bytes of a row in memory.
_MOST_ROWS = 16_000_000
# Slots of messages that were not published take memory too.
_MOST_SLOTS_A_ROW = 4

_TEXTS = ("cluster", "topic", "producer", "key", "subscription", "consumer", "outcome")
_FOUND = ("cluster", "topic", "partition", "producer", "seq", "key", "payload_hash", "segment", "offset", "batch_index")
COLUMNS: Mapping[str, Sequence[str]] = {
    "publishes": (*_FOUND, "epoch", "outcome", "scheduled_at", "sent_at", "settled_at"),
    "stored": _FOUND,
    "deliveries": (*_FOUND, "subscription", "consumer", "incarnation", "arrival", "received_at", "acknowledged_at"),
}
# Null has a meaning in these columns. Rows with null in another column are not described.
_MAY_BE_NULL: Mapping[str, int] = {
    "partition": NO_NUMBER,
    "epoch": 0,
    "segment": NO_POSITION,
    "offset": NO_POSITION,
    "batch_index": -1,
    **dict.fromkeys(("scheduled_at", "sent_at", "settled_at", "acknowledged_at"), NO_TIME),
}


class NotDescribedError(Exception):
    """The arrays cannot describe a row of a part, so the run is judged by SQL alone."""


class Names:
    """Numbers texts in the order in which they are found."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, column: pa.Array) -> Array:
        """Return the number of each text of a dictionary column, and `NO_TEXT` for null."""
        texts = column.dictionary.to_pylist()
        numbers = np.array([*(self.add(text) for text in texts), NO_TEXT], np.int32)
        indices = column.indices.fill_null(len(texts)) if column.null_count else column.indices
        codes: Array = numbers.take(indices.to_numpy(zero_copy_only=False))
        return codes

    def add(self, text: str) -> int:
        """Return the number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    def find(self, text: str) -> int:
        """Return the number of a text, and `NO_TEXT` if it has none."""
        return self._numbers.get(text, NO_TEXT)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def texts(self) -> list[str]:
        """All texts, by their numbers."""
        return list(self._numbers)


def pack_positions(rows: Rows) -> Array:
    """Return each row's position as a number with the same order, and `NO_POSITION` for none."""
    segment, offset, batch = rows.pop("segment"), rows.pop("offset"), rows.pop("batch_index").astype(np.int64)
    batch += 1
    is_placed = segment >= 0
    limits = ((segment, 1 << _SEGMENT_BITS), (offset, 1 << _OFFSET_BITS), (batch, 1 << _BATCH_BITS))
    if not all(_is_below(values, limit) for values, limit in limits):
        fits = np.logical_and.reduce([(values >= 0) & (values < limit) for values, limit in limits])
        if (is_placed & ~fits).any():
            raise NotDescribedError("a position does not fit into a number")
    packed = segment << _OFFSET_BITS + _BATCH_BITS
    packed |= offset << _BATCH_BITS
    packed |= batch
    packed[~is_placed] = NO_POSITION
    return packed


def _is_below(values: Array, limit: int) -> bool:
    """Return whether all values are at least 0, and below the limit."""
    return not len(values) or (int(values.min()) >= 0 and int(values.max()) < limit)


def unpack_positions(positions: Array) -> Rows:
    """Return the columns `segment`, `offset` and `batch_index` of packed positions; the batch index is -1 for null."""
    return {
        "segment": positions >> _OFFSET_BITS + _BATCH_BITS,
        "offset": positions >> _BATCH_BITS & (1 << _OFFSET_BITS) - 1,
        "batch_index": ((positions & (1 << _BATCH_BITS) - 1) - 1).astype(np.int32),
    }


@dataclass(frozen=True, kw_only=True)
class Slots:
    """Numbers the published messages of a part. A block of a topic and producer has consecutive slots, by seq."""

    block: int
    # The blocks in ascending order as numbers, made of these many topics, producers and blocks of a producer.
    blocks: Array
    sizes: tuple[int, int, int]
    # The first slot of each block, and the number of all slots.
    starts: Array

    @classmethod
    def from_publishes(cls, rows: Rows, block: int) -> Slots:
        if not len(rows["seq"]):
            return cls(block=block, blocks=np.zeros(0, np.int64), sizes=(0, 0, 0), starts=np.zeros(1, np.int64))
        number = rows["seq"] // block
        sizes = (int(rows["topic"].max()) + 1, int(rows["producer"].max()) + 1, int(number.max()) + 1)
        if (rows["seq"] < 0).any() or (rows["producer"] == NO_TEXT).any() or sizes[0] * sizes[1] * sizes[2] >= 1 << 62:
            raise NotDescribedError("a published message has no usable name")
        blocks, place = _number_blocks(_combine(rows, number, sizes))
        lengths = np.zeros(len(blocks), np.int64)
        np.maximum.at(lengths, place, rows["seq"] - number * block + 1)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        if starts[-1] > _MOST_SLOTS_A_ROW * len(place) + 1000:
            raise NotDescribedError("the seq of what was published has large gaps")
        return cls(block=block, blocks=blocks, sizes=sizes, starts=starts)

    @property
    def count(self) -> int:
        return int(self.starts[-1])

    @property
    def block_of_slots(self) -> Array:
        """The index of each slot's block."""
        return np.repeat(np.arange(len(self.blocks), dtype=np.int32), np.diff(self.starts))

    def split_blocks(self) -> tuple[Array, Array, Array]:
        """Return the topic, the producer and the number of each block."""
        topics_and_producers, number = np.divmod(self.blocks, max(self.sizes[2], 1))
        return *np.divmod(topics_and_producers, max(self.sizes[1], 1)), number

    def name_blocks(self, producers: Names) -> pa.Table:
        """Return a message of each block, as columns `IDENTITY`. All messages of a block are of one part."""
        _, producer, number = self.split_blocks()
        names = pa.array(producers.texts, pa.string()).take(pa.array(producer))
        empty = pa.nulls(len(number), pa.int64())
        return pa.table([names, number * self.block, empty, empty, empty], names=IDENTITY)

    def find(self, rows: Rows) -> Array:
        """Return the slot of each row's message, and -1 if there is none."""
        number = rows["seq"] // self.block
        wanted = _combine(rows, number, self.sizes)
        columns = (rows["topic"], rows["producer"], number)
        if not all(_is_below(values, size) for values, size in zip(columns, self.sizes, strict=True)):
            known = [(values >= 0) & (values < size) for values, size in zip(columns, self.sizes, strict=True)]
            wanted[~np.logical_and.reduce(known)] = -1
        index = _find_sorted(self.blocks, wanted)
        # The last start and end are for messages of no block.
        starts = np.append(self.starts[:-1] - self.split_blocks()[2] * self.block, np.iinfo(np.int64).min)
        slot = starts.take(index)
        slot += rows["seq"]
        slot[slot >= np.append(self.starts[1:], 0).take(index)] = -1
        return np.maximum(slot, -1, out=slot)


def _find_sorted(values: Array, wanted: Array) -> Array:
    """Return the index of each wanted number in ascending values, and their count if it is not one of them."""
    count = len(values)
    if not count or not len(wanted):
        return np.full(len(wanted), count)
    if int(values[-1]) > 4 * len(wanted) + 1000:
        index = np.searchsorted(values, wanted)
        return np.where(values[np.minimum(index, count - 1)] == wanted, index, count)
    places = np.full(int(values[-1]) + 2, count)
    places[values] = np.arange(count)
    # Other numbers take the last place. Python's index -1 is that place too.
    return places.take(np.minimum(wanted, int(values[-1]) + 1), mode="wrap")


def _combine(rows: Rows, number: Array, sizes: tuple[int, int, int]) -> Array:
    combined: Array = rows["topic"] * np.int64(sizes[1])
    combined += rows["producer"]
    combined *= sizes[2]
    combined += number
    return combined


def _number_blocks(combined: Array) -> tuple[Array, Array]:
    """Return the different numbers in ascending order, and the index of the number of each row."""
    if int(combined.max()) > 4 * len(combined) + 1000:
        blocks, place = np.unique(combined, return_inverse=True)
        return blocks, place
    exists = np.bincount(combined) > 0
    return np.flatnonzero(exists), (np.cumsum(exists) - 1)[combined]


@dataclass(frozen=True, kw_only=True)
class PartArrays:
    """The rows of a part. Texts are numbers of `names`. Each row has the `slot` of its message, -1 if it has none."""

    slots: Slots
    publishes: Rows
    stored: Rows
    deliveries: Rows
    # The rows of the three tables as they were read, with texts as dictionaries and times as microseconds.
    tables: Mapping[str, pa.Table]
    names: Mapping[str, Names] = field(default_factory=lambda: {text: Names() for text in _TEXTS})


def read_arrays(recorded: RecordedParts, part: int) -> PartArrays:
    """Read a part.

    Raises NotDescribedError if a row of it has values that the arrays cannot hold, and RunError if a message is one of
    another part.
    """
    if recorded.count_rows(part) > _MOST_ROWS:
        raise NotDescribedError("the part has too many rows for the memory of a task")
    names = {text: Names() for text in _TEXTS}
    tables = {table: recorded.read_whole(table, part, columns) for table, columns in COLUMNS.items()}
    publishes = _make_rows("publishes", tables["publishes"], names)
    slots = Slots.from_publishes(publishes, recorded.division.block)
    publishes["slot"] = slots.find(publishes)
    _check_part(recorded, part, "publishes", slots.name_blocks(names["producer"]))
    attempts = np.bincount(publishes["slot"], minlength=slots.count)
    found = {}
    for table in ("stored", "deliveries"):
        found[table] = rows = _make_rows(table, tables[table], names)
        slot = slots.find(rows)
        _check_part(recorded, part, table, tables[table].select(IDENTITY).take(np.flatnonzero(slot < 0)))
        # A message between two published ones was not published itself.
        rows["slot"] = np.where((slot >= 0) & (attempts[slot] > 0), slot, -1) if slots.count else slot
    return PartArrays(slots=slots, publishes=publishes, names=names, tables=tables, **found)


def _check_part(recorded: RecordedParts, part: int, table: str, messages: pa.Table) -> None:
    for batch in messages.to_batches():
        if (recorded.compute_parts(batch) != part).any():
            raise RunError(f"A file of part {part} of the table {table} holds messages of another part.")


def _make_rows(table: str, whole: pa.Table, names: Mapping[str, Names]) -> Rows:
    rows: Rows = {}
    for name in COLUMNS[table]:
        column = whole.column(name)
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        is_identity = table != "publishes" and name in ("producer", "seq")
        if name in _TEXTS:
            if name not in ("key", "consumer", "producer") and column.null_count:
                raise NotDescribedError(f"a row of {table} has no {name}")
            rows[name] = names[name].number(column)
        else:
            if column.null_count and not (is_identity or name in _MAY_BE_NULL):
                raise NotDescribedError(f"a row of {table} has no {name}")
            filled = column.fill_null(_MAY_BE_NULL.get(name, -1)) if column.null_count else column
            rows[name] = filled.to_numpy(zero_copy_only=False)
            if name == "seq" and np.count_nonzero(rows[name] < 0) != column.null_count:
                raise NotDescribedError(f"a row of {table} has a negative seq")
    rows["position"] = pack_positions(rows)
    return rows
