"""Courses: sequences of events that advance in turns on one thread.

A course is a generator. It yields a condition, which is a function, and goes on once the function returns True. Long
work runs on another thread. So one thread owns the state of all courses, and no course delays another.
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
    """Run courses until all have ended. The first exception of a course or condition ends all courses and is raised."""
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
    """The ways in which a course can wait, and the work that courses began on other threads."""

    def __init__(self, clock: Clock, pool: Executor) -> None:
        self._clock, self._pool = clock, pool
        self._begun: list[Future[Any]] = []

    @property
    def unfinished(self) -> list[Future[Any]]:
        """The work that was begun on other threads and has not ended."""
        self._begun = [future for future in self._begun if not future.done()]
        return self._begun

    def begin(self, act: Callable[[], T]) -> Future[T]:
        future = self._pool.submit(act)
        self._begun = [*self.unfinished, future]
        return future

    def wait_until(self, moment_us: int) -> Course[None]:
        """Wait until `moment_us`, a Unix time in microseconds."""
        yield lambda: self._clock.now_us() >= moment_us

    def do(self, act: Callable[[], T]) -> Course[T]:
        """Run `act` on another thread, and return its result or raise its exception."""
        future = self.begin(act)
        yield future.done
        return future.result()

    def poll(self, ask: Callable[[], T | None], *, timeout_s: float, what: str, every_s: float) -> Course[T]:
        """Call `ask` on another thread until it returns a true value, and return this value.

        A call begins `every_s` seconds after the previous call returned, or at the deadline if that is earlier. After
        `timeout_s` seconds, even during a call, raises DeadlineError: "waited N s for `what`". Exceptions of `ask` are
        raised.
        """
        deadline = self._clock.monotonic_s() + timeout_s
        while True:
            future = self.begin(ask)
            yield self._make_condition(future, deadline)
            if future.done() and (answer := future.result()):
                return answer
            if self._clock.monotonic_s() >= deadline:
                raise DeadlineError(f"waited {timeout_s:.0f} s for {what}")
            yield self._make_condition(None, min(self._clock.monotonic_s() + every_s, deadline))

    def _make_condition(self, future: Future[Any] | None, moment_s: float) -> Condition:
        """Return a condition that is true once `future` has ended, or once the monotonic clock has reached `moment_s`.

        Without a future, only the clock counts.
        """
        return lambda: (future is not None and future.done()) or self._clock.monotonic_s() >= moment_s
