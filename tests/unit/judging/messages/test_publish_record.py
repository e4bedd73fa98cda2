"""Gaps and contradictions of what was published are found over all parts."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import duckdb
import pytest
from brokerproof_judging.messages.message_columns import define_macros
from brokerproof_judging.messages.publish_record import (
    find_least_delay,
    find_problems,
    list_logs,
    summarize_part,
)

from ..judged import summarize


def find_gaps(*producers: tuple[str, int, int, int]) -> list[str]:
    return list(find_problems([summarize(producers=[each]) for each in producers]))


@pytest.mark.parametrize("parts", list(permutations([("p", 2, 0, 4), ("p", 1, 3, 3), ("p", 2, 1, 2)])))
def test_a_producer_whose_parts_are_whole_together_has_no_gap(parts: Any) -> None:
    assert find_gaps(*parts, ("q", 7, 0, 6)) == []


@pytest.mark.parametrize("parts", list(permutations([("p", 2, 1, 4), ("p", 1, 3, 3), ("q", 3, 0, 3), ("r", 1, 0, 0)])))
def test_gaps_are_named_with_their_producers(parts: Any) -> None:
    assert find_gaps(*parts) == [
        "The seq of what was published has gaps: p (3 different of 5, from 1 to 4), q (3 different of 4, from 0 to 3)."
    ]


@pytest.mark.parametrize(("count", "more"), [(3, ""), (4, ", …")])
def test_of_many_gaps_three_are_named(count: int, more: str) -> None:
    (problem,) = find_gaps(*((f"p{number}", 1, 1, 1) for number in reversed(range(count))))
    named = ", ".join(f"p{number} (1 different of 2, from 1 to 1)" for number in range(3))
    assert problem == f"The seq of what was published has gaps: {named}{more}."


def test_contradictions_are_named_once_for_all_parts() -> None:
    parts = [
        summarize(recorded_twice=["b"], two_homes="d", two_payloads="f", two_keys="h"),
        summarize(),
        summarize(recorded_twice=["a"], two_homes="c", two_payloads="e", two_keys="g"),
    ]
    assert list(find_problems(parts)) == [
        "One attempt is recorded more than once, so the load's record contradicts itself: a, b.",
        "Messages were published to two clusters, so they have no home; one is c.",
        "Messages were published with two payloads under one name; one is e.",
        "Messages were published with two keys under one name; one is g.",
    ]


@pytest.mark.parametrize(("delays", "least"), [([], None), ([None], None), ([5, None, -3], -3)])
def test_the_least_delay_is_that_of_all_parts(delays: list[int | None], least: int | None) -> None:
    assert find_least_delay([summarize(least_delay_us=each) for each in delays]) == least


def test_each_log_is_listed_once() -> None:
    parts = [summarize(logs=[("eu", "us", "t", 1), ("eu", "eu", "t", 1)]), summarize(logs=[("eu", "us", "t", 1)])]
    assert list_logs(parts) == [("eu", ("eu", "t", 1)), ("eu", ("us", "t", 1))]


def test_a_part_is_summarized_from_its_tables() -> None:
    with duckdb.connect() as connection:
        define_macros(connection)
        connection.execute("""
            CREATE TABLE publishes AS FROM (VALUES
                ('p', 0, 0, 'acked'), ('p', 1, 0, 'acked'), ('p', 1, 0, 'acked'), ('p', 1, 1, 'failed')
            ) AS rows(who, number, epoch, outcome);
            CREATE TABLE published AS FROM (VALUES
                ('p', 0, 'eu', 'eu', 5, 5, 'k', 'k'), ('p', 1, 'eu', 'us', 5, 6, 'k', 'l')
            ) AS rows(who, number, home, other_home, payload_hash, other_payload_hash, key, other_key);
            CREATE TABLE deliveries AS FROM (VALUES
                ('eu', 's', 'c', 0), ('eu', 's', 'c', 0)
            ) AS rows(cluster, subscription, consumer, incarnation);
            CREATE TABLE stored AS FROM (VALUES
                ('eu', 't', 1), ('eu', 't', NULL)
            ) AS rows(cluster, topic, partition);
            CREATE TABLE log_facts AS FROM (VALUES
                ('eu', 'eu', 't', 1, true), ('eu', 'us', 't', 1, false), ('eu', 'us', 't', NULL, true)
            ) AS rows(home, cluster, topic, partition, required);
            CREATE TABLE subscription_facts AS FROM (VALUES
                ({'received_at': 9}, 2, 1), ({'received_at': 5}, 1, 1), ({'received_at': 3}, 2, 2)
            ) AS rows(first_delivery, sent_at, attempts)
        """)
        summary = summarize_part(connection)
    assert summary.producers == [("p", 2, 0, 1)]
    assert sorted(summary.attempts) == [("p", 0, "acked", 3), ("p", 1, "failed", 1)]
    assert summary.deliveries == [("eu", "s", "c", 0, 2)]
    assert sorted(summary.stored) == [("eu", "t", -1, 1), ("eu", "t", 1, 1)]
    assert summary.logs == [("eu", "eu", "t", 1)]
    assert summary.recorded_twice == ["p seq 1 in epoch 0"]
    assert (summary.two_homes, summary.two_payloads, summary.two_keys) == ("p seq 1",) * 3
    assert summary.least_delay_us == 4
