"""Measures the time without a sign of life, and says when the user must be notified of it."""

from __future__ import annotations

import math

from brokerproof.clock import Clock


class Silence:
    """The time since the last sign of life, and whether the user must be notified of it.

    A notification is due after `say_after_s`, and again every `say_again_after_s`.
    """

    def __init__(self, clock: Clock, *, say_after_s: float, say_again_after_s: float = math.inf) -> None:
        self._clock = clock
        self._say_after_s, self._say_again_after_s = say_after_s, say_again_after_s
        self._said_at = -math.inf
        self.restart()

    @property
    def seconds(self) -> float:
        return self._clock.monotonic_s() - self._began_at

    def is_due(self) -> bool:
        """Return whether the user must be notified now, and count this as the notification."""
        now = self._clock.monotonic_s()
        if self.seconds < self._say_after_s or now - self._said_at < self._say_again_after_s:
            return False
        self._said_at = now
        return True

    def end(self) -> bool:
        """Note a sign of life. Return whether the user was notified of the silence before it."""
        was_said = self._said_at > -math.inf
        self._said_at = -math.inf
        self.restart()
        return was_said

    def restart(self) -> None:
        """Measure from now on, although there was no sign of life."""
        self._began_at = self._clock.monotonic_s()
