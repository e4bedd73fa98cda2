"""One direction of one route, as it is now; shared by all connections of the route."""

from __future__ import annotations

import random

from brokerproof.network.line import Line
from brokerproof.network.meter import Meter


class Way:
    """What traffic from one node to another meets: a cut, a delay, lines to pass, a meter."""

    def __init__(self, sender: str, receiver: str, regions: tuple[str, str], meter: Meter) -> None:
        self.sender, self.receiver, self.regions, self.meter = sender, receiver, regions, meter
        # Bytes that got through since the start.
        self.bytes = 0
        self.cut = False
        self.delay_s = 0.0
        self.jitter_s = 0.0
        # The narrowest first.
        self.lines: tuple[Line, ...] = ()
        # Whether bytes may be passed on where they are read.
        self.direct = True

    def set(self, *, cut: bool, delay_s: float, jitter_s: float, lines: tuple[Line, ...]) -> bool:
        """Take over what holds from now on; whether it differs."""
        lines = tuple(sorted(lines, key=lambda line: line.bytes_per_s))
        if (cut, delay_s, jitter_s, lines) == (self.cut, self.delay_s, self.jitter_s, self.lines):
            return False
        self.cut, self.delay_s, self.jitter_s, self.lines = cut, delay_s, jitter_s, lines
        self.direct = not (cut or delay_s or lines)
        return True

    def trip_s(self) -> float:
        """How long the next chunk is under way."""
        if not self.jitter_s:
            return self.delay_s
        return self.delay_s + random.uniform(-self.jitter_s, self.jitter_s)
