"""Each task of a job runs once, knows its run and its time axis, and its rows are in the run's table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brokerproof import clock
from brokerproof.run.directory import Run
from brokerproof.run.division import Division, list_part_files
from brokerproof.run.tables import SCHEMAS, Batches, make_batch
from brokerproof.run.time_axis import make_time_axis
from builders import make_run
from pyspark.sql import SparkSession
from spark_session import run_tasks

HOUR_US = 3_600_000_000
# They are in several blocks, and so in several parts.
SEQS = (0, 1, 10_000_000)


def record_task(run: Run, task: str) -> Batches:
    """Stands in for what a task does to a cluster: it counts how often it is done."""
    with Path(run.path(f"done-{task}")).open("a") as done:
        done.write("once ")
    rows = [{"producer": task, "seq": seq, "published_at": clock.now_us()} for seq in SEQS]
    yield make_stored(rows, run.directory)


def make_stored(rows: list[dict[str, Any]], key: str) -> pa.RecordBatch:
    constant = dict.fromkeys(SCHEMAS["stored"].names) | {"run_id": "r", "key": key}
    return make_batch("stored", rows, {name: constant[name] for name in constant.keys() - rows[0].keys()})


def record_until_failure(run: Run, task: str) -> Batches:
    """The first attempt of a task fails after all of its rows, when those of the other task may be written."""
    yield from record_task(run, task)
    if task == "b":
        raise ValueError("the cluster is gone")


def read_files(run: Run) -> list[Path]:
    return sorted(Path(run.table("stored")).iterdir())


@pytest.mark.parametrize("at_once", [False, True])
def test_every_task_runs_once_and_its_rows_are_kept(spark: SparkSession, tmp_path: Path, at_once: bool) -> None:
    axis = make_time_axis()
    ahead = axis.model_copy(update={"offset_us": axis.offset_us + HOUR_US})
    run = make_run(tmp_path, time_axis=ahead)
    before = clock.now_us()
    run_tasks(spark.sparkContext, run, "stored", ["a", "b"], record_task, at_once=at_once)
    rows = pq.read_table(run.table("stored")).to_pylist()
    assert sorted((row["producer"], row["seq"]) for row in rows) == [(task, seq) for task in "ab" for seq in SEQS]
    times = [clock.to_microseconds(row["published_at"]) - HOUR_US - before for row in rows]
    assert 0 <= min(times) <= max(times) < HOUR_US
    assert {row["key"] for row in rows} == {str(tmp_path)}
    assert [Path(run.path(f"done-{task}")).read_text() for task in "ab"] == ["once ", "once "]


def test_each_file_holds_the_rows_of_one_part(spark: SparkSession, tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run_tasks(spark.sparkContext, run, "stored", ["a", "b"], record_task)
    division = Division.from_names(file.name for file in read_files(run))
    assert division == Division.for_run(run)
    for part in range(division.parts):
        for file in list_part_files([file.name for file in read_files(run)], part):
            (batch,) = pq.read_table(Path(run.table("stored"), file)).combine_chunks().to_batches()
            assert set(division.compute_parts(batch)) == {part}


@pytest.mark.parametrize("at_once", [False, True])
def test_a_job_that_fails_leaves_no_row_and_no_file(spark: SparkSession, tmp_path: Path, at_once: bool) -> None:
    run = make_run(tmp_path)
    run_tasks(spark.sparkContext, run, "stored", ["c"], record_task)
    before = read_files(run)
    with pytest.raises(Exception, match="the cluster is gone"):
        run_tasks(spark.sparkContext, run, "stored", ["a", "b"], record_until_failure, at_once=at_once)
    assert read_files(run) == before
