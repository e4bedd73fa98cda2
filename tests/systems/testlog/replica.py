"""What one node holds: its log, up to where it is committed, and the topics that the committed entries make."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from testlog.log import Entry, EntryLog
from testlog.topics import Topics
from testlog.wire import Header

log = logging.getLogger(__name__)

# Called with what applying the entry returned, or with None where the node lost its leadership before it was committed.
DecisionCallback = Callable[[Header | None], None]


class Replica:
    """A copy of the log."""

    def __init__(self, data: Path, topics: Topics, committed: Callable[[], None]) -> None:
        """`committed` is called after entries were committed."""
        self.log = EntryLog(data / "log")
        # Every node starts at 0 and learns from a leader what is committed.
        self.commit_index = 0
        self._topics, self._committed = topics, committed
        self._decided: dict[int, DecisionCallback] = {}

    def propose(self, entry: Entry, decided: DecisionCallback) -> None:
        """Append a leader's own entry; `decided` is called when it is committed."""
        self.log.append([entry])
        self._decided[self.log.last_index] = decided

    def give_up_proposals(self) -> None:
        """Call everybody whose entry is not committed: another leader decides about it."""
        undecided, self._decided = self._decided, {}
        for decided in undecided.values():
            decided(None)

    def find_gap(self, previous: int, previous_term: int) -> int | None:
        """The index behind which a leader should try again, where the entry at `previous` is not the leader's."""
        if previous > self.log.last_index:
            return self.log.last_index
        term = self.log.term_at(previous)
        if term == previous_term:
            return None
        # The entries of a term came from one leader: if one of them is not there, try before all of them.
        while previous > self.commit_index and self.log.term_at(previous) == term:
            previous -= 1
        return previous

    def write(self, first_index: int, entries: list[Entry]) -> None:
        """Write a leader's entries, those that are not there, and remove what is there in their place."""
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
        """Apply entries up to this one."""
        if last_index <= self.commit_index:
            return
        for index in range(self.commit_index + 1, last_index + 1):
            result = self._topics.apply(index, self.log.content_at(index))
            self.commit_index = index
            if decided := self._decided.pop(index, None):
                decided(result)
        self._committed()
