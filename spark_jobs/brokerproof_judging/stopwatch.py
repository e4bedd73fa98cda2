"""Measures the wall time of each step of judging."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Stopwatch:
    """The wall time of steps, in seconds, by the name of the step."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time_step(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - started, 3)
