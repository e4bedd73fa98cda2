"""A node's log on disk: entries with a term each, counted from 1.

The log is flushed to the kernel at every append and not forced to the disk: what it is tested with are nodes that are
killed, not machines that lose power.
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
    """One entry; `stored` is its content with length and term before it, as it is in the file and on the wire."""

    term: int
    stored: bytes

    @classmethod
    def with_content(cls, term: int, content: bytes) -> Entry:
        """An entry with this content."""
        return cls(term, _PREFIX.pack(len(content), term) + content)


def split_entries(stored: bytes) -> list[Entry]:
    """The complete entries at the beginning of some bytes."""
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
    """Entries in one file, which is only written at its end."""

    def __init__(self, file: Path) -> None:
        file.touch()
        self._file = file.open("r+b")
        # Where entry i + 1 begins, one more than there are entries.
        self._starts = array("Q", [0])
        self._terms = array("Q")
        for entry in split_entries(self._file.read()):
            self._note(entry)
        # A node that was killed while it wrote leaves a part of an entry, which it never confirmed.
        self._cut()

    @property
    def last_index(self) -> int:
        """The index of the last entry, 0 without one."""
        return len(self._terms)

    @property
    def last_term(self) -> int:
        """The term of the last entry, 0 without one."""
        return self.term_at(self.last_index)

    def term_at(self, index: int) -> int:
        """The term of an entry, 0 for the index before the first one."""
        return self._terms[index - 1] if index else 0

    def content_at(self, index: int) -> bytes:
        """The content of an entry."""
        start, end = self._starts[index - 1] + _PREFIX.size, self._starts[index]
        return os.pread(self._file.fileno(), end - start, start)

    def stored_from(self, index: int, most_bytes: int) -> bytes:
        """Entries from `index` on as they are stored, as many as fit, and one at least if there is one."""
        if index > self.last_index:
            return b""
        start = self._starts[index - 1]
        last = index
        while last < self.last_index and self._starts[last + 1] - start <= most_bytes:
            last += 1
        return os.pread(self._file.fileno(), self._starts[last] - start, start)

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries at the end."""
        self._file.write(b"".join(entry.stored for entry in entries))
        self._file.flush()
        for entry in entries:
            self._note(entry)

    def remove_from(self, index: int) -> None:
        """Remove this entry and all after it."""
        del self._terms[index - 1 :]
        del self._starts[index:]
        self._cut()

    def _note(self, entry: Entry) -> None:
        self._terms.append(entry.term)
        self._starts.append(self._starts[-1] + len(entry.stored))

    def _cut(self) -> None:
        self._file.truncate(self._starts[-1])
        self._file.seek(self._starts[-1])
