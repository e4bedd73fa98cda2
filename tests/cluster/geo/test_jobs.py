"""The Spark jobs against two real clusters: load, consume, break nothing, read back, judge."""

from __future__ import annotations

import re
from collections import defaultdict

import pyarrow.parquet as pq
from brokerproof.experiment.verdict import Verdict
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.judgement import read_judgement
from brokerproof.run.records import LoadEnd, read_record
from missing_parts import leave_out

from .conftest import FAKETIME


def test_a_run_without_faults_passes(judged: Run) -> None:
    result = compose_outcome(judged).model_dump(mode="json")
    assert result["verdict"] == "passed", result["why"]
    assert sum(result["counts"]["illegal"].values()) == 0


def test_steps_of_two_clients_wall_clocks_are_named_and_change_no_verdict(judged: Run) -> None:
    if FAKETIME is None:
        leave_out("no libfaketime: install the package faketime")
    judgement = read_judgement(judged)
    assert (judgement.verdict, judgement.problems) == (Verdict.PASSED, ())
    named = [re.sub(r" at .* UTC", "", note) for note in judgement.notes]
    assert sorted(named) == [
        "The wall clock of audit-c0 in cluster-eu stepped by -2.00 s.",
        "The wall clock of cluster-us-p0 stepped by +2.00 s.",
    ]
    delays = measure_delays(judged)
    # The steps were real: a message's own time is by the producer's wall clock, and by that it arrived too early.
    assert min(delays["published_at", "cluster-us-p0"]) < 0
    assert min(min(delays["sent_at", producer]) for producer in ("cluster-eu-p0", "cluster-us-p0")) >= 0


def measure_delays(run: Run) -> dict[tuple[str, str], list[float]]:
    """The seconds from when a message was sent, by each account of that, to its delivery; by account and producer."""
    sent = {(row["producer"], row["seq"]): row["sent_at"] for row in pq.read_table(run.table("publishes")).to_pylist()}
    delays: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in pq.read_table(run.table("deliveries")).to_pylist():
        sent_at = {"sent_at": sent[row["producer"], row["seq"]], "published_at": row["published_at"]}
        for account, at in sent_at.items():
            delays[account, row["producer"]].append((row["received_at"] - at).total_seconds())
    return delays


def test_every_attempt_is_recorded_with_its_position(judged: Run) -> None:
    rows = pq.read_table(judged.table("publishes"))
    load = read_record(judged, LoadEnd)
    assert load is not None
    assert rows.num_rows == load.scheduled
    assert set(rows.column("outcome").to_pylist()) == {"acked"}
    assert rows.column("segment").null_count == 0
    for producer in set(rows.column("producer").to_pylist()):
        seqs = sorted(row["seq"] for row in rows.to_pylist() if row["producer"] == producer)
        assert seqs == list(range(len(seqs)))


def test_what_is_stored_is_what_was_acked_at_the_positions_of_the_acks(judged: Run) -> None:
    columns = ["cluster", "producer", "seq", "payload_hash", "segment", "offset", "batch_index"]
    published = {tuple(row.values()) for row in pq.read_table(judged.table("publishes"), columns=columns).to_pylist()}
    stored = {tuple(row.values()) for row in pq.read_table(judged.table("stored"), columns=columns).to_pylist()}
    assert published <= stored


def test_acks_of_deliveries_are_confirmed_by_the_cluster(judged: Run) -> None:
    rows = [row for row in pq.read_table(judged.table("deliveries")).to_pylist() if row["producer"]]
    confirmed = [row for row in rows if row["acknowledged_at"] is not None]
    assert len(confirmed) > 0.5 * len(rows)
    assert [row for row in confirmed if row["acknowledged_at"] < row["received_at"]] == []


def test_the_load_kept_its_schedule(judged: Run) -> None:
    held = [row.value or 0 for row in read_judgement(judged).measurements if row.metric == "rate_held"]
    assert len(held) == 3
    assert min(held) > 0.9


def test_the_whole_run_was_sampled_at_least_once_a_second(judged: Run) -> None:
    gap = next(row for row in read_judgement(judged).measurements if row.metric == "sampling_gap_s")
    # On two busy cores a sample may come late; what is measured is said with every run.
    assert gap.value is not None
    assert gap.value < 3, gap
