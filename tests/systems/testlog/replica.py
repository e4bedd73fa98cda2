"""One node's copy of the log, the index up to which it is committed, and the topics made from committed entries."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from testlog.log import Entry, EntryLog
from testlog.topics import Topics
from testlog.wire import Header

log = logging.getLogger(__name__)

# A callback of an entry. It gets the result of applying the entry, or None if the leadership ended before the commit.
DecisionCallback = Callable[[Header | None], None]


class Replica:
    def __init__(self, data: Path, topics: Topics, committed: Callable[[], None]) -> None:
        """`committed` is called after entries were committed."""
        self.log = EntryLog(data / "log")
        # Every node starts at 0 and learns from a leader which entries are committed.
        self.commit_index = 0
        self._topics, self._committed = topics, committed
        self._decided: dict[int, DecisionCallback] = {}

    def propose(self, entry: Entry, decided: DecisionCallback) -> None:
        """Append an entry of this node as the leader, and call `decided` when it is committed."""
        self.log.append([entry])
        self._decided[self.log.last_index] = decided

    def give_up_proposals(self) -> None:
        """Call `decided(None)` for each entry that is not committed, because another leader decides about it."""
        undecided, self._decided = self._decided, {}
        for decided in undecided.values():
            decided(None)

    def find_gap(self, previous: int, previous_term: int) -> int | None:
        """Return the index after which a leader should try again; None if the entry at `previous` is the leader's."""
        if previous > self.log.last_index:
            return self.log.last_index
        term = self.log.term_at(previous)
        if term == previous_term:
            return None
        # All entries of a term came from one leader. If the leader lacks one of them, it should try before all of them.
        while previous > self.commit_index and self.log.term_at(previous) == term:
            previous -= 1
        return previous

    def write(self, first_index: int, entries: list[Entry]) -> None:
        """Write the leader's entries that are missing here, and remove other entries at their indexes."""
        for number, entry in enumerate(entries):
            index = first_index + number
            if index > self.log.last_index:
                self.log.append(entries[number:])
                return
            if self.log.term_at(index) != entry.term:
                if index <= self.commit_index:
                    raise RuntimeError(f"the leader has another entry {index}, which is committed here")
                log.info("entries %d to %d are removed: the leader has others", index, self.log.last_index)
                self.log.remove_from(index)
                self.log.append(entries[number:])
                return

    def commit_to(self, last_index: int) -> None:
        """Apply all entries up to `last_index` that are not applied yet."""
        if last_index <= self.commit_index:
            return
        for index in range(self.commit_index + 1, last_index + 1):
            result = self._topics.apply(index, self.log.content_at(index))
            self.commit_index = index
            if decided := self._decided.pop(index, None):
                decided(result)
        self._committed()
