"""Divides the tables of a run by message, so that judging finds all rows of a message in the files of one part.

The name of each file says which part it holds, and how the table is divided: `part-3-of-10-by-4000-…` is part 3 of 10,
and a producer's messages are cut into blocks of 4,000. So a table needs no further record of its division, and its
directory stays flat. The tables in `DIVIDED_TABLES` are divided.
"""

from __future__ import annotations

import re
import uuid
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Self

import fsspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS, choose_encodings

DIVIDED_TABLES = ("publishes", "stored", "deliveries", "outputs")
# The columns from which the part of a row follows.
IDENTITY = ("producer", "seq", "partition", "segment", "offset")

# The task that judges a part has its rows in a database, which keeps at most 1 GB in memory and the rest on disk.
_MESSAGES_A_PART = 1_000_000
# At least one part for each core of a small machine.
_FEWEST_PARTS = 2
# Each part costs a task, so a name of a file must not demand any number of them.
_MOST_PARTS = 4096
# Messages per second for which a table is divided if the load has to find its rate. Another rate makes smaller or
# larger parts.
_ASSUMED_RATE = 50_000
# A block ends where order has to be compared with the next block, so blocks are long.
_LONGEST_BLOCK = 1 << 18
# A part's rows are written in groups of about this many. If many parts wait for rows, the fullest is written earlier.
_ROWS_A_GROUP = 100_000
_MOST_WAITING_ROWS = 1_000_000

_FILE = re.compile(r"part-(?P<part>\d{1,9})-of-(?P<parts>\d{1,9})-by-(?P<block>\d{1,18})-[^/]+\.parquet")
_NUMBERED = re.compile(r"(.*?)(\d{0,9})", re.DOTALL)


