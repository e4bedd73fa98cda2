"""A plugin of pytest that judges in this process and without Spark, with SQL for every message.

Spark takes ten seconds to start, which is too long for most mutants. Judging needs only tasks of Spark. Suites that
read whole tables need more, and start it. Arrays would judge most messages, so they are left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import local_spark
import pytest
from brokerproof_judging import run_judging
from brokerproof_judging.messages import message_judging
from kept_messages import KeptMessages
from mutant_trials import KEPT_MESSAGES
from pyspark.sql import SparkSession


def pytest_configure(config: pytest.Config) -> None:
    del config
    start = local_spark.start_local_spark
    judging = KeptMessages if KEPT_MESSAGES in os.environ else message_judging.MessageJudging
    replaced: Mapping[Any, Mapping[str, Any]] = {
        local_spark: {"start_local_spark": lambda heap: _Session(partial(start, heap))},
        # An earlier run of pytest in this process may have replaced `MessageJudging`.
        run_judging: {"start_judging_workers": lambda _: None, "MessageJudging": judging},
    }
    for module, names in replaced.items():
        for name, value in names.items():
            setattr(module, name, value)
    message_judging.MessageJudging.__init__.__kwdefaults__["most_suspicious"] = None  # type: ignore[index]


class _Session:
    """A Spark session whose tasks run in this process, all in one. For anything else, Spark starts."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start, self._started = start, list[SparkSession]()

    def __getattr__(self, name: str) -> Any:
        if not self._started:
            self._started.append(self._start())
        return getattr(self._started[0], name)

    @property
    def sparkContext(self) -> _Session:  # noqa: N802
        return self

    def parallelize(self, numbers: Sequence[int], _: int) -> _Tasks:
        return _Tasks(numbers)

    def stop(self) -> None:
        for session in self._started:
            session.stop()


class _Tasks:
    def __init__(self, answers: Iterable[Any]) -> None:
        self._answers = answers

    def mapPartitions(self, work: Callable[[Iterable[Any]], Iterable[Any]]) -> _Tasks:  # noqa: N802
        return _Tasks(work(self._answers))

    def collect(self) -> list[Any]:
        return list(self._answers)
