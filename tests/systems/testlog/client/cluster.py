"""The nodes of a cluster, where a client reaches them, and which of them leads."""

from __future__ import annotations

import time
from collections.abc import Mapping

from testlog.client.connection import LogConnection, RequestError, UnavailableError
from testlog.wire import Header

_RETRY_S = 0.1


class LogCluster:
    """Addresses by name of node. It keeps no connection, and any thread may use it."""

    def __init__(self, nodes: Mapping[str, tuple[str, int]], *, answer_timeout_s: float = 2.0) -> None:
        """A node that owes an answer for `answer_timeout_s` seconds counts as gone: it may be frozen."""
        self.nodes = dict(nodes)
        self._answer_timeout_s = answer_timeout_s
        # Whom to ask first for the leader.
        self._order = tuple(self.nodes)

    def connect(self, node: str) -> LogConnection:
        """A connection to a node. Raises UnavailableError."""
        return LogConnection(self.nodes[node], self._answer_timeout_s)

    def connect_to_leader(self, producer: str | None = None) -> LogConnection:
        """A connection to the node that leads; asks every node once at most. Raises UnavailableError.

        The connection of a `producer` takes the place of the one before: the node takes in no more messages of that.
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
                    # Whoever asks again soon does so because this one is gone or frozen; the others know.
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
        """Ask the leader, and the next one where it leads no more; for requests that may be done twice.

        Raises RequestError where the leader refuses, UnavailableError where nobody leads within the time.
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
