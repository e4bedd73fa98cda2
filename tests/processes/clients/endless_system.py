"""A messaging system in a module of its own, as a process of a client finds it: it acks and has messages for ever."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from brokerproof.run.directory import Run
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.clients import Position, Received, Settled, list_columns
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.system import Pulsar


class EndlessClients:
    """Acks at once but for every seventh message, which gets no answer; has a message every millisecond."""

    describe = staticmethod(list_columns)

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def producer(self, name: str) -> EndlessClients:
        """Refuse producers that start after a test said so. The newest producer owns the name, if a test has a file."""
        if os.environ.get("ENDLESS_REFUSES"):
            raise ConnectionRefusedError("a producer of this name is connected")
        if file := os.environ.get("ENDLESS_OWNER"):
            Path(file).write_text(str(os.getpid()))
        return self

    def consumer(self, subscription: Any, name: str) -> EndlessClients:
        return self

    def send(self, seq: int, key: str, payload: bytes, settle: Callable[[Settled], None]) -> None:
        file = os.environ.get("ENDLESS_OWNER")
        if file and Path(file).read_text() not in ("", str(os.getpid())):
            settle(Settled(AttemptOutcome.UNKNOWN, error="fenced"))
        elif seq % 7:
            settle(Settled(AttemptOutcome.ACKED, partition=-1, position=Position(1, seq)))

    def receive(self, timeout_s: float) -> Received | None:
        """Return a message, or none after the file exists that a test names."""
        if (end := os.environ.get("ENDLESS_END")) and Path(end).exists():
            time.sleep(timeout_s)
            return None
        time.sleep(0.001)
        number = next(self._numbers)
        return Received("p", number, "k", 0, -1, Position(1, number), 0, 0, None)

    def acknowledge(self, received: Received) -> None:
        """Note the message in a file, if a test wants to know."""
        if file := os.environ.get("ENDLESS_ACKS"):
            with Path(file).open("a") as acks:
                acks.write(f"{received.seq}\n")

    def close(self) -> None:
        """It hangs as long as a test wants it, as with a broker that hangs."""
        time.sleep(float(os.environ.get("ENDLESS_CLOSE_S", "0")))


class EndlessObservation(PulsarObservation):
    """Knows that the first 100 messages are acknowledged."""

    def find_acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
        return {-1: Position(1, 100)}


class EndlessSystem(Pulsar):
    """Has Pulsar's roles and topologies, and none of its servers."""

    name = "endless"
    observation = EndlessObservation

    def clients(self, run: Run, cluster: str, region: str | None = None) -> Any:
        return EndlessClients()


SYSTEM = EndlessSystem()
