"""One Spark session for unit tests, and how the tests are divided among the processes of `make unit` and `judging`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]

# A developer's own files are none of the tests' business.
for name in ("BROKERPROOF_SCENARIOS", "BROKERPROOF_TOPOLOGIES", "BROKERPROOF_EXPECTATIONS"):
    os.environ.pop(name, None)


# The tests of Spark, in three pieces of about the same length. A process has one session of Spark, which takes ten
# seconds to start, so each of the three processes of `make judging` has one of them.
OF_SPARK = (
    ("tests/unit/judging/suites/",),
    ("tests/unit/judging/measurements/", "tests/unit/jobs/test_run_tasks.py"),
    ("tests/unit/judging/",),
)

# Of the others, those in which a file takes seconds begin first, so that none of them is left for the end.
LONG = (
    "tests/unit/orchestration/",
    "tests/unit/results/",
    "tests/unit/faults/",
    "tests/unit/generated/",
    "tests/unit/test_monitor.py",
)


def find_piece(nodeid: str) -> int | None:
    """Which piece of the tests of Spark a test belongs to."""
    return next((piece for piece, names in enumerate(OF_SPARK) if nodeid.startswith(names)), None)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Divide the tests by file, those of Spark in three pieces, in the order in which they were collected."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            piece = find_piece(nodeid)
            return nodeid.partition("::")[0] if piece is None else f"spark {piece}"

    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of Spark come first, then the other long ones."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and find_piece(item.nodeid) is None:
            raise pytest.UsageError(f"{item.nodeid} would start a fourth session: name its file in OF_SPARK")

    def order(item: pytest.Item) -> tuple[int, int]:
        piece = find_piece(item.nodeid)
        first = next((place for place, name in enumerate(LONG) if item.nodeid.startswith(name)), len(LONG))
        return len(OF_SPARK) if piece is None else piece, first

    items.sort(key=order)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests."""
    from local_spark import start_local_spark

    places = ("plugins", "spark_jobs", "tests/installations")
    os.environ["PYTHONPATH"] = os.pathsep.join(str(ROOT / name) for name in places)
    session = start_local_spark(["-Xms1g", "-Xmn512m", "-XX:MetaspaceSize=256m"])
    yield session
    session.stop()
