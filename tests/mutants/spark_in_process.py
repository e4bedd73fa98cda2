"""A plugin of pytest that judges in this process and without Spark, with SQL for every message.

Spark takes ten seconds to start, which is too long for a mutant. Judging needs only tasks of Spark. Arrays would judge
most messages, so they are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import local_spark
import pyarrow as pa
import pytest
from brokerproof.run.tables import Batches
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
    """The little of a Spark session that judging needs: numbers and settings."""

    conf = SimpleNamespace(get=lambda _: "1", set=lambda *_: None)

    def range(self, start: int, end: int, *_: int) -> _Frame:
        return _Frame(pa.table({"id": pa.array(range(start, end), pa.int64())}))

    def stop(self) -> None: ...


class _Frame:
    """The numbers of tasks, or what the tasks answered."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def mapInArrow(self, work: Callable[[Batches], Batches], _: str) -> _Frame:  # noqa: N802
        batches = list(work(iter(self._rows.to_batches())))
        return _Frame(pa.Table.from_batches(batches) if batches else self._rows.slice(0, 0))

    def collect(self) -> list[_Row]:
        return [_Row(row) for row in self._rows.to_pylist()]


class _Row:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)
        self._values = list(values.values())

    def __getitem__(self, place: int) -> Any:
        return self._values[place]
