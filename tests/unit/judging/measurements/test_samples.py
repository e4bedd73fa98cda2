"""The samples of a run, whenever it was recorded."""

from __future__ import annotations

from datetime import UTC, datetime

from brokerproof.run.tables import SCHEMAS
from brokerproof_judging import table_io
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


def samples_of(spark, rows):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    columns = SCHEMAS["observations"].names
    frame = spark.createDataFrame(
        [
            tuple(
                {"run_id": "r", "at": at}.get(name, value) for name, value in zip(columns, ("", "", *row), strict=True)
            )
            for row in rows
        ],
        table_io.make_table_schema("observations"),
    )
    return read_samples(frame)


def test_a_run_recorded_in_old_words_has_the_same_samples(spark):
    old = [(OLD_WORDS.get(source, source), OLD_WORDS.get(metric, metric), value) for source, metric, value in TODAY]
    assert old != TODAY
    assert samples_of(spark, old) == samples_of(spark, TODAY)


def test_every_sample_counts_in_time_and_those_that_are_measured_have_their_value(spark):
    samples = samples_of(spark, TODAY)
    assert samples.times.keys() == {"cluster", "topic", "node", "link", "sampler"}
    # Messages published, bytes written and errors are for people.
    unread = {("topic:t", "published"), ("node:bookie-1", "bytes_written"), ("sampler:repair", "no_answer")}
    assert samples.series.keys() == {(source, metric) for source, metric, _ in TODAY} - unread
