"""Each task of a job runs once, knows its run and its time axis, and its rows are in the run's table."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from brokerproof import clock
from brokerproof.run.directory import Run
from brokerproof.run.tables import Batches, make_batch
from brokerproof.run.time_axis import make_time_axis
from builders import make_run
from pyspark.sql import SparkSession
from spark_session import run_tasks

HOUR_US = 3_600_000_000


def record_task(run: Run, task: str) -> Batches:
    """Stands in for what a task does to a cluster: it counts how often it is done."""
    with Path(run.path(f"done-{task}")).open("a") as done:
        done.write("once ")
    rows = [{"at": clock.now_us(), "metric": task, "value": number} for number in ("1", "2")]
    yield make_batch("observations", rows, {"run_id": "r", "source": run.directory})


@pytest.mark.parametrize("at_once", [False, True])
def test_every_task_runs_once_and_its_rows_are_kept(spark: SparkSession, tmp_path: Path, at_once: bool) -> None:
    axis = make_time_axis()
    ahead = axis.model_copy(update={"offset_us": axis.offset_us + HOUR_US})
    run = make_run(tmp_path, time_axis=ahead)
    before = clock.now_us()
    run_tasks(spark, run, "observations", ["a", "b"], record_task, at_once=at_once)
    rows = pq.read_table(run.table("observations")).to_pylist()
    assert sorted((row["metric"], row["value"]) for row in rows) == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]
    times = [clock.to_microseconds(row["at"]) - HOUR_US - before for row in rows]
    assert 0 <= min(times) <= max(times) < HOUR_US
    assert {row["source"] for row in rows} == {str(tmp_path)}
    assert [Path(run.path(f"done-{task}")).read_text() for task in "ab"] == ["once ", "once "]
