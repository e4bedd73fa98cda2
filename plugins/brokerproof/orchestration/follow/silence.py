"""How long something has given no sign of life, and when the user is notified of that."""

from __future__ import annotations

import math

from brokerproof.clock import Clock


class Silence:
    """The time since the last sign, and whether the user must be notified of it.

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
        """Note a sign. Return whether the user was notified of the silence before it."""
        was_said = self._said_at > -math.inf
        self._said_at = -math.inf
        self.restart()
        return was_said

    def restart(self) -> None:
        """Count from now on, although there was no sign."""
        self._began_at = self._clock.monotonic_s()
