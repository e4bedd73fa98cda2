"""The samples of a run, whenever it was recorded."""

from __future__ import annotations

import pytest
from brokerproof.errors import RunError
from brokerproof.run.observations import SampledMetric, Source
from brokerproof_judging.measurements.samples import read_samples

from ..history import REPLICATED, START, History

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


def samples_of(directory, rows, **scenario):
    history = History(**scenario)
    columns = ("source", "metric", "value")
    history.observations = [{"at": START, **dict(zip(columns, row, strict=True))} for row in rows]
    return read_samples(history.write(directory))


def test_a_sample_without_a_value_is_no_sample(tmp_path):
    samples = samples_of(tmp_path, [("topic:t", "owner:0", None), ("topic:t", "owner:1", "broker-1")])
    assert samples.series.keys() == {("topic:t", "owner:1")}


def test_every_sample_with_a_value_is_in_its_series(tmp_path):
    assert samples_of(tmp_path, TODAY).series.keys() == {(source, metric) for source, metric, _ in TODAY}


def test_what_is_expected_and_was_never_sampled_is_an_empty_series(tmp_path):
    topic = f"topic:persistent://{REPLICATED}/orders"
    samples = samples_of(
        tmp_path,
        [(f"{topic}@main", "owner:0", "broker-1"), (f"{topic}@other", "replication_backlog:other>main", "4")],
        clusters=("main", "other"),
        workload={"namespace": REPLICATED, "partitions": 2},
        subscriptions=[{"name": "audit", "cluster": "other"}],
    )

    def find(metric):
        return {
            (source, subject): [value for _, value in values]
            for source, subject, values in samples.find_by_subject(Source.TOPIC, metric)
        }

    assert find(SampledMetric.OWNER) == {
        (f"{topic}@main", "0"): ["broker-1"],
        (f"{topic}@main", "1"): [],
        (f"{topic}@other", "0"): [],
        (f"{topic}@other", "1"): [],
    }
    # It is published to main only: what other replicates need not be sampled.
    assert find(SampledMetric.REPLICATION_BACKLOG) == {
        (f"{topic}@main", "main>other"): [],
        (f"{topic}@other", "other>main"): ["4"],
    }
    assert find(SampledMetric.BACKLOG) == {(f"{topic}@other", "audit"): []}


def test_a_topic_that_is_not_replicated_has_no_replication_backlog(tmp_path):
    samples = samples_of(tmp_path, [], clusters=("main", "other"))
    assert list(samples.find_by_subject(Source.TOPIC, SampledMetric.REPLICATION_BACKLOG)) == []


@pytest.mark.parametrize("column", ["at", "source", "metric"])
def test_a_sample_without_its_time_or_its_name_is_damage(tmp_path, column):
    history = History()
    row = {"at": START, "source": "topic:t", "metric": "owner", "value": "broker-1"}
    history.observations = [row, {**row, column: None}]
    with pytest.raises(RunError):
        read_samples(history.write(tmp_path))


def test_the_series_of_a_metric_are_those_of_its_sources_only(tmp_path):
    samples = samples_of(tmp_path, [*TODAY, ("node:bookie-2", "bytes_read", "5"), ("link:eu>us", "bytes_read", "6")])
    found = {name: [value for _, value in values] for name, values in samples.find_series(Source.NODE, "bytes_read")}
    assert found == {"bookie-1": ["10"], "bookie-2": ["5"]}


@pytest.mark.parametrize(("second", "silences"), [(5, 0), (5.000001, 1)])
def test_a_silence_is_a_time_of_more_than_five_seconds_without_any_sample(tmp_path, second, silences):
    history = History()
    for at in (START, START + int(second * 1_000_000)):
        history.observations.append({"at": at, "source": "topic:t", "metric": "owner", "value": "broker-1"})
    samples = read_samples(history.write(tmp_path))
    assert (len(samples.silences), samples.last_us) == (silences, START + int(second * 1_000_000))


def test_without_a_sample_there_is_no_silence(tmp_path):
    samples = read_samples(History().write(tmp_path))
    assert (samples.silences, samples.last_us) == ((), 0)
