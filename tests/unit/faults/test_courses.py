"""The ways in which a course waits, with a simulated clock."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any

import pytest
from brokerproof.errors import DeadlineError
from brokerproof.faults.courses import CourseWaits, run_courses
from simulated_clock import SimulatedClock


class Inline(Executor):
    def submit(self, act: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(act(*args, **kwargs))
        return future


@pytest.mark.parametrize("timeout_s", [0.2, 1.3])
def test_a_poll_ends_at_its_deadline_and_not_at_its_next_question(timeout_s: float) -> None:
    clock = SimulatedClock()
    waits, begun_us, asked = CourseWaits(clock, Inline()), clock.now_us(), list[float]()

    def ask() -> bool:
        asked.append((clock.now_us() - begun_us) / 1e6)
        return asked[-1] > timeout_s + 0.1

    poll = waits.poll(ask, timeout_s=timeout_s, what="the answer", every_s=0.5)
    with pytest.raises(DeadlineError, match="for the answer"):
        run_courses([poll], clock)
    assert asked[-1] == pytest.approx(timeout_s, abs=0.02)
