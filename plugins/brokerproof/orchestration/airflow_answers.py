"""How long Airflow has not answered, when the user is notified of that, and when the command line gives up."""

from __future__ import annotations

from collections.abc import Callable

from brokerproof.clock import SYSTEM_CLOCK, Clock
from brokerproof.errors import BrokerproofError

# The user must have the sentence 15 s after the last answer, and Airflow is asked every two seconds.
_SAY_AFTER_S = 13.0
# The supervisor restarts a dead API server after 5 s. On a machine that carries a cluster, the start takes up to 60 s.
_GIVE_UP_AFTER_S = 120.0
# After a longer pause without a request, the time since the last answer does not measure Airflow's silence.
_OWN_PAUSE_S = 5.0


class AirflowError(BrokerproofError):
    """Airflow refused a request or does not answer."""


class AirflowGoneError(AirflowError):
    """Airflow has ended (`ended` is True), or the command line no longer waits for it."""

    def __init__(self, message: str, *, ended: bool) -> None:
        super().__init__(message)
        self.ended = ended


class AnswerWatch:
    """Measures how long Airflow has not answered.

    `find_url` returns the address of the running Airflow, or None if Airflow has ended. `notify` gets a sentence when
    Airflow has not answered for `say_after_s`, and another one when it answers again.
    """

    def __init__(
        self,
        *,
        find_url: Callable[[], str | None],
        notify: Callable[[str], None] = lambda _: None,
        clock: Clock = SYSTEM_CLOCK,
        say_after_s: float = _SAY_AFTER_S,
        give_up_after_s: float = _GIVE_UP_AFTER_S,
    ) -> None:
        self._find_url, self.notify, self._clock = find_url, notify, clock
        self.say_after_s, self._give_up_after_s = say_after_s, give_up_after_s
        self._url = find_url() or ""
        self._answered_at = clock.monotonic_s()
        self._reason = "no answer"
        self._silence_announced = False

    def begin_request(self) -> None:
        """Note that a request begins. A pause without requests does not count as a silence of Airflow."""
        if self._measure_silence() > _OWN_PAUSE_S:
            self._answered_at = self._clock.monotonic_s()

    def note_answer(self) -> None:
        """Note a usable answer, and notify the user if a silence was announced."""
        if self._silence_announced:
            self.notify(f"Airflow at {self._url} answers again, after {self._measure_silence():.0f} s")
        self._silence_announced = False
        self._reason = "no answer"
        self._answered_at = self._clock.monotonic_s()

    def note_failure(self, reason: str) -> str:
        """Note that a request had no usable answer, and return the URL for the next one.

        Raises AirflowGoneError if Airflow has ended or was silent for `give_up_after_s`.
        """
        self._reason = reason
        url = self._find_url()
        if url is None:
            raise AirflowGoneError(f"Airflow at {self._url} has ended", ended=True)
        self._url = url
        self.check_silence()
        return url

    def check_silence(self) -> None:
        """Notify the user once after a silence of `say_after_s`. Raises AirflowGoneError after `give_up_after_s`."""
        silence_s = self._measure_silence()
        if silence_s >= self._give_up_after_s:
            raise AirflowGoneError(
                f"Airflow at {self._url} has not answered for {silence_s:.0f} s ({self._reason})", ended=False
            )
        if silence_s >= self.say_after_s and not self._silence_announced:
            self._silence_announced = True
            self.notify(
                f"Airflow at {self._url} has not answered for {silence_s:.0f} s ({self._reason}). A cluster, its "
                "monitor and its clients may go on without it. It is asked again until "
                f"{self._give_up_after_s:.0f} s have passed; `brokerproof airflow status` names its logs, and "
                "`brokerproof down` stops everything"
            )

    def _measure_silence(self) -> float:
        return self._clock.monotonic_s() - self._answered_at
