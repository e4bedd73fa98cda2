"""What faults and the monitor can ask of the network between regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from brokerproof.network.emulated_network import Effect, Metrics, State
from brokerproof.network.routes import Route
from brokerproof.network.shape import Condition


class Network(Protocol):
    """The network between a run's regions, which faults act on.

    Every method raises InputError if the request is invalid, and NodeError if the network does not answer.
    """

    def ping(self) -> int:
        """Return the pid of the process that answers."""

    def routes(self) -> list[Route]: ...

    def state(self) -> State:
        """Return the conditions in force, and the effects of conditions and resets."""

    def metrics(self) -> Metrics:
        """Return the measurements, some of them since the last call by any process, and begin a new interval."""

    def add(self, condition: Condition) -> Effect:
        """Put a condition in force. Returns when, and on how many connections and listeners it acts."""

    def remove(self, condition_id: str) -> Effect:
        """End a condition. Returns when, and on how many connections and listeners it acted."""

    def reset(self, name: str, senders: Sequence[str], receivers: Sequence[str], *, both_ways: bool) -> Effect:
        """Reset every connection between one of the senders and one of the receivers.

        From then on, `state()` lists the effect under `name`.
        """

    def count_bytes(self, senders: Sequence[str], receivers: Sequence[str], *, both_ways: bool) -> int:
        """Return the number of bytes that reached the receivers from the senders since the network was started.

        With `both_ways`, bytes in the opposite direction count too.
        """
