"""Courses of events that go on side by side on one thread.

A course is a generator. It yields conditions, and goes on when the last one has come true. What takes long runs on
another thread, and the course waits for its end. So the state of all courses belongs to one thread, no course delays
another one, and a test with its own clock and pool gets the same order every time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from brokerproof.clock import Clock
from brokerproof.errors import DeadlineError

T = TypeVar("T")
Condition = Callable[[], bool]
Course = Generator[Condition, None, T]

_TICK_S = 0.01


def run_courses(courses: Iterable[Course[Any]], clock: Clock) -> None:
    """Run courses until all have ended. The first exception of a course or of a condition ends all of them."""
    waiting: dict[Course[Any], Condition] = dict.fromkeys(courses, lambda: True)
    try:
        while waiting:
            moved = False
            for course, condition in list(waiting.items()):
                if not condition():
                    continue
                moved = True
                try:
                    waiting[course] = next(course)
                except StopIteration:
                    del waiting[course]
            if waiting and not moved:
                clock.sleep(_TICK_S)
    finally:
        for course in waiting:
            course.close()


class CourseWaits:
    """What a course can wait for."""

    def __init__(self, clock: Clock, pool: Executor) -> None:
        self._clock, self._pool = clock, pool
        self._begun: list[Future[Any]] = []

    @property
    def unfinished(self) -> list[Future[Any]]:
        """What was begun on other threads and has not ended."""
        self._begun = [future for future in self._begun if not future.done()]
        return self._begun

    def begin(self, act: Callable[[], T]) -> Future[T]:
        """Begin something on another thread."""
        future = self._pool.submit(act)
        self._begun = [*self.unfinished, future]
        return future

    def wait_until(self, moment_us: int) -> Course[None]:
        """Wait for a time of the clock."""
        yield lambda: self._clock.now_us() >= moment_us

    def do(self, act: Callable[[], T]) -> Course[T]:
        """Do something on another thread, and wait for its result."""
        future = self.begin(act)
        yield future.done
        return future.result()

    def poll(self, ask: Callable[[], T | None], *, timeout_s: float, what: str, every_s: float) -> Course[T]:
        """Ask on another thread until the answer is true, and return it.

        `what` completes the sentence "waited N s for …". Raises DeadlineError after `timeout_s` seconds, also while
        nobody has answered. Exceptions of `ask` are not caught.
        """
        deadline = self._clock.monotonic_s() + timeout_s
        while True:
            future = self.begin(ask)
            yield self._make_condition(future, deadline)
            if future.done() and (answer := future.result()):
                return answer
            if self._clock.monotonic_s() >= deadline:
                raise DeadlineError(f"waited {timeout_s:.0f} s for {what}")
            yield self._make_condition(None, self._clock.monotonic_s() + every_s)

    def _make_condition(self, future: Future[Any] | None, moment_s: float) -> Condition:
        """Something on another thread has ended, or a moment of the monotonic clock has come."""
        return lambda: (future is not None and future.done()) or self._clock.monotonic_s() >= moment_s
