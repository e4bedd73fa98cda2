"""Topics, partitions and subscriptions, made from the committed entries in their order, the same on every node.

An entry gets its offsets here when it is committed, so no offset is ever taken back. A control record takes an offset
and holds no message. Every partition has one at the start of each leader's term, and one after each batch of messages.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from testlog.wire import Header, unpack

# Kinds of entries.
TERM_START, RECORDS, TOPIC, SUBSCRIPTION, COMMIT = "term_start", "records", "topic", "subscription", "commit"


class LogPartition:
    """The offsets of one partition's messages, and the places of these messages in the node's log."""

    def __init__(self) -> None:
        # The exclusive end of the partition's log, which is the next offset.
        self.end = 0
        self._offsets = array("Q")
        self._bases = array("Q")
        self._indexes = array("Q")

    @property
    def messages(self) -> int:
        """The number of messages in the partition's log."""
        return len(self._offsets)

    def messages_from(self, offset: int) -> int:
        """Return the number of messages at `offset` and after it."""
        return len(self._offsets) - bisect_left(self._offsets, offset)

    def add(self, index: int, span: int, places: list[int]) -> int:
        """Give `span` offsets to the entry at `index`, and return the first offset.

        `places` are the distances of the entry's messages from this offset.
        """
        base = self.end
        self._bases.append(base)
        self._indexes.append(index)
        self._offsets.extend(base + place for place in places)
        self.end += span
        return base

    def add_control_record(self) -> None:
        self.end += 1

    def entries_from(self, offset: int) -> Iterator[tuple[int, int, int]]:
        """Yield (first offset, index in the log, next offset) of entries that may hold messages from `offset` on."""
        for number in range(max(0, bisect_right(self._bases, offset) - 1), len(self._bases)):
            following = self._bases[number + 1] if number + 1 < len(self._bases) else self.end
            yield self._bases[number], self._indexes[number], following


@dataclass
class Topic:
    """A topic. A subscription has a committed offset per partition: the next offset to deliver."""

    partitions: list[LogPartition]
    subscriptions: dict[str, list[int]] = field(default_factory=dict)


class Topics:
    def __init__(self) -> None:
        self.by_name: dict[str, Topic] = {}

    def apply(self, index: int, content: bytes) -> Header:
        """Apply a committed entry. Return the answer to the request that the entry came from."""
        header, _ = unpack(content)
        if header["kind"] == TERM_START:
            for topic in self.by_name.values():
                for partition in topic.partitions:
                    partition.add_control_record()
            return {}
        if header["kind"] == TOPIC:
            return self._create(header)
        topic = self.by_name[header["topic"]]
        if header["kind"] == RECORDS:
            places = [row[0] for row in header["records"]]
            return {"base": topic.partitions[header["partition"]].add(index, header["span"], places)}
        if header["kind"] == SUBSCRIPTION:
            topic.subscriptions.setdefault(header["subscription"], [0] * len(topic.partitions))
            return {}
        committed = topic.subscriptions[header["subscription"]]
        for partition_text, offset in header["offsets"].items():
            committed[int(partition_text)] = max(committed[int(partition_text)], offset)
        return {}

    def _create(self, header: Header) -> Header:
        there = self.by_name.get(header["topic"])
        if there is None:
            self.by_name[header["topic"]] = Topic([LogPartition() for _ in range(header["partitions"])])
        elif len(there.partitions) != header["partitions"]:
            return {"error": "topic_exists", "detail": f"{header['topic']} has {len(there.partitions)} partitions"}
        return {}
