"""What unit tests share: one Spark session, and how they are divided among the processes of `make unit`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]


# The tests of Spark, in two pieces of about the same length. A process has one session of Spark, whose start takes ten
# seconds, so two of the processes of `make unit` begin with one of them each.
# Great Expectations is imported in the first of them only.
OF_SPARK = (
    ("tests/unit/judging/suites/", "tests/unit/judging/test_verify.py"),
    ("tests/unit/judging/", "tests/unit/jobs/test_run_tasks.py"),
)

# Of the others, those in which a file takes seconds begin first, so that none of them is left for the end. Many of them
# wait for real time, which they can do while Spark keeps the processors busy.
LONG = (
    "tests/unit/network/",
    "tests/unit/orchestration/",
    "tests/unit/results/",
    "tests/unit/faults/",
    "tests/unit/test_lifecycle.py",
)


def find_piece(nodeid: str) -> int | None:
    """Which piece of the tests of Spark a test belongs to."""
    return next((piece for piece, names in enumerate(OF_SPARK) if nodeid.startswith(names)), None)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Divide the tests by file, those of Spark in two pieces, in the order in which they were collected."""
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
            raise pytest.UsageError(f"{item.nodeid} would start a third session: name its file in OF_SPARK")

    def order(item: pytest.Item) -> tuple[int, int]:
        piece = find_piece(item.nodeid)
        first = next((place for place, name in enumerate(LONG) if item.nodeid.startswith(name)), len(LONG))
        return len(OF_SPARK) if piece is None else piece, first

    items.sort(key=order)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests, made for a dozen rows: compiling a query costs more than to interpret it."""
    from brokerproof.machine.java import find_spark_java_home
    from brokerproof.spark import class_data_archive

    # PySpark takes a main module without a file, as pytest-xdist's processes have it, for its own doctests, and exits.
    vars(sys.modules["__main__"]).setdefault("__file__", __file__)
    os.environ["JAVA_HOME"] = str(find_spark_java_home())
    # What runs in Spark's Python workers comes from here too.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(str(ROOT / name) for name in ("plugins", "spark_jobs"))
    # A third of the time went into the optimising compiler, for code that then ran for a second.
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms1g", "-Xmn512m", "-XX:MetaspaceSize=256m"]
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraJavaOptions", " ".join([*options, *class_data_archive.list_java_options()]))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # As judging leaves it for a small run.
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
