"""A plugin of pytest that judges in this process and without Spark, with SQL for every message.

Spark takes ten seconds to start, which is too long for a mutant. Judging needs only tasks of Spark. Arrays would judge
most messages, so they are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import local_spark
import pytest
from brokerproof_judging import run_judging
from brokerproof_judging.messages import message_judging


def pytest_configure(config: pytest.Config) -> None:
    del config
    replaced: Mapping[Any, Mapping[str, Any]] = {
        local_spark: {"start_local_spark": lambda _: _Session()},
        run_judging: {"start_judging_workers": lambda _: None},
    }
    for module, names in replaced.items():
        for name, value in names.items():
            setattr(module, name, value)
    message_judging.MessageJudging.__init__.__kwdefaults__["most_suspicious"] = None  # type: ignore[index]


class _Session:
    """The little of a Spark session that judging needs: tasks, here all in one."""

    @property
    def sparkContext(self) -> _Session:  # noqa: N802
        return self

    def parallelize(self, numbers: Sequence[int], _: int) -> _Tasks:
        return _Tasks(numbers)

    def stop(self) -> None: ...


class _Tasks:
    def __init__(self, answers: Iterable[Any]) -> None:
        self._answers = answers

    def mapPartitions(self, work: Callable[[Iterable[Any]], Iterable[Any]]) -> _Tasks:  # noqa: N802
        return _Tasks(work(self._answers))

    def collect(self) -> list[Any]:
        return list(self._answers)
