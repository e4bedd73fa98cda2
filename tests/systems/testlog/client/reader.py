"""Reads one partition from an offset to the log's end."""

from __future__ import annotations

from collections import deque

from testlog.client.cluster import LogCluster
from testlog.client.cursor import Cursor, Delivery


class LogReader:
    def __init__(self, cluster: LogCluster, topic: str, partition: int, start: int = 0) -> None:
        self._partition = partition
        self._cursor = Cursor(cluster, topic, {partition: start})
        self._deliveries: deque[Delivery] = deque()

    @property
    def position(self) -> int:
        """The next offset to read. All offsets before it were read or are control records."""
        return self._deliveries[0].offset if self._deliveries else self._cursor.offsets[self._partition]

    def read(self, timeout_s: float) -> Delivery | None:
        """Return the next message, or None if no message came within `timeout_s` seconds."""
        if not self._deliveries:
            self._deliveries.extend(self._cursor.poll(timeout_s))
        return self._deliveries.popleft() if self._deliveries else None

    def at_end(self) -> bool:
        """Return whether all messages were read that the log held at its last answer."""
        return 0 <= self._cursor.ends[self._partition] <= self.position

    def close(self) -> None:
        self._cursor.close()
