"""Measures the time since Airflow last answered, or since a run last made progress, and when to notify the user."""

from __future__ import annotations

import math

from brokerproof.clock import Clock


class Silence:
    """The time since the last sign of life, such as an answer of Airflow, and whether to notify the user.

    A notification is due when the silence has lasted `say_after_s`, and then every `say_again_after_s`.
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
        """Return whether the user must be notified now. If so, this call counts as the notification."""
        now = self._clock.monotonic_s()
        if self.seconds < self._say_after_s or now - self._said_at < self._say_again_after_s:
            return False
        self._said_at = now
        return True

    def end(self) -> bool:
        """End the silence, because there was a sign of life. Return whether the user was notified of the silence."""
        was_said = self._said_at > -math.inf
        self._said_at = -math.inf
        self.restart()
        return was_said

    def restart(self) -> None:
        """Measure the silence from now on, although there was no sign of life."""
        self._began_at = self._clock.monotonic_s()
