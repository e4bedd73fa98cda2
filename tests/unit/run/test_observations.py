"""The words for what is sampled, and the words that stored runs have for it."""

from __future__ import annotations

import pytest
from brokerproof.run.observations import (
    Metric,
    Sample,
    Source,
    list_value,
    names_in,
    split,
    stored_spellings,
    topic_source,
    translate,
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
    assert translate(*stored) == today


@pytest.mark.parametrize(
    "name",
    [
        (Source.TOPIC.of("persistent://a/b/c"), Metric.BACKLOG.of("alive_brokers")),
        (Source.SAMPLER.of("bookies"), Metric.NO_ANSWER),
        ("link", Metric.CPU_S),
        (Source.NODE.of("bookie"), Metric.BYTES_READ),
    ],
)
def test_a_name_of_today_stays_as_it_is(name: tuple[str, str]) -> None:
    assert translate(*name) == name


def test_samples_are_looked_for_under_every_name_that_a_run_may_hold_them_under() -> None:
    assert stored_spellings([Metric.ALIVE, Metric.OWNER]) == ["alive", "owner", "alive_brokers", "alive_bookies"]
    assert stored_spellings([Metric.UNDER_REPLICATED]) == ["under_replicated", "under_replicated_ledgers"]


def test_a_name_is_split_where_it_was_joined() -> None:
    assert split(topic_source("persistent://a/b/c", "eu")) == ("topic", "persistent://a/b/c@eu")
    assert split(topic_source("persistent://a/b/c")) == ("topic", "persistent://a/b/c")
    assert split(Metric.REPLICATION_BACKLOG.of("eu>us")) == (Metric.REPLICATION_BACKLOG, "eu>us")
    assert split("link") == (Source.LINK, "")


def test_names_come_back_from_the_value_that_lists_them() -> None:
    assert names_in(list_value(["broker-2", "broker-1"])) == ["broker-1", "broker-2"]
    assert names_in(list_value([])) == []


def test_a_sample_is_a_row_of_the_table() -> None:
    sample = Sample(at=7, source="link", metric="cpu_s", value="0.1")
    assert sample.row("r1") == {"run_id": "r1", "at": 7, "source": "link", "metric": "cpu_s", "value": "0.1"}
