"""The addresses of a cluster's nodes, and the search for the leader."""

from __future__ import annotations

import time
from collections.abc import Mapping

from testlog.client.connection import LogConnection, RequestError, UnavailableError
from testlog.wire import Header

_RETRY_S = 0.1


class LogCluster:
    """A cluster with its nodes' addresses. It keeps no connection, and any thread may use it."""

    def __init__(self, nodes: Mapping[str, tuple[str, int]], *, answer_timeout_s: float = 2.0) -> None:
        """A node that does not answer within `answer_timeout_s` seconds counts as gone, because it may be frozen."""
        self.nodes = dict(nodes)
        self._answer_timeout_s = answer_timeout_s
        # The order in which nodes are asked for the leader.
        self._order = tuple(self.nodes)

    def connect(self, node: str) -> LogConnection:
        """Return a connection to a node. Raises UnavailableError if the node does not accept it."""
        return LogConnection(self.nodes[node], self._answer_timeout_s)

    def connect_to_leader(self, producer: str | None = None) -> LogConnection:
        """Return a connection to the leader. Each node is asked at most once. Raises UnavailableError if none leads.

        The new connection of a `producer` replaces its earlier one: the node refuses messages on the earlier one.
        """
        ping = {"type": "ping"} if producer is None else {"type": "ping", "producer": producer}
        asked: set[str] = set()
        while left := [name for name in self._order if name not in asked]:
            name = left[0]
            asked.add(name)
            connection: LogConnection | None = None
            try:
                connection = self.connect(name)
                answer = connection.ask(ping, timeout_s=self._answer_timeout_s / 2)
                if answer["serves"]:
                    # If the caller soon asks again, this node is probably gone or frozen, so it is asked last.
                    self._order = self._move_to_end(name)
                    return connection
                if answer["leader"] in self.nodes:
                    self._order = self._move_to_front(answer["leader"])
            except (UnavailableError, RequestError):
                self._order = self._move_to_end(name)
            if connection is not None:
                connection.close()
        raise UnavailableError(f"none of {', '.join(self.nodes)} says that it leads")

    def ask_leader(self, header: Header, *, timeout_s: float = 10.0) -> Header:
        """Ask the leader, or the next leader if it no longer leads. The request may be done twice.

        Raises RequestError if the leader refuses, UnavailableError if no node leads within `timeout_s` seconds.
        """
        until = time.monotonic() + timeout_s
        while True:
            try:
                connection = self.connect_to_leader()
                try:
                    return connection.ask(header)
                finally:
                    connection.close()
            except UnavailableError:
                if time.monotonic() >= until:
                    raise
            except RequestError as error:
                if error.error not in ("not_leader", "unknown") or time.monotonic() >= until:
                    raise
            time.sleep(_RETRY_S)

    def _move_to_front(self, name: str) -> tuple[str, ...]:
        return tuple(sorted(self._order, key=lambda other: other != name))

    def _move_to_end(self, name: str) -> tuple[str, ...]:
        return tuple(sorted(self._order, key=lambda other: other == name))
