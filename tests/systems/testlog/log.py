"""A node's log on disk: entries, counted from 1, each with its term.

Every append is flushed to the kernel, but not forced to the disk, because tests kill nodes and do not cut a machine's
power.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# Length of the content, term.
_PREFIX = struct.Struct(">IQ")


class Entry(NamedTuple):
    """One entry. `stored` is its form in the file and on the wire: the content's length, the term, the content."""

    term: int
    stored: bytes

    @classmethod
    def with_content(cls, term: int, content: bytes) -> Entry:
        return cls(term, _PREFIX.pack(len(content), term) + content)


def split_entries(stored: bytes) -> list[Entry]:
    """Return the complete entries at the beginning of `stored`."""
    entries: list[Entry] = []
    start = 0
    while len(stored) - start >= _PREFIX.size:
        length, term = _PREFIX.unpack_from(stored, start)
        end = start + _PREFIX.size + length
        if end > len(stored):
            break
        entries.append(Entry(term, stored[start:end]))
        start = end
    return entries


class EntryLog:
    """A node's entries, in one file."""

    def __init__(self, file: Path) -> None:
        file.touch()
        self._file = file.open("r+b")
        # Element i is where entry i + 1 begins in the file. The last element is the end of the file.
        self._starts = array("Q", [0])
        self._terms = array("Q")
        for entry in split_entries(self._file.read()):
            self._note(entry)
        # If a node was killed while it wrote, the file ends with a part of an entry that the node never confirmed.
        self._cut()

    @property
    def last_index(self) -> int:
        """The index of the last entry; 0 for an empty log."""
        return len(self._terms)

    @property
    def last_term(self) -> int:
        """The term of the last entry; 0 for an empty log."""
        return self.term_at(self.last_index)

    def term_at(self, index: int) -> int:
        """Return the term of an entry; 0 for index 0."""
        return self._terms[index - 1] if index else 0

    def content_at(self, index: int) -> bytes:
        start, end = self._starts[index - 1] + _PREFIX.size, self._starts[index]
        return os.pread(self._file.fileno(), end - start, start)

    def stored_from(self, index: int, most_bytes: int) -> bytes:
        """Return entries from `index` on as stored, of at most `most_bytes`, but at least one entry if it exists."""
        if index > self.last_index:
            return b""
        start = self._starts[index - 1]
        last = index
        while last < self.last_index and self._starts[last + 1] - start <= most_bytes:
            last += 1
        return os.pread(self._file.fileno(), self._starts[last] - start, start)

    def append(self, entries: Sequence[Entry]) -> None:
        self._file.write(b"".join(entry.stored for entry in entries))
        self._file.flush()
        for entry in entries:
            self._note(entry)

    def remove_from(self, index: int) -> None:
        """Remove the entry at `index` and all later entries."""
        del self._terms[index - 1 :]
        del self._starts[index:]
        self._cut()

    def _note(self, entry: Entry) -> None:
        self._terms.append(entry.term)
        self._starts.append(self._starts[-1] + len(entry.stored))

    def _cut(self) -> None:
        self._file.truncate(self._starts[-1])
        self._file.seek(self._starts[-1])
