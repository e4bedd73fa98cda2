"""Spark jobs that run beside each other: one alone leaves cores idle while it is planned and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_Takes = ParamSpec("_Takes")
_Gives = TypeVar("_Gives")


class BackgroundJobs:
    """Jobs that begin now and are waited for later."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(thread_name_prefix="judging")

    def begin(self, job: Callable[_Takes, _Gives], *args: _Takes.args, **kwargs: _Takes.kwargs) -> Future[_Gives]:
        """Begin a job; what it raises comes out of the future's `result`."""
        return self._pool.submit(job, *args, **kwargs)

    def end(self) -> None:
        """Wait for the jobs that have begun, so that nothing writes any more."""
        self._pool.shutdown(cancel_futures=True)
