"""The wall time of each step of judging."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Stopwatch:
    """Seconds of wall time by step."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time_step(self, name: str) -> Iterator[None]:
        """Time a step."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - started, 3)
