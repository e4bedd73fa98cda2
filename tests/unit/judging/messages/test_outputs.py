"""What consumers made of messages: an output that is missing or that is there twice, and what each commit promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from brokerproof.run.records import FaultsUndone
from brokerproof_judging.applicability import explain_inapplicable
from pyspark.sql import SparkSession

from ..history import SEGMENT, START, TOPIC, History
from ..judged import Found, Judged
from ..reference import find_by_reference

SUBSCRIPTIONS = [
    {"name": "before", "commit": "before"},
    {"name": "after", "commit": "after"},
    {"name": "by_key", "commit": "by_key"},
    {"name": "plain"},
    {"name": "stream_before", "streaming": "before"},
    {"name": "stream_after", "streaming": "after"},
    {"name": "stream_by_batch", "streaming": "by_batch"},
    {"name": "stream_foreach", "streaming": "foreach"},
]
MAY_LOSE = ("before", "stream_before")
MAY_REPEAT = ("after", "stream_after", "stream_foreach")
WRITING = (*MAY_LOSE, *MAY_REPEAT, "by_key", "stream_by_batch")
# What a change of a clean history has to be found as.
Change = Callable[[History], dict[Found, tuple[str, str]]]


def make_history() -> History:
    faults = [{"name": "gone", "kind": "kill", "targets": {"nodes": ["bookie-eu-1-main"]}}]
    return History(guarantee="at_least_once", subscriptions=SUBSCRIPTIONS, faults=faults).clean()


def find(anomaly: str, subscription: str, *, legal: bool, producer: str = "p0", seq: int = 3) -> Found:
    return (anomaly, legal, "main", subscription, producer, seq)


def no_change(history: History) -> dict[Found, tuple[str, str]]:
    return {}


def missing_everywhere(history: History) -> dict[Found, tuple[str, str]]:
    history.forget("outputs", "p0", 3)
    why = ("no_output", "delivered 1 time(s), first to consumer-0, and no consumer wrote an output of it")
    return {find("output_missing", name, legal=name in MAY_LOSE): why for name in WRITING}


def repeated_everywhere(history: History) -> dict[Found, tuple[str, str]]:
    for row in history.rows("outputs", "p0", 3):
        history.outputs.append({**row, "consumer": "consumer-1", "written_at": row["written_at"] + 2_000_000})
    why = ("written_again", "written 2 times, 2000 ms from the first to the last, by consumer-0, consumer-1")
    return {find("output_repeated", name, legal=name in MAY_REPEAT): why for name in WRITING}


def written_from_two_positions(history: History) -> dict[Found, tuple[str, str]]:
    """The producer stored a message twice, and each consumer wrote one output of each copy."""
    copy = {"producer": "p0", "seq": 3, "offset": history.next_entry()}
    history.store(**copy)
    for each in SUBSCRIPTIONS:
        history.deliver(**copy, subscription=each["name"], at=9_000)
        if each["name"] in WRITING:
            history.write_output(**copy, subscription=each["name"], at=9_020)
    why = ("attempted_once", "delivered from 2 positions, after 1 attempt(s)")
    stored = ("attempted_once", f"stored at 2 positions, first at {SEGMENT}:6:-1, from 1 attempt(s)")
    return {
        ("stored_twice", True, "main", None, "p0", 3): stored,
        **{find("delivered_from_two_positions", each["name"], legal=True): why for each in SUBSCRIPTIONS},
    }


def not_drained(history: History) -> dict[Found, tuple[str, str]]:
    history.forget("outputs", "p0", 3, subscription="after")
    history.not_drained("after")
    why = "delivered to after without an output, but it did not drain: a backlog of 3"
    return {find("unproven", "after", legal=True): ("subscription_not_drained", why)}


def fault_not_undone(history: History) -> dict[Found, tuple[str, str]]:
    history.forget("outputs", "p0", 3, subscription="by_key")
    history.leave(FaultsUndone(undone=False, problems=("x",), at=START))
    why = "delivered to by_key without an output, but nothing proves that every fault was undone"
    return {find("unproven", "by_key", legal=True): ("fault_not_undone", why)}


def never_delivered(history: History) -> dict[Found, tuple[str, str]]:
    for table in ("outputs", "deliveries"):
        history.forget(table, "p0", 3, subscription="after")
    why = "stored at 5:6:-1 and never delivered to after, which drained"
    return {find("undelivered", "after", legal=False): ("never_delivered", why)}


@pytest.mark.parametrize(
    "change",
    [
        no_change,
        missing_everywhere,
        repeated_everywhere,
        written_from_two_positions,
        not_drained,
        fault_not_undone,
        never_delivered,
    ],
)
def test_an_output_is_judged_by_what_the_commit_promises(spark: SparkSession, tmp_path: Path, change: Change) -> None:
    history = make_history()
    expected = change(history)
    found = Judged(spark, tmp_path / "run", history).findings(TOPIC)
    assert found == expected
    # The reference judge shares no code with judging.
    assert find_by_reference(history) == set(expected)


@pytest.mark.parametrize(
    ("key", "bound", "result"),
    [
        ("missing_outputs/before", {"min": 1}, "held"),
        ("repeated_outputs/after", {"min": 1}, "held"),
        ("missing_outputs/by_key", {"max": 0}, "held"),
        ("missing_outputs/before", {"min": 2}, "undecided"),
        ("repeated_outputs/after", {"min": 2}, "undecided"),
        ("missing_outputs/before", {"max": 0}, "unexpected"),
        ("repeated_outputs/after", {"max": 0}, "unexpected"),
    ],
)
def test_a_run_that_shows_too_little_is_undecided_and_one_that_shows_too_much_is_not(
    spark: SparkSession, tmp_path: Path, key: str, bound: dict[str, int], result: str
) -> None:
    from brokerproof_judging.suites.measurement_expectation import find_bound_result

    history = History(guarantee="at_least_once", subscriptions=SUBSCRIPTIONS, bounds={key: bound}).clean()
    history.forget("outputs", "p0", 3, subscription="before")
    (row,) = history.rows("outputs", "p0", 3, subscription="after")
    history.outputs.append({**row, "written_at": row["written_at"] + 1})
    row = Judged(spark, tmp_path / "run", history).measured(*key.split("/"))
    assert row["value"] == (0 if key.endswith("by_key") else 1)
    assert str(find_bound_result(row, minimum=None, maximum=None, required=False)) == result


def test_a_number_of_missing_outputs_without_proof_is_a_lower_limit(spark: SparkSession, tmp_path: Path) -> None:
    history = make_history()
    history.forget("outputs", "p0", 3, subscription="before")
    history.not_drained("before")
    row = Judged(spark, tmp_path / "run", history).measured("missing_outputs", "before")
    assert (row["value"], row["at_least"], row["at_most"]) == (None, 0.0, None)


def test_the_outputs_of_another_subscription_are_no_outputs_of_this_one(spark: SparkSession, tmp_path: Path) -> None:
    history = make_history()
    (row,) = history.rows("outputs", "p0", 3, subscription="by_key")
    history.forget("outputs", "p0", 3, subscription="after")
    history.outputs.append({**row, "subscription": "plain"})
    assert Judged(spark, tmp_path / "run", history).anomalies(TOPIC) == {find("output_missing", "after", legal=False)}


@pytest.mark.parametrize(
    ("subscriptions", "why"), [(SUBSCRIPTIONS, ""), ([{"name": "plain"}], "no consumer writes outputs")]
)
def test_anomalies_of_outputs_apply_where_consumers_write_some(
    tmp_path: Path, subscriptions: list[dict[str, Any]], why: str
) -> None:
    run = History(subscriptions=subscriptions).clean().write(tmp_path / "run")
    for name in ("output_missing", "output_repeated"):
        assert explain_inapplicable(run, name) == why
    assert explain_inapplicable(run, "lost") == ""
