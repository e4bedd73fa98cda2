"""Runs Spark jobs at the same time, because a single job leaves cores idle while it is planned and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_Takes = ParamSpec("_Takes")
_Gives = TypeVar("_Gives")


class BackgroundJobs:
    """Starts jobs in threads. Their results are read later, from futures."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(thread_name_prefix="judging")

    def begin(self, job: Callable[_Takes, _Gives], *args: _Takes.args, **kwargs: _Takes.kwargs) -> Future[_Gives]:
        """Start `job(*args, **kwargs)` in a thread. If it raises, the future's `result()` raises the same."""
        return self._pool.submit(job, *args, **kwargs)

    def end(self) -> None:
        """Cancel the jobs that have not started, and wait for the others. No job writes after that."""
        self._pool.shutdown(cancel_futures=True)
