"""The names of samples."""

from __future__ import annotations

from brokerproof.run.observations import (
    Sample,
    SampledMetric,
    Source,
    format_names,
    make_topic_source,
    parse_names,
    split_name,
)


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
