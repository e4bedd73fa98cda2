"""A topic that stores no messages: what its subscriptions missed is counted, and no rule about logs accuses it.

Of six messages, 0 is sent before the phases. `audit` missed 0 and 3, `idle` missed 0, 3 and 4, and 5 has no ack.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.run.records import LogsRead, PhaseTimes
from brokerproof_judging.applicability import list_applicable_anomalies
from brokerproof_judging.measurements.measured_values import NO_SUBJECT
from pyspark.sql import SparkSession

from ..history import NAMESPACE, SECOND, START, History
from ..judged import Judged

MISSED = {"audit": {0, 3, 5}, "idle": {0, 3, 4, 5}}
TOPIC = f"non-persistent://{NAMESPACE}/orders"
PHASES = {"steady_at": 1, "impact_at": 2, "recovery_at": 8, "ends_at": 9}
NOWHERE = dict.fromkeys(("segment", "offset", "batch_index"))


def plant(bound: dict[str, int], *, phases: bool = True) -> History:
    history = History(
        guarantee="at_most_once",
        workload={"stored": False},
        subscriptions=[{"name": name} for name in MISSED],
        bounds={"missed_messages": bound},
    )
    history.topic = TOPIC
    for seq in range(6):
        outcome = "unknown" if seq == 5 else "acked"
        history.publish(producer="p0", seq=seq, at=seq * SECOND, outcome=outcome, **NOWHERE)
        for name, missed in MISSED.items():
            if seq not in missed:
                history.deliver(producer="p0", seq=seq, at=seq * SECOND + 500, subscription=name, acked=None, **NOWHERE)
    if phases:
        history.leave(PhaseTimes(**{name: START + at * SECOND for name, at in PHASES.items()}))
    return history


def test_what_each_subscription_missed_in_the_phases_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    judged = Judged(spark, tmp_path / "run", plant({"max": 2}))
    assert [judged.measured("missed_messages", name)["value"] for name in MISSED] == [1, 2]
    assert judged.measured("missed_messages", "audit")["evidence"] == "of 4 acked"
    assert judged.anomalies(TOPIC) == set()
    assert (judged.judgement["verdict"], judged.judgement["problems"]) == ("passed", [])


@pytest.mark.parametrize(
    ("subject", "bound", "result"),
    [
        ("audit", {"max": 1}, "held"),
        ("idle", {"max": 1}, "unexpected"),
        ("idle", {"min": 2}, "held"),
        ("audit", {"min": 2}, "undecided"),
    ],
)
def test_a_bound_on_what_is_missed_can_fail(
    spark: SparkSession, tmp_path: Path, subject: str, bound: dict[str, int], result: str
) -> None:
    from brokerproof_judging.suites.measurement_expectation import find_bound_result

    row = Judged(spark, tmp_path / "run", plant(bound)).measured("missed_messages", subject)
    assert str(find_bound_result(row, minimum=None, maximum=None, required=False)) == result


def test_what_it_missed_is_not_known_without_proof(spark: SparkSession, tmp_path: Path) -> None:
    history = plant({"max": 2})
    history.not_drained("idle")
    judged = Judged(spark, tmp_path / "run", history)
    assert [judged.measured("missed_messages", name)["value"] for name in MISSED] == [1, None]
    assert judged.judgement["verdict"] == "unknown"
    judged = Judged(spark, tmp_path / "without phases", plant({"max": 2}, phases=False))
    assert judged.measured("missed_messages", NO_SUBJECT)["value"] is None


def test_what_was_never_published_is_a_phantom_there_too(spark: SparkSession, tmp_path: Path) -> None:
    history = plant({"max": 2})
    history.deliver(producer="p9", seq=0, at=7 * SECOND, subscription="audit", acked=None, **NOWHERE)
    (found,) = Judged(spark, tmp_path / "run", history).anomalies(TOPIC)
    assert found[:2] == ("phantom", False)


def test_no_rule_about_logs_applies(tmp_path: Path) -> None:
    run = plant({"max": 2}).write(tmp_path / "run")
    names = {str(each) for each in list_applicable_anomalies(run)}
    assert names >= {"phantom", "corrupted", "failed_but_delivered", "two_active_consumers"}
    assert names.isdisjoint({"lost", "undelivered", "stored_twice", "stored_out_of_order", "delivered_out_of_order"})


def test_that_nothing_was_read_back_is_still_a_problem(spark: SparkSession, tmp_path: Path) -> None:
    history = plant({"max": 2})
    history.records[LogsRead] = None
    judged = Judged(spark, tmp_path / "run", history)
    assert judged.judgement["verdict"] == "unknown"
