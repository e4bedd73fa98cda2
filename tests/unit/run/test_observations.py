"""The words for what is sampled, and the words that stored runs have for it."""

from __future__ import annotations

import pytest
from brokerproof.run.observations import (
    Sample,
    SampledMetric,
    Source,
    format_names,
    list_stored_names,
    make_topic_source,
    parse_names,
    split_name,
    translate_names,
)


@pytest.mark.parametrize(
    ("stored", "today"),
    [
        (("cluster:eu", "alive_brokers"), ("cluster:eu", "alive:broker")),
        (("cluster:eu", "alive_bookies"), ("cluster:eu", "alive:bookie")),
        (("cluster:eu", "under_replicated_ledgers"), ("cluster:eu", "under_replicated")),
        (("bookie:bookie-eu-1", "bytes_read"), ("node:bookie-eu-1", "bytes_read")),
    ],
)
def test_a_stored_sample_is_read_in_the_words_of_today(stored: tuple[str, str], today: tuple[str, str]) -> None:
    assert translate_names(*stored) == today


@pytest.mark.parametrize(
    "name",
    [
        (Source.TOPIC.join_name("persistent://a/b/c"), SampledMetric.BACKLOG.join_subject("alive_brokers")),
        (Source.SAMPLER.join_name("bookies"), SampledMetric.NO_ANSWER),
        ("link", SampledMetric.CPU_S),
        (Source.NODE.join_name("bookie"), SampledMetric.BYTES_READ),
    ],
)
def test_a_name_of_today_stays_as_it_is(name: tuple[str, str]) -> None:
    assert translate_names(*name) == name


def test_samples_are_looked_for_under_every_name_that_a_run_may_hold_them_under() -> None:
    assert list_stored_names([SampledMetric.ALIVE, SampledMetric.OWNER]) == [
        "alive",
        "owner",
        "alive_brokers",
        "alive_bookies",
    ]
    assert list_stored_names([SampledMetric.UNDER_REPLICATED]) == ["under_replicated", "under_replicated_ledgers"]


def test_a_name_is_split_where_it_was_joined() -> None:
    assert split_name(make_topic_source("persistent://a/b/c", "eu")) == ("topic", "persistent://a/b/c@eu")
    assert split_name(make_topic_source("persistent://a/b/c")) == ("topic", "persistent://a/b/c")
    assert split_name(SampledMetric.REPLICATION_BACKLOG.join_subject("eu>us")) == (
        SampledMetric.REPLICATION_BACKLOG,
        "eu>us",
    )
    assert split_name("link") == (Source.LINK, "")


def test_names_come_back_from_the_value_that_lists_them() -> None:
    assert parse_names(format_names(["broker-2", "broker-1"])) == ["broker-1", "broker-2"]
    assert parse_names(format_names([])) == []


def test_a_sample_is_a_row_of_the_table() -> None:
    sample = Sample(at=7, source="link", metric="cpu_s", value="0.1")
    assert sample.row("r1") == {"run_id": "r1", "at": 7, "source": "link", "metric": "cpu_s", "value": "0.1"}
