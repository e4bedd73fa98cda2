"""A key that moves to a partition that a fault added: what is compared only inside one partition, and what is found.

Messages 0 to 5 of p0 are in partition 0. From message 6 on, the key is in partition 1, whose positions are lower.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from brokerproof.run.observations import SampledMetric, make_topic_source
from brokerproof.run.records import LogsRead
from brokerproof_judging.evidence import Evidence
from pyspark.sql import SparkSession

from ..history import MILLISECOND, SECOND, START, TOPIC, History
from ..judged import Found, Judged
from ..reference import find_by_reference

AUDIT, KEYED = "audit", "keyed"
SUBSCRIPTIONS = [{"name": AUDIT}, {"name": KEYED, "type": "key_shared", "consumers": 2}]
MOVES_AT, MESSAGES = 6, 12
Change = Callable[[History], set[Found]]


def make_history() -> History:
    """The new partition's messages are delivered before the last ones of the old one, by key to another consumer."""
    history = History(subscriptions=SUBSCRIPTIONS, workload={"partitions": 1, "grows_to": 2})
    for _ in range(100):
        history.next_entry(partition=0)
    for seq in range(MESSAGES):
        history.message("p0", seq, key="k", partition=0 if seq < MOVES_AT else 1)
    for row in history.deliveries:
        if row["partition"] == 0 and row["seq"] >= 3:
            # Between messages 8 and 11 of the other partition.
            row["received_at"] = START + (6 + row["seq"]) * MILLISECOND
            row["acknowledged_at"] = row["received_at"] + 50
        elif row["partition"] == 1 and row["subscription"] == KEYED:
            row["consumer"] = "consumer-1"
    source = make_topic_source(TOPIC)
    for at in (-SECOND, -SECOND // 2, SECOND // 2, SECOND, 3 * SECOND // 2):
        for number in (0, 1):
            samples = {
                SampledMetric.OWNER.join_partition(number): "broker-eu-1-main",
                SampledMetric.CONSUMERS.join_subscription(AUDIT, number): '["consumer-0 at …"]',
                SampledMetric.CONSUMERS.join_subscription(KEYED, number): '["consumer-0 at …", "consumer-1 at …"]',
            }
            for metric, value in samples.items():
                history.observations.append({"source": source, "metric": metric, "at": START + at, "value": value})
    return history


def nothing(history: History) -> set[Found]:
    return set()


def stored_out_of_order_in_the_new_partition(history: History) -> set[Found]:
    for table in ("publishes", "stored", "deliveries"):
        first, second = (history.rows(table, "p0", seq) for seq in (8, 9))
        for one, other in zip(first, second, strict=True):
            one["offset"], other["offset"] = other["offset"], one["offset"]
    # Message 9 is at the lower position, and is acked later than 8.
    return {
        ("stored_out_of_order", False, "main", None, "p0", 8),
        ("position_regressed", False, "main", None, "p0", 9),
    }


def delivered_out_of_order_in_the_new_partition(history: History) -> set[Found]:
    for row in history.rows("deliveries", "p0", 8, subscription=AUDIT):
        row.update(received_at=START + SECOND, acknowledged_at=START + SECOND + 50, arrival=1000)
    return {("delivered_out_of_order", False, "main", AUDIT, "p0", 8)}


def delivered_out_of_order_in_the_old_partition(history: History) -> set[Found]:
    for row in history.rows("deliveries", "p0", 1, subscription=AUDIT):
        row.update(received_at=START + SECOND, acknowledged_at=START + SECOND + 50, arrival=1000)
    return {("delivered_out_of_order", False, "main", AUDIT, "p0", 1)}


def received_by_another_consumer_of_the_new_partition(history: History) -> set[Found]:
    for row in history.rows("deliveries", "p0", 8, subscription=KEYED):
        row["consumer"] = "consumer-0"
    return {("key_on_two_consumers", False, "main", KEYED, "p0", 8)}


def lost_in_the_new_partition(history: History) -> set[Found]:
    history.forget("stored", "p0", 8)
    history.forget("deliveries", "p0", 8)
    return {("lost", False, "main", None, "p0", 8)}


@pytest.mark.parametrize(
    "change",
    [
        nothing,
        stored_out_of_order_in_the_new_partition,
        delivered_out_of_order_in_the_new_partition,
        delivered_out_of_order_in_the_old_partition,
        received_by_another_consumer_of_the_new_partition,
        lost_in_the_new_partition,
    ],
)
def test_order_and_turns_are_judged_in_each_partition(spark: SparkSession, tmp_path: Path, change: Change) -> None:
    history = make_history()
    expected = change(history)
    assert Judged(spark, tmp_path / "run", history).anomalies(TOPIC) == expected
    # The reference judge shares no code with judging.
    assert find_by_reference(history) == expected


def test_the_logs_of_the_partitions_that_a_fault_adds_have_to_be_read(tmp_path: Path) -> None:
    def list_problems(history: History, directory: Path) -> list[str]:
        run = history.write(directory)
        return list(Evidence.from_run(run).list_problems(run, [("main", ("main", TOPIC, 0))]))

    assert list_problems(make_history(), tmp_path / "read") == []
    history = make_history()
    history.unread["main", TOPIC, 1] = {}
    (problem,) = list_problems(history, tmp_path / "unread")
    assert "orders-partition-1 in main was not read to its end" in problem
    # If the fault never took effect, nobody looks for the log.
    history = make_history()
    read = history._proofs()[LogsRead]
    assert isinstance(read, LogsRead)
    history.leave(read.model_copy(update={"logs": tuple(log for log in read.logs if log.partition == 0)}))
    (problem,) = list_problems(history, tmp_path / "unknown")
    assert "orders-partition-1 in main was not read to its end" in problem
