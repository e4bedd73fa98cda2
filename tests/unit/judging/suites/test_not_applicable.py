"""What a messaging system cannot do is shown apart, with the reason; it is never passed, failed or unknown.

The runs are of the log server of tests/systems, which makes no copy anew, says nothing of where copies are, counts no
reads, replicates nothing and moves no subscription.
"""

from __future__ import annotations

from typing import Any

import pytest
from brokerproof.experiment.guarantees import Anomaly
from brokerproof_judging.measurements.measured_values import make_measured_value, make_measurements

from .conftest import Judge, Planted, about, move_to_log_server

WITHOUT_REPLICATION = "testlog cannot send what is published in one cluster to another one"
APPLICABLE = ("publish_latency_p99_ms", "sampling_gap_s")


@pytest.fixture
def planted(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """A sound run of the log server."""
    planted.measurements = [row for row in planted.measurements if row["metric"] in APPLICABLE]
    return move_to_log_server(planted, monkeypatch)


def inapplicable(judgement: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["why"] for each in judgement["expectations"] if each["verdict"] == "not_applicable"}


def test_an_anomaly_that_needs_what_the_system_lacks_is_not_counted_as_held(planted: Planted, judge: Judge) -> None:
    judgement = judge(planted, only="completeness")["completeness"]
    assert inapplicable(judgement) == {"not_replicated": WITHOUT_REPLICATION}
    assert (judgement["verdict"], judgement["evaluated"], judgement["written"]) == ("passed", 10, 10)
    assert judgement["why"] == (
        "All 10 expectations hold for 40 messages and places. "
        f"Not applicable: `not_replicated` ({WITHOUT_REPLICATION})."
    )


def test_it_stands_where_its_file_has_it(planted: Planted, judge: Judge) -> None:
    judgement = judge(planted, only="completeness")["completeness"]
    names = [each["name"] for each in judgement["expectations"]]
    assert names == [
        *("lost", "not_replicated", "undelivered", "unproven", "unreadable", "phantom"),
        *("failed_but_stored", "failed_but_delivered", "delivered_from_elsewhere", "corrupted", "output_missing"),
    ]
    entry = about(judgement, "not_replicated")
    assert (entry["rows"], entry["unexpected"], entry["undecided"], entry["legal"]) == (0, 0, 0, 0)


def test_the_rest_of_the_suite_still_fails(planted: Planted, judge: Judge) -> None:
    planted.mark(Anomaly.LOST)
    judgement = judge(planted, only="completeness")["completeness"]
    assert judgement["verdict"] == "failed"
    assert judgement["why"].startswith("1 of 40 rows are `lost`")
    assert inapplicable(judgement).keys() == {"not_replicated"}


def test_metrics_of_replication_repair_moves_and_growth_are_not_judged(planted: Planted, judge: Judge) -> None:
    judgement = judge(planted, only="recovery")["recovery"]
    lags = {f"replication_lag_{part}_ms" for part in ("p50", "p99", "max")}
    assert inapplicable(judgement).keys() == {
        "rereplicate_s",
        "agree_s",
        "repeated_by_move",
        "missed_by_move",
        "moved_keys",
        *lags,
    }
    assert (judgement["verdict"], judgement["evaluated"], judgement["written"]) == ("passed", 30, 30)


def test_a_suite_of_which_nothing_applies_or_is_asked_for_does_not_apply(planted: Planted, judge: Judge) -> None:
    judgement = judge(planted, only="placement")["placement"]
    assert (judgement["verdict"], judgement["evaluated"], judgement["written"]) == ("not_applicable", 0, 0)
    assert inapplicable(judgement)["owner_in_region"] == "the scenario does not ask for it"
    assert inapplicable(judgement)["segments_not_spanning"].startswith("testlog cannot say which nodes hold")
    assert judgement["why"].startswith("Not applicable: `segments_not_spanning`")


def test_what_the_scenario_asks_for_is_judged(planted: Planted, judge: Judge) -> None:
    planted.scenario = {"owner": {"steady": "here"}}
    assert judge(planted, only="placement")["placement"]["verdict"] == "no_data"


def test_what_the_scenario_asks_for_and_was_measured_is_judged(planted: Planted, judge: Judge) -> None:
    planted.scenario = {"owner": {"steady": "here"}}
    planted.measure("owner_in_region", "steady", 0.5, minimum=1.0)
    judgement = judge(planted, only="placement")["placement"]
    assert (judgement["verdict"], judgement["evaluated"], judgement["written"]) == ("failed", 3, 3)


def test_a_metric_that_does_not_apply_has_no_row(planted: Planted) -> None:
    planted.scenario = {"bounds": {"rereplicate_s": {"max": 60}, "rto_s": {"max": 60}}}
    values = [make_measured_value(metric, "kill", 1.0, "planted") for metric in ("agree_s", "detect_s")]
    assert {row.metric for row in make_measurements(planted.write(), values)} == {"detect_s", "rto_s"}
