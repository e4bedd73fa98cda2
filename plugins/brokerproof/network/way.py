"""One direction of one route in its present state; all connections of the route share it."""

from __future__ import annotations

import random

from brokerproof.network.line import Line
from brokerproof.network.meter import Meter


class Way:
    """What acts on the traffic from one node to another: a cut, a delay, lines, a meter."""

    def __init__(self, sender: str, receiver: str, regions: tuple[str, str], meter: Meter) -> None:
        self.sender, self.receiver, self.regions, self.meter = sender, receiver, regions, meter
        # Bytes that arrived since the start.
        self.bytes_delivered = 0
        self.cut = False
        self.delay_s = 0.0
        self.jitter_s = 0.0
        # The one with the smallest bandwidth first.
        self.lines: tuple[Line, ...] = ()
        # Whether bytes may be written as soon as they are read.
        self.direct = True

    def set(self, *, cut: bool, delay_s: float, jitter_s: float, lines: tuple[Line, ...]) -> bool:
        """Change the state. Returns whether it differs from before."""
        lines = tuple(sorted(lines, key=lambda line: line.bytes_per_s))
        if (cut, delay_s, jitter_s, lines) == (self.cut, self.delay_s, self.jitter_s, self.lines):
            return False
        self.cut, self.delay_s, self.jitter_s, self.lines = cut, delay_s, jitter_s, lines
        self.direct = not (cut or delay_s or lines)
        return True

    def next_delay_s(self) -> float:
        """The delay of the next chunk: the same for all, or a random one within the jitter."""
        if not self.jitter_s:
            return self.delay_s
        return self.delay_s + random.uniform(-self.jitter_s, self.jitter_s)
