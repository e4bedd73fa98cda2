"""The consumer of a subscription."""

from __future__ import annotations

import time
from collections import deque

from testlog.client.cluster import LogCluster
from testlog.client.cursor import Cursor, Delivery
from testlog.wire import Content, Header

_COMMIT_EVERY_S = 0.2
_LAST_COMMIT_S = 2.0


class LogConsumer:
    """Consumes all partitions of a topic, from the subscription's committed offsets on.

    A subscription should have one consumer, because a second consumer gets the same messages.
    """

    def __init__(self, cluster: LogCluster, topic: str, subscription: str) -> None:
        """If the subscription does not exist, create it at the beginning of the topic. Raises as `ask_leader`."""
        self._topic, self._subscription = topic, subscription
        answer = cluster.ask_leader({"type": "subscribe", "topic": topic, "subscription": subscription})
        # {partition: next offset}: `_acknowledged` as acknowledged here, `_committed` as the leader has confirmed.
        self._acknowledged: dict[int, int] = dict(enumerate(answer["committed"]))
        self._committed = dict(self._acknowledged)
        self._commit_at = 0.0
        self._cursor = Cursor(cluster, topic, self._acknowledged)
        self._deliveries: deque[Delivery] = deque()

    def receive(self, timeout_s: float) -> Delivery | None:
        """Return the next message, or None if no message came within `timeout_s` seconds."""
        self._commit_if_due()
        if not self._deliveries:
            self._deliveries.extend(self._cursor.poll(timeout_s))
        return self._deliveries.popleft() if self._deliveries else None

    def acknowledge(self, delivery: Delivery) -> None:
        """Acknowledge a message and all before it in its partition. A later `receive` or `close` commits this."""
        partition, following = delivery.partition, delivery.offset + 1
        self._acknowledged[partition] = max(self._acknowledged[partition], following)

    def close(self) -> None:
        """Commit the acknowledged offsets if a leader answers within `_LAST_COMMIT_S`, and close the connection."""
        until = time.monotonic() + _LAST_COMMIT_S
        while self._committed != self._acknowledged and time.monotonic() < until:
            self._commit_if_due()
            self._cursor.poll(0.02)
        self._cursor.close()

    def _commit_if_due(self) -> None:
        now = time.monotonic()
        if self._acknowledged == self._committed or now < self._commit_at:
            return
        self._commit_at = now + _COMMIT_EVERY_S
        offsets = dict(self._acknowledged)

        def answered(content: Content) -> None:
            if "error" not in content.header:
                self._committed = offsets

        request: Header = {"type": "commit", "subscription": self._subscription, "offsets": offsets}
        self._cursor.send(request, answered)
