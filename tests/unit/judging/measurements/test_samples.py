"""The samples of a run, whenever it was recorded."""

from __future__ import annotations

from datetime import UTC, datetime

from brokerproof.run.directory import Run
from brokerproof_judging.measurements.samples import read_samples

TODAY = [
    ("cluster:main", "alive:broker", '["broker-1"]'),
    ("cluster:main", "alive:bookie", "[]"),
    ("cluster:main", "under_replicated", "3"),
    ("topic:t", "owner", "broker-1"),
    ("topic:t", "published", "100"),
    ("topic:t", "backlog:audit", "7"),
    ("topic:t", "replication_backlog:main>other", "2"),
    ("node:bookie-1", "bytes_read", "10"),
    ("node:bookie-1", "bytes_written", "20"),
    ("link:eu>us", "timed", "4"),
    ("sampler:repair", "no_answer", "timed out"),
]
OLD_WORDS = {
    "alive:broker": "alive_brokers",
    "alive:bookie": "alive_bookies",
    "under_replicated": "under_replicated_ledgers",
    "node:bookie-1": "bookie:bookie-1",
}


def samples_of(directory, rows):
    run = Run(str(directory))
    columns = ("source", "metric", "value")
    at = {"run_id": "r", "at": datetime(2026, 1, 1, tzinfo=UTC)}
    run.append("observations", [at | dict(zip(columns, row, strict=True)) for row in rows])
    return read_samples(run)


def test_a_run_recorded_in_old_words_has_the_same_samples(tmp_path):
    old = [(OLD_WORDS.get(source, source), OLD_WORDS.get(metric, metric), value) for source, metric, value in TODAY]
    assert old != TODAY
    assert samples_of(tmp_path / "old", old) == samples_of(tmp_path / "today", TODAY)


def test_a_sample_without_a_value_is_no_sample(tmp_path):
    samples = samples_of(tmp_path, [("topic:t", "owner:0", None), ("topic:t", "owner:1", "broker-1")])
    assert samples.times.keys() == samples.series.keys() == {("topic:t", "owner:1")}


def test_every_sample_counts_in_time_and_those_that_are_measured_have_their_value(tmp_path):
    samples = samples_of(tmp_path, TODAY)
    assert samples.times.keys() == {(source, metric) for source, metric, _ in TODAY}
    # Messages published, bytes written and errors are for people.
    unread = {("topic:t", "published"), ("node:bookie-1", "bytes_written"), ("sampler:repair", "no_answer")}
    assert samples.series.keys() == {(source, metric) for source, metric, _ in TODAY} - unread
