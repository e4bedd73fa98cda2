"""The Spark jobs against the stretched cluster: load, consume, break nothing, read back, judge."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from brokerproof import lifecycle
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.judgement import read_judgement
from brokerproof.run.records import LoadEnd, StepProblem, read_record, write_record
from brokerproof.settings import from_environment
from brokerproof.spark.submission import submit_locally

from .conftest import ROOT, Stretched


def submit(run: Run, job: str, *arguments: str) -> None:
    submit_locally(from_environment(), job, [run.directory, *arguments])


def run_jobs(run: Run) -> Run:
    """A run without faults, from its load to its judgement."""
    failures: list[BaseException] = []

    def side_by_side(job: str) -> threading.Thread:
        def work() -> None:
            try:
                submit(run, job)
            except BaseException as error:
                failures.append(error)
                # Or else the timeline waits for a load that never comes.
                write_record(run, StepProblem(step=job, problem=str(error)))

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    threads = [side_by_side(job) for job in ("load", "consume")]
    lifecycle.break_it(run)
    for thread in threads:
        thread.join()
    assert not failures
    submit(run, "read_back")
    submit(run, "verify", "--expectations", str(ROOT / "expectations"))
    return run


@pytest.fixture(scope="module")
def judged(stretched: Stretched) -> Run:
    return run_jobs(stretched.reserved)


def test_a_run_without_faults_passes(judged: Run) -> None:
    result = compose_outcome(judged).model_dump(mode="json")
    assert result["verdict"] == "passed", result["why"]
    assert all(count == 0 for count in result["counts"]["illegal"].values())


def test_every_attempt_is_recorded_with_its_position(judged: Run) -> None:
    rows = pq.read_table(judged.table("publishes"))
    load = read_record(judged, LoadEnd)
    assert load is not None
    assert rows.num_rows == load.scheduled
    assert set(rows.column("outcome").to_pylist()) == {"acked"}
    assert rows.column("ledger_id").null_count == 0
    for producer in set(rows.column("producer").to_pylist()):
        seqs = sorted(row["seq"] for row in rows.to_pylist() if row["producer"] == producer)
        assert seqs == list(range(len(seqs)))


def test_what_is_stored_is_what_was_acked_at_the_positions_of_the_acks(judged: Run) -> None:
    columns = ["producer", "seq", "payload_hash", "ledger_id", "entry_id", "batch_index"]
    published = {tuple(row.values()) for row in pq.read_table(judged.table("publishes"), columns=columns).to_pylist()}
    stored = {tuple(row.values()) for row in pq.read_table(judged.table("stored"), columns=columns).to_pylist()}
    assert published <= stored


def test_acks_of_deliveries_are_confirmed_by_the_cluster(judged: Run) -> None:
    rows = [row for row in pq.read_table(judged.table("deliveries")).to_pylist() if row["producer"]]
    confirmed = [row for row in rows if row["acknowledged_at"] is not None]
    assert len(confirmed) > 0.5 * len(rows)
    assert all(row["acknowledged_at"] >= row["received_at"] for row in confirmed)


def test_the_load_kept_its_schedule(judged: Run) -> None:
    held = [row for row in read_judgement(judged).measurements if row.metric == "rate_held"]
    assert len(held) == 3
    assert all(row.value is not None and row.value > 0.9 for row in held)


def test_the_whole_run_was_sampled_at_least_once_a_second(judged: Run) -> None:
    gap = next(row for row in read_judgement(judged).measurements if row.metric == "sampling_gap_s")
    # On two busy cores a sample may come late; what is measured is said with every run.
    assert gap.value is not None
    assert gap.value < 3, gap


def test_a_log_that_loses_a_message_after_the_fact_is_found(judged: Run, tmp_path: Path) -> None:
    """The same tables with one stored message taken away: the check that passed says no."""
    import shutil

    damaged = Run(str(tmp_path / "damaged"))
    shutil.copytree(judged.directory, damaged.directory, ignore=shutil.ignore_patterns("nodes", "report"))
    stored = pq.read_table(judged.table("stored"))
    acked = pq.read_table(judged.table("publishes"), columns=["producer", "seq"]).to_pylist()[0]
    kept = [row for row in stored.to_pylist() if (row["producer"], row["seq"]) != (acked["producer"], acked["seq"])]
    shutil.rmtree(damaged.table("stored"))
    damaged.append("stored", kept)
    submit(damaged, "verify", "--expectations", str(ROOT / "expectations"))
    result = compose_outcome(damaged).model_dump(mode="json")
    assert result["verdict"] == "failed"
    assert result["counts"]["illegal"]["lost"] == 1
