"""Reads one partition from its beginning to the log's end."""

from __future__ import annotations

from collections import deque

from testlog.client.cluster import LogCluster
from testlog.client.cursor import Cursor, Delivery


class LogReader:
    """A fresh reader."""

    def __init__(self, cluster: LogCluster, topic: str, partition: int) -> None:
        self._partition = partition
        self._cursor = Cursor(cluster, topic, {partition: 0})
        self._deliveries: deque[Delivery] = deque()

    @property
    def position(self) -> int:
        """The next offset to read. Everything below it was read or is a control record."""
        return self._deliveries[0].offset if self._deliveries else self._cursor.offsets[self._partition]

    def read(self, timeout_s: float) -> Delivery | None:
        """The next message, None where none came in time."""
        if not self._deliveries:
            self._deliveries.extend(self._cursor.poll(timeout_s))
        return self._deliveries.popleft() if self._deliveries else None

    def at_end(self) -> bool:
        """Whether everything was read that was in the log when it was last asked for messages."""
        return 0 <= self._cursor.ends[self._partition] <= self.position

    def close(self) -> None:
        """End."""
        self._cursor.close()