@dataclass(frozen=True)
class Division:
    """The parts of a table: `parts` of them, over which the blocks of each producer's messages are spread."""

    parts: int
    # The number of consecutive messages of a producer that are in one part.
    block: int

    @classmethod
    def for_messages(cls, messages: int) -> Division:
        """Return the division for about this many messages."""
        parts = min(_MOST_PARTS, max(_FEWEST_PARTS, -(-messages // _MESSAGES_A_PART)))
        return cls(parts, min(_LONGEST_BLOCK, max(1, -(-messages // parts))))

    @classmethod
    def for_run(cls, run: Run) -> Division:
        """Return the division for the messages that the scenario of a run makes due."""
        return cls.for_messages(int((run.scenario.workload.target_rate or _ASSUMED_RATE) * run.scenario.phases.total_s))

    @classmethod
    def from_names(cls, names: Iterable[str]) -> Division | None:
        """Return the division that all names of files have in common; None if they are not divided in one way."""
        found = {_read_name(name) for name in names}
        return found.pop() if len(found) == 1 else None

    def name_file(self, part: int) -> str:
        """Return a new name for a file of a part."""
        return f"part-{part}-of-{self.parts}-by-{self.block}-{uuid.uuid4().hex}.parquet"

    def compute_parts(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the part of each row of a batch with the columns `IDENTITY`.

        A message without a producer or seq is identified by its position. Its part follows from the position.
        """
        producers = batch.column("producer").dictionary_encode()
        names = producers.dictionary.to_pylist()
        numbers = np.array([number_producer(name) for name in names] or [0], np.int64)
        producer = numbers[_fill(producers.indices)]
        seq = _fill(batch.column("seq"))
        block = producer + seq // self.block
        # The remainder, without the slow division of `%`.
        part = block - block // self.parts * self.parts
        if batch.column("producer").null_count or batch.column("seq").null_count:
            nameless = ~(_is_filled(batch.column("producer")) & _is_filled(batch.column("seq")))
            part[nameless] = self._compute_from_positions(batch.filter(pa.array(nameless)))
        return part

    def _compute_from_positions(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        segment, offset = _fill(batch.column("segment")), _fill(batch.column("offset"))
        # A negative segment is no position.
        is_placed = (segment >= 0) & _is_filled(batch.column("segment"))
        # Each number is reduced first, because a sum of two large numbers would overflow.
        place = segment % self.parts + offset % self.parts + _fill(batch.column("partition")) % self.parts
        return np.where(is_placed, place % self.parts, 0)

    def split(self, batch: pa.RecordBatch) -> Iterable[tuple[int, pa.RecordBatch]]:
        """Yield the rows of each part that the batch has rows of. They keep their order."""
        parts = self.compute_parts(batch)
        counts = np.bincount(parts, minlength=self.parts)
        found = np.flatnonzero(counts)
        if len(found) == 1:
            yield int(found[0]), batch
            return
        # A stable sort of small numbers is a radix sort.
        kind = np.uint16 if self.parts <= np.iinfo(np.uint16).max else np.int64
        order = np.argsort(parts.astype(kind), kind="stable")
        ends = np.cumsum(counts)
        for part in found:
            rows = order[ends[part] - counts[part] : ends[part]]
            yield int(part), batch.take(pa.array(rows))


def number_producer(name: str) -> int:
    """Return the number from which a producer's parts are counted.

    Producers whose names end with different numbers take turns.
    """
    match = _NUMBERED.fullmatch(name)
    prefix, digits = match.groups() if match else (name, "")
    return zlib.crc32(prefix.encode("utf-8", "surrogatepass")) + int(digits or 0)


def _fill(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return a column of whole numbers, with 0 for null."""
    return column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def _is_filled(column: pa.Array) -> npt.NDArray[np.bool_]:
    return column.is_valid().to_numpy(zero_copy_only=False)


def _read_name(name: str) -> Division | None:
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    part, parts, block = (int(match[name]) for name in ("part", "parts", "block"))
    return Division(parts, block) if part < parts <= _MOST_PARTS and block > 0 else None


def list_part_files(names: Iterable[str], part: int) -> list[str]:
    """Return the names of the files that hold rows of a part."""
    return [name for name in names if (match := _FILE.fullmatch(name)) and int(match["part"]) == part]


# Readers skip files whose names begin so.
_HIDDEN = "."


@dataclass
class DividedWriter:
    """Writes rows of a table into one file for each part, below a directory and under names that readers skip.

    `commit_files` gives the files their names. Until then, a reader sees no row of them. An error removes them.
    """

    directory: str
    table: str
    division: Division
    _writers: dict[int, tuple[str, IO[bytes], pq.ParquetWriter]] = field(default_factory=dict)
    _waiting: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    _rows: dict[int, int] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            for part in list(self._waiting) if kind is None else ():
                self._write(part)
            if kind is None and not self._writers:
                # A table without rows has a file too, with its columns.
                self._open(0)
            for _, file, writer in self._writers.values() if kind is None else ():
                writer.close()
                file.close()
        except BaseException:
            self._remove()
            raise
        if kind is not None:
            self._remove()

    @property
    def names(self) -> list[str]:
        """The names that `commit_files` gives to the files."""
        return [name for name, *_ in self._writers.values()]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows with the columns of the table."""
        for part, rows in self.division.split(batch) if batch.num_rows else ():
            self._waiting.setdefault(part, []).append(rows)
            self._rows[part] = self._rows.get(part, 0) + rows.num_rows
            if self._rows[part] >= _ROWS_A_GROUP:
                self._write(part)
        while sum(self._rows.values()) > _MOST_WAITING_ROWS:
            self._write(max(self._rows, key=self._rows.__getitem__))

    def _write(self, part: int) -> None:
        rows = self._waiting.pop(part)
        del self._rows[part]
        if part not in self._writers:
            self._open(part)
        self._writers[part][2].write_table(pa.Table.from_batches(rows))

    def _open(self, part: int) -> None:
        name, (filesystem, root) = self.division.name_file(part), fsspec.url_to_fs(self.directory)
        filesystem.makedirs(root, exist_ok=True)
        file = filesystem.open(f"{root}/{_HIDDEN}{name}", "wb")
        schema = SCHEMAS[self.table]
        self._writers[part] = name, file, pq.ParquetWriter(file, schema, **choose_encodings(schema))

    def _remove(self) -> None:
        filesystem, root = fsspec.url_to_fs(self.directory)
        for name, file, writer in self._writers.values():
            # A writer of a full disk cannot write its footer either.
            with suppress(Exception):
                writer.close()
            with suppress(Exception):
                file.close()
            with suppress(OSError):
                filesystem.rm(f"{root}/{_HIDDEN}{name}")


def commit_files(directory: str, names: Sequence[str]) -> None:
    """Give the files of finished writers their names, and remove what other writers left in the directory."""
    filesystem, root = fsspec.url_to_fs(directory)
    for name in names:
        filesystem.mv(f"{root}/{_HIDDEN}{name}", f"{root}/{name}")
    remove_unfinished(directory)


def remove_unfinished(directory: str) -> None:
    """Remove the files of writers that were not committed."""
    filesystem, root = fsspec.url_to_fs(directory)
    for path in filesystem.ls(root, detail=False) if filesystem.exists(root) else ():
        name = path.rpartition("/")[2]
        if name.startswith(_HIDDEN) and _FILE.fullmatch(name.removeprefix(_HIDDEN)):
            filesystem.rm(path)
