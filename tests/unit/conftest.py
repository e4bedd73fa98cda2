"""What unit tests share: one Spark session, and how they are divided among the processes of `make unit`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups for `pytest --dist loadgroup`: all tests of Spark in one process, because there is one session a process.

    They take the longest, so they come first. The other tests are divided by file, and those that start a PostgreSQL
    come first of them, so that it is started in one process only.
    """

    def used(item: pytest.Item) -> set[str]:
        return set(getattr(item, "fixturenames", ()))

    for item in items:
        item.add_marker(pytest.mark.xdist_group("spark" if "spark" in used(item) else item.nodeid.partition("::")[0]))
    with_postgres = {item.path for item in items if used(item) & {"postgres", "database_url"}}
    items.sort(key=lambda item: ("spark" not in used(item), item.path not in with_postgres))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests, made for a dozen rows: compiling a query costs more than to interpret it."""
    from brokerproof.machine.java import spark_java_home
    from brokerproof.spark import class_data_archive

    os.environ["JAVA_HOME"] = str(spark_java_home())
    # What runs in Spark's Python workers comes from here too.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(str(ROOT / name) for name in ("plugins", "spark_jobs"))
    # A third of the time went into the optimising compiler, for code that then ran for a second.
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraJavaOptions", " ".join([*options, *class_data_archive.list_java_options()]))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
