"""Where the time of judging goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Stopwatch:
    """Seconds of wall time by step, or waiting for it."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time_step(self, name: str) -> Iterator[None]:
        """Time a step."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - started, 3)
