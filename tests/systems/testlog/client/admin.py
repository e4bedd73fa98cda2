"""Requests to a cluster that are not about single messages."""

from __future__ import annotations

import time
from dataclasses import dataclass

from testlog.client.cluster import LogCluster
from testlog.client.connection import RequestError, UnavailableError

_POLL_S = 0.05


@dataclass(frozen=True, kw_only=True)
class PartitionStatus:
    """One partition as a node sees it.

    `end` is exclusive. `taken_in` counts messages from producers since the node's leadership began. `in_sync` are the
    nodes that held all committed entries a moment ago; it is None if the node does not lead.
    """

    end: int
    messages: int
    taken_in: int
    in_sync: list[str] | None


@dataclass(frozen=True, kw_only=True)
class NodeStatus:
    """One node as it sees itself. `serves` is true if the node leads and is certain that no other node leads."""

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
    """The committed offset and the backlog in messages, one each per partition."""

    committed: list[int]
    backlog: list[int]


class LogAdmin:
    """Sends requests to the leader, or to a named node.

    Raises UnavailableError if no node answers, and RequestError if the request is refused.
    """

    def __init__(self, cluster: LogCluster, *, timeout_s: float = 10.0) -> None:
        """A request to the leader waits `timeout_s` seconds for a leader."""
        self._cluster, self._timeout_s = cluster, timeout_s

    def status(self, node: str) -> NodeStatus:
        """Return the node's answer about itself."""
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
        """Return the statuses of all nodes that answer, by node."""
        statuses: dict[str, NodeStatus] = {}
        for node in self._cluster.nodes:
            try:
                statuses[node] = self.status(node)
            except UnavailableError:
                continue
        return statuses

    def leader(self) -> str | None:
        """Return the node that leads now, or None if no node answers that it leads."""
        try:
            connection = self._cluster.connect_to_leader()
        except UnavailableError:
            return None
        try:
            return str(connection.ask({"type": "ping"})["node"])
        finally:
            connection.close()

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Create a topic. A topic that exists with this number of partitions is left as it is."""
        self._cluster.ask_leader(
            {"type": "create_topic", "topic": topic, "partitions": partitions}, timeout_s=self._timeout_s
        )

    def log_ends(self, topic: str) -> list[int]:
        """Return the exclusive end of each partition's log."""
        ends: list[int] = self._cluster.ask_leader({"type": "log_ends", "topic": topic}, timeout_s=self._timeout_s)[
            "ends"
        ]
        return ends

    def subscription(self, topic: str, subscription: str) -> SubscriptionStatus:
        request = {"type": "subscription", "topic": topic, "subscription": subscription}
        answer = self._cluster.ask_leader(request, timeout_s=self._timeout_s)
        return SubscriptionStatus(committed=answer["committed"], backlog=answer["backlog"])

    def reassign(self) -> tuple[str, str]:
        """Move the leadership to another node. Return (old leader, new leader)."""
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
            # The other nodes may lack the last entries for a moment.
            if error.error not in ("not_leader", "nobody_in_sync"):
                raise
        except UnavailableError:
            pass
