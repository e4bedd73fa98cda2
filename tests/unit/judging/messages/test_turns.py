"""Consumers that receive in turns: who holds a subscription or a key, and what samples of the consumers prove."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from brokerproof.run.observations import SampledMetric, make_topic_source
from brokerproof_judging.applicability import explain_inapplicable
from pyspark.sql import SparkSession

from ..history import MILLISECOND, SECOND, START, TOPIC, History
from ..judged import Found, Judged
from ..reference import find_by_reference

SUBSCRIPTIONS = [{"name": each, "type": each} for each in ("failover", "exclusive", "key_shared", "shared")]
ANOMALIES = {
    "failover": "two_active_consumers",
    "exclusive": "two_active_consumers",
    "key_shared": "key_on_two_consumers",
}
# The samples of the planted histories are half a second apart, and the messages are sent between the first two.
SAMPLED_AT = [-SECOND, -SECOND // 2, SECOND // 2, SECOND, 3 * SECOND // 2]
Change = Callable[[History], bool | None]


def make_history() -> History:
    """Messages of one key each half of the time, which one consumer of each subscription received."""
    history = History(subscriptions=SUBSCRIPTIONS).clean(producers=1, messages=9)
    for at in SAMPLED_AT:
        observe(history, "owner", at, "broker-eu-1-main")
        for name in ANOMALIES:
            observe(history, f"consumers:{name}", at, '["consumer-0 at …", "consumer-1 at …"]')
    return history


def observe(history: History, metric: str, at: int, value: str | None) -> None:
    history.observations.append(
        {"source": make_topic_source(TOPIC), "metric": metric, "at": START + at, "value": value}
    )


def receive(history: History, seq: int, **values: Any) -> None:
    """Have another delivery to each subscription."""
    for name in (*ANOMALIES, "shared"):
        for row in history.rows("deliveries", "p0", seq, subscription=name):
            row.update(values)


def take_turns(history: History) -> None:
    receive(history, 4, consumer="consumer-1")


def in_turns(history: History) -> bool:
    take_turns(history)
    return False


def in_turns_of_incarnations(history: History) -> bool:
    receive(history, 4, incarnation=1)
    return False


def handed_over(history: History) -> None:
    """From the fifth message on, another consumer receives."""
    for seq in range(4, 9):
        receive(history, seq, consumer="consumer-1")


def handed_over_within_the_clock_error(history: History) -> None:
    history.facts["clock_error_us"] = 2 * MILLISECOND
    receive(history, 4, consumer="consumer-1")
    for seq in range(6, 9):
        history.forget("deliveries", "p0", seq)


def without_samples(history: History) -> bool:
    take_turns(history)
    history.observations.clear()
    return True


def a_consumer_joined(history: History) -> bool:
    take_turns(history)
    for row in history.observations:
        if row["metric"] != "owner" and row["at"] > START:
            row["value"] = '["consumer-0 at …"]'
    return True


def a_consumer_joined_before_the_messages(history: History) -> bool:
    take_turns(history)
    for row in history.observations:
        if row["metric"] != "owner" and row["at"] == START - SECOND:
            row["value"] = '["consumer-0 at …"]'
    return False


def a_consumer_joined_within_the_turn(history: History) -> bool:
    """The message was received in the period, and the other consumer received the next one after the period."""
    a_consumer_joined(history)
    for name in ANOMALIES:
        for at in (4700, 4800):
            observe(history, f"consumers:{name}", at, '["consumer-0 at …", "consumer-1 at …"]')
    return True


def another_owner(history: History) -> bool:
    take_turns(history)
    for row in history.observations:
        if row["metric"] == "owner" and row["at"] > START:
            row["value"] = "broker-eu-2-main"
    return True


def no_owner_is_known(history: History) -> bool:
    take_turns(history)
    observe(history, "owner", MILLISECOND, None)
    return True


def a_gap_in_the_samples(history: History) -> bool:
    take_turns(history)
    history.observations = [row for row in history.observations if row["at"] != START - SECOND // 2]
    return True


def no_sample_after_the_turn(history: History) -> bool:
    """The last sample may have been asked for before the turn ended, although its answer came later."""
    take_turns(history)
    history.observations = [row for row in history.observations if row["at"] <= START + SECOND // 2]
    return True


def sent_before_the_samples(history: History) -> bool:
    """The client may have held the first message of the turn since a time when its consumer was the active one."""
    take_turns(history)
    for seq in (0, 1, 2, 3):
        for row in history.rows("publishes", "p0", seq):
            row["scheduled_at"] -= 2 * SECOND
    return True


def prefetched_in_the_middle(history: History) -> bool:
    """The client that received in the turn may have held its message since before the samples."""
    take_turns(history)
    for row in history.rows("publishes", "p0", 4):
        row["scheduled_at"] -= 2 * SECOND
    return True


CHANGES: list[Change] = [
    *(in_turns, in_turns_of_incarnations, handed_over, handed_over_within_the_clock_error, without_samples),
    *(a_consumer_joined, a_consumer_joined_before_the_messages, another_owner, no_owner_is_known),
    *(a_gap_in_the_samples, no_sample_after_the_turn, sent_before_the_samples),
    *(prefetched_in_the_middle, a_consumer_joined_within_the_turn),
]


@pytest.mark.parametrize("change", CHANGES)
def test_turns_are_illegal_only_while_the_consumers_stay_the_same(
    spark: SparkSession, tmp_path: Path, change: Change
) -> None:
    history = make_history()
    legal = change(history)
    expected: set[Found] = set()
    if legal is not None:
        expected = {(anomaly, legal, "main", name, "p0", 4) for name, anomaly in ANOMALIES.items()}
    found = {each for each in Judged(spark, tmp_path / "run", history).anomalies(TOPIC) if "consumers" in each[0]}
    assert found == expected
    # The reference judge shares no code with judging.
    assert {each for each in find_by_reference(history) if "consumers" in each[0]} == expected


def test_a_turn_is_found_with_its_cause_and_both_consumers(spark: SparkSession, tmp_path: Path) -> None:
    history = make_history()
    in_turns(history)
    findings = Judged(spark, tmp_path / "run", history).findings(TOPIC)
    detail = "received by consumer-1 in incarnation 0 between two messages that consumer-0 received in incarnation 0"
    assert set(findings.values()) == {("consumers_stayed", detail)}


def test_keys_of_a_partition_may_belong_to_different_consumers(spark: SparkSession, tmp_path: Path) -> None:
    history = make_history()
    for seq in range(1, 9, 2):
        receive(history, seq, consumer="consumer-1")
    found = Judged(spark, tmp_path / "run", history).anomalies(TOPIC)
    assert {(name, where) for name, _, _, where, *_ in found} == {
        ("two_active_consumers", "failover"),
        ("two_active_consumers", "exclusive"),
    }


def test_a_turn_of_a_key_says_nothing_of_other_keys(spark: SparkSession, tmp_path: Path) -> None:
    history = make_history()
    for seq in (1, 3, 4, 5, 7):
        receive(history, seq, consumer="consumer-1")
    found = Judged(spark, tmp_path / "run", history).anomalies(TOPIC)
    assert {each for each in found if each[3] == "key_shared"} == {
        ("key_on_two_consumers", False, "main", "key_shared", "p0", 4)
    }


def test_partitions_may_belong_to_different_consumers(spark: SparkSession, tmp_path: Path) -> None:
    history = History(subscriptions=SUBSCRIPTIONS)
    for seq in range(8):
        history.message("p0", seq, partition=seq % 2)
        receive(history, seq, consumer=f"consumer-{seq % 2}")
    assert Judged(spark, tmp_path / "run", history).anomalies(TOPIC) == set()


def test_messages_without_a_key_may_go_to_any_consumer(spark: SparkSession, tmp_path: Path) -> None:
    history = make_history()
    for table in (history.publishes, history.stored, history.deliveries):
        for row in table:
            row["key"] = None
    take_turns(history)
    found = Judged(spark, tmp_path / "run", history).anomalies(TOPIC)
    assert {name for name, *_ in found} == {"two_active_consumers"}


@pytest.mark.parametrize(
    ("types", "why"),
    [
        (("failover", "key_shared"), ("", "")),
        (("shared",), ("no subscription is exclusive or failover", "no subscription is key_shared")),
    ],
)
def test_the_anomalies_apply_to_the_types_that_have_one_receiver(
    tmp_path: Path, types: tuple[str, ...], why: tuple[str, str]
) -> None:
    run = History(subscriptions=[{"name": each, "type": each} for each in types]).clean().write(tmp_path / "run")
    names = ("two_active_consumers", "key_on_two_consumers")
    assert tuple(explain_inapplicable(run, name) for name in names) == why


def test_the_metrics_of_samples_are_those_that_the_system_records() -> None:
    assert SampledMetric.CONSUMERS.join_subscription("audit", -1) == "consumers:audit"
    assert SampledMetric.CONSUMERS.join_subscription("audit", 3) == "consumers:audit/3"
