"""A messaging system in a module of its own. The file PACE has the number of acks a second, or "all"."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from brokerproof.run.directory import Run
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.clients import Position, Settled
from brokerproof.systems.pulsar.system import Pulsar


class PacedClients:
    def __init__(self) -> None:
        self._open: deque[tuple[int, Callable[[Settled], None]]] = deque()
        threading.Thread(target=self._answer, daemon=True).start()

    def producer(self, name: str) -> PacedClients:
        return self

    def send(self, seq: int, key: str, payload: bytes, settle: Callable[[Settled], None]) -> None:
        self._open.append((seq, settle))

    def _answer(self) -> None:
        while True:
            begun = time.monotonic()
            time.sleep(0.01)
            pace = Path(os.environ["PACE"]).read_text(encoding="ascii")
            most = int(float(pace) * (time.monotonic() - begun)) if pace != "all" else len(self._open)
            for _ in range(min(most, len(self._open))):
                seq, settle = self._open.popleft()
                settle(Settled(AttemptOutcome.ACKED, partition=-1, position=Position(1, seq)))

    def close(self) -> None:
        pass


class PacedSystem(Pulsar):
    """Has Pulsar's roles and topologies, and none of its servers."""

    name = "paced"

    def clients(self, run: Run, cluster: str, region: str | None = None) -> Any:
        return PacedClients()


SYSTEM = PacedSystem()
