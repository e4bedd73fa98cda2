"""Each task of a job runs once, knows its run, and its rows are in the run's table."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from brokerproof.run.directory import Run
from brokerproof.run.tables import Batches, make_batch
from pyspark.sql import SparkSession
from spark_session import run_tasks


def record_task(run: Run, task: str) -> Batches:
    """Stands in for what a task does to a cluster: it counts how often it is done."""
    with Path(run.path(f"done-{task}")).open("a") as done:
        done.write("once ")
    rows = [{"at": 1, "metric": task, "value": number} for number in ("1", "2")]
    yield make_batch("observations", rows, {"run_id": "r", "source": run.directory})


@pytest.mark.parametrize("at_once", [False, True])
def test_every_task_runs_once_and_its_rows_are_kept(spark: SparkSession, tmp_path: Path, at_once: bool) -> None:
    run = Run(str(tmp_path))
    run_tasks(spark, run, "observations", ["a", "b"], record_task, at_once=at_once)
    rows = pq.read_table(run.table("observations")).to_pylist()
    assert sorted((row["metric"], row["value"]) for row in rows) == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]
    assert {row["source"] for row in rows} == {str(tmp_path)}
    assert [Path(run.path(f"done-{task}")).read_text() for task in "ab"] == ["once ", "once "]
