"""Questions and orders to a cluster that are about no single message."""

from __future__ import annotations

import time
from dataclasses import dataclass

from testlog.client.cluster import LogCluster
from testlog.client.connection import RequestError, UnavailableError

_POLL_S = 0.05


@dataclass(frozen=True, kw_only=True)
class PartitionStatus:
    """One partition as a node sees it.

    `end` is exclusive. `taken_in` counts messages from producers since the node leads. `in_sync` are the nodes that
    hold everything that was committed a moment ago, which only the leader knows.
    """

    end: int
    messages: int
    taken_in: int
    in_sync: list[str] | None


@dataclass(frozen=True, kw_only=True)
class NodeStatus:
    """One node as it sees itself. `serves` is true of a leader that is sure that nobody else leads."""

    node: str
    role: str
    term: int
    leader: str | None
    serves: bool
    member: bool
    last_index: int
    commit_index: int
    topics: dict[str, list[PartitionStatus]]


@dataclass(frozen=True, kw_only=True)
class SubscriptionStatus:
    """Committed offset and backlog in messages, one a partition each."""

    committed: list[int]
    backlog: list[int]


class LogAdmin:
    """Asks the leader, unless a node is named.

    Raises UnavailableError where nobody answers, and RequestError where the request is refused.
    """

    def __init__(self, cluster: LogCluster, *, timeout_s: float = 10.0) -> None:
        """An order waits for a leader for `timeout_s` seconds."""
        self._cluster, self._timeout_s = cluster, timeout_s

    def status(self, node: str) -> NodeStatus:
        """What a node says of itself."""
        connection = self._cluster.connect(node)
        try:
            answer = connection.ask({"type": "status"})
        finally:
            connection.close()
        topics = {
            name: [PartitionStatus(**partition) for partition in partitions]
            for name, partitions in answer.pop("topics").items()
        }
        del answer["id"]
        return NodeStatus(**answer, topics=topics)

    def statuses(self) -> dict[str, NodeStatus]:
        """What every node that answers says of itself."""
        statuses: dict[str, NodeStatus] = {}
        for node in self._cluster.nodes:
            try:
                statuses[node] = self.status(node)
            except UnavailableError:
                continue
        return statuses

    def leader(self) -> str | None:
        """The node that leads now."""
        try:
            connection = self._cluster.connect_to_leader()
        except UnavailableError:
            return None
        try:
            return str(connection.ask({"type": "ping"})["node"])
        finally:
            connection.close()

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Create a topic; nothing happens where it is there with so many partitions."""
        self._cluster.ask_leader(
            {"type": "create_topic", "topic": topic, "partitions": partitions}, timeout_s=self._timeout_s
        )

    def log_ends(self, topic: str) -> list[int]:
        """The exclusive end of each partition's log."""
        ends: list[int] = self._cluster.ask_leader({"type": "log_ends", "topic": topic}, timeout_s=self._timeout_s)[
            "ends"
        ]
        return ends

    def subscription(self, topic: str, subscription: str) -> SubscriptionStatus:
        """How far a subscription is."""
        request = {"type": "subscription", "topic": topic, "subscription": subscription}
        answer = self._cluster.ask_leader(request, timeout_s=self._timeout_s)
        return SubscriptionStatus(committed=answer["committed"], backlog=answer["backlog"])

    def reassign(self) -> tuple[str, str]:
        """Take the leadership from the node that has it. Returns that node and the new leader."""
        until = time.monotonic() + self._timeout_s
        before: str | None = None
        while time.monotonic() < until:
            leader = self.leader()
            if before is None:
                before = leader
            if leader is not None and before is not None:
                if leader != before:
                    return before, leader
                self._hand_over(leader)
            time.sleep(_POLL_S)
        raise UnavailableError(f"{before or 'no node'} leads, and nobody took over within {self._timeout_s} s")

    def _hand_over(self, leader: str) -> None:
        try:
            connection = self._cluster.connect(leader)
            try:
                connection.ask({"type": "hand_over"})
            finally:
                connection.close()
        except RequestError as error:
            # The others may be a moment behind.
            if error.error not in ("not_leader", "nobody_in_sync"):
                raise
        except UnavailableError:
            pass
