"""What a network between regions must be able to do, for faults and for observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from brokerproof.network.network import Effect, Metrics, State
from brokerproof.network.routes import Route
from brokerproof.network.shape import Condition


class Network(Protocol):
    """The network between a run's regions, which faults act on.

    Every method raises InputError where the request makes no sense, NodeError where the network does not answer.
    """

    def ping(self) -> int:
        """The pid of the process that answers."""

    def routes(self) -> list[Route]:
        """All routes."""

    def state(self) -> State:
        """Which conditions are in force, on how many connections and listeners."""

    def metrics(self) -> Metrics:
        """What was measured; what it says of an interval reaches back to the last call by anyone."""

    def add(self, condition: Condition) -> Effect:
        """Put a condition in force; the effect says when it was, and on how much."""

    def remove(self, condition_id: str) -> Effect:
        """End a condition; the effect says when it had ended, and on how much."""

    def reset(self, name: str, senders: Sequence[str], receivers: Sequence[str], *, both_ways: bool) -> Effect:
        """Reset every connection in which one of the senders talks to one of the receivers.

        The state keeps the effect under the name.
        """

    def count_bytes(self, senders: Sequence[str], receivers: Sequence[str], *, both_ways: bool) -> int:
        """Bytes from the senders that reached the receivers since the network was started."""
