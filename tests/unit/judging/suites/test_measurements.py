"""Placement and recovery: values against bounds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.metrics import METRICS
from pyspark.sql import SparkSession

from .conftest import Judge, Planted, about, judged_by, measurement, plant

MEASURED = [name for name, metric in METRICS.items() if metric.suite in (Suite.PLACEMENT, Suite.RECOVERY)]
FAULT: dict[str, Any] = {"faults": [{"name": "kill_eu", "kind": "kill", "targets": {"region": "eu"}}]}


def _subject(metric: str) -> str:
    return "kill_eu" if METRICS[metric].is_per_fault else "end"


def _bounded(planted: Planted, metric: str, value: float | None, **bound: float) -> None:
    """A scenario that bounds the metric, and the row as it arrives."""
    planted.scenario = {**FAULT, "bounds": {metric: bound}}
    planted.measure("rto_s", "kill_eu", 5.0)
    planted.measurements = [row for row in planted.measurements if row["metric"] != metric]
    planted.measure(metric, _subject(metric), value, minimum=bound.get("min"), maximum=bound.get("max"))


def _all_bounded(directory: Path, value: float) -> Planted:
    planted = plant(directory)
    planted.scenario = {**FAULT, "bounds": {metric: {"min": 30, "max": 30} for metric in MEASURED}}
    planted.measurements = [measurement(name, _subject(name), value, minimum=30.0, maximum=30.0) for name in MEASURED]
    return planted


@pytest.fixture(scope="module")
def all_outside(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every metric bounded to 30, and measured at 31.5."""
    return judged_by(spark, _all_bounded(tmp_path_factory.mktemp("outside"), 31.5))


@pytest.fixture(scope="module")
def all_within(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every metric bounded to 30, and measured at 30."""
    return judged_by(spark, _all_bounded(tmp_path_factory.mktemp("within"), 30.0))


@pytest.mark.parametrize("metric", MEASURED)
def test_a_value_outside_its_bounds_is_found_for_every_metric(all_outside: dict[str, Any], metric: str) -> None:
    entry = about(all_outside[METRICS[metric].suite], metric)
    assert (entry["verdict"], entry["unexpected"], entry["rows"]) == ("failed", 1, 1)
    assert [(sample["subject"], sample["value"]) for sample in entry["samples"]] == [(_subject(metric), 31.5)]


@pytest.mark.parametrize("metric", MEASURED)
def test_a_value_at_its_bounds_is_within_for_every_metric(all_within: dict[str, Any], metric: str) -> None:
    entry = about(all_within[METRICS[metric].suite], metric)
    assert (entry["verdict"], entry["unexpected"], entry["rows"]) == ("passed", 0, 1)


def test_the_verdict_is_that_of_the_values(all_outside: dict[str, Any], all_within: dict[str, Any]) -> None:
    assert [all_outside[suite]["verdict"] for suite in ("placement", "recovery")] == ["failed", "failed"]
    assert [all_within[suite]["verdict"] for suite in ("placement", "recovery")] == ["passed", "passed"]


def test_a_value_over_its_bound_fails_the_suite_and_is_reported(planted: Planted, judge: Judge) -> None:
    _bounded(planted, "detect_s", 31.5, max=30)
    judged = judge(planted)
    assert (judged["recovery"]["verdict"], judged["placement"]["verdict"]) == ("failed", "passed")
    assert judged["recovery"]["why"] == (
        "`detect_s` of kill_eu is 31.5 s, and has to be at most 30 (1 of 1 values are not)."
    )


def test_a_value_under_its_bound_fails(planted: Planted, judge: Judge) -> None:
    _bounded(planted, "local_read_share", 0.5, min=0.9)
    judgement = judge(planted, only="placement")["placement"]
    assert judgement["verdict"] == "failed"
    assert "is 0.5 share, and has to be at least 0.9" in judgement["why"]


@pytest.mark.parametrize("value", [None, math.nan])
@pytest.mark.parametrize("bound", [{"min": 0.0}, {"max": 30.0}])
def test_a_bounded_value_that_could_not_be_measured_is_unknown(
    planted: Planted, judge: Judge, value: float | None, bound: dict[str, float]
) -> None:
    _bounded(planted, "detect_s", value, **bound)
    judgement = judge(planted, only="recovery")["recovery"]
    entry = about(judgement, "detect_s")
    assert (judgement["verdict"], entry["unexpected"], entry["undecided"]) == ("unknown", 0, 1)
    assert "`detect_s` of kill_eu could not be measured" in judgement["why"]


def test_a_comparison_lets_nan_pass_every_bound() -> None:
    assert not math.nan < 0.9
    assert not math.nan > 0.9


def test_an_unbounded_value_that_could_not_be_measured_fails_nothing(planted: Planted, judge: Judge) -> None:
    planted.measure("publish_latency_p50_ms", "recovery", None)
    assert judge(planted, only="recovery")["recovery"]["verdict"] == "passed"


def test_infinity_is_over_every_bound(planted: Planted, judge: Judge) -> None:
    _bounded(planted, "detect_s", math.inf, max=30)
    judgement = judge(planted, only="recovery")["recovery"]
    assert judgement["verdict"] == "failed"
    assert about(judgement, "detect_s")["samples"][0]["value"] == "inf"


def test_a_bound_that_is_not_a_number_is_no_bound_to_pass(planted: Planted, judge: Judge) -> None:
    planted.measure("publish_latency_p50_ms", "steady", 5.0, maximum=math.nan)
    assert judge(planted, only="recovery")["recovery"]["verdict"] == "unknown"


@pytest.mark.parametrize("metric", ["segments_not_spanning", "under_replicated_segments"])
def test_placement_demands_none_of_these_even_without_a_bound(planted: Planted, judge: Judge, metric: str) -> None:
    planted.measure(metric, "end", 1.0)
    judgement = judge(planted, only="placement")["placement"]
    assert judgement["verdict"] == "failed"
    assert "is 1 segments, and has to be at most 0" in judgement["why"]


@pytest.mark.parametrize("metric", ["segments_not_spanning", "under_replicated_segments"])
def test_a_state_at_the_end_that_is_not_known_is_unknown_even_without_a_bound(
    planted: Planted, judge: Judge, metric: str
) -> None:
    planted.measurements = [
        {**row, "value": None} if (row["metric"], row["subject"]) == (metric, "end") else row
        for row in planted.measurements
    ]
    judgement = judge(planted, only="placement")["placement"]
    assert judgement["verdict"] == "unknown"
    assert f"`{metric}` of end could not be measured" in judgement["why"]


@pytest.mark.parametrize(("maximum", "result"), [(5.0, "UNDECIDED"), (None, "HELD")])
def test_the_suites_own_bound_on_a_value_that_is_not_known_is_undecided(maximum: float | None, result: str) -> None:
    row = {"minimum": None, "maximum": None, "value": None, "doubt": None, "at_least": 3.0, "at_most": None}
    row["cut_off_by"] = "kill_again"
    # Great Expectations takes seconds to import.
    from brokerproof_judging.suites.measurement_expectation import BoundResult, find_bound_result

    assert find_bound_result(row, minimum=None, maximum=maximum, required=False) is BoundResult[result]


@pytest.mark.parametrize(
    ("minimum", "maximum", "result"),
    [
        # A wait of at least 20 s was longer than 10 s, whenever it ended.
        (10.0, None, "HELD"),
        (20.0, None, "HELD"),
        (30.0, None, "UNDECIDED"),
        (10.0, 90.0, "UNDECIDED"),
        (None, 90.0, "UNDECIDED"),
        (None, None, "UNDECIDED"),
    ],
)
def test_a_wait_that_was_cut_off_holds_only_a_bound_from_below(
    minimum: float | None, maximum: float | None, result: str
) -> None:
    row = {"minimum": minimum, "maximum": maximum, "value": None, "doubt": None, "at_least": 20.0}
    row |= {"at_most": None, "cut_off_by": None}
    from brokerproof_judging.suites.measurement_expectation import BoundResult, find_bound_result

    assert find_bound_result(row, minimum=None, maximum=None, required=True) is BoundResult[result]
    assert (
        find_bound_result({**row, "at_least": None}, minimum=None, maximum=None, required=True) is BoundResult.UNDECIDED
    )


@pytest.mark.parametrize(
    ("at_least", "at_most", "minimum", "maximum", "result"),
    [
        # Clients themselves may have caused a part of 8 s.
        (0.0, 8.0, None, 10.0, "HELD"),
        (0.0, 8.0, None, 5.0, "UNDECIDED"),
        (6.0, 8.0, None, 5.0, "UNEXPECTED"),
        (0.0, 8.0, 5.0, None, "UNDECIDED"),
        (6.0, 8.0, 5.0, None, "HELD"),
        (0.0, 8.0, 10.0, None, "UNEXPECTED"),
        # The wait was cut off, too.
        (2.0, None, 5.0, None, "UNDECIDED"),
        (6.0, None, 5.0, None, "HELD"),
        (6.0, None, None, 5.0, "UNEXPECTED"),
        (6.0, None, None, None, "HELD"),
    ],
)
def test_a_value_between_two_limits_decides_a_suites_bound_if_all_values_between_them_do(
    at_least: float, at_most: float | None, minimum: float | None, maximum: float | None, result: str
) -> None:
    row = {"minimum": None, "maximum": None, "value": at_most, "doubt": None, "cut_off_by": None}
    row |= {"at_least": at_least, "at_most": at_most}
    from brokerproof_judging.suites.measurement_expectation import BoundResult, find_bound_result

    assert find_bound_result(row, minimum=minimum, maximum=maximum, required=False) is BoundResult[result]


@pytest.mark.parametrize(("maximum", "result"), [(5.0, "UNDECIDED"), (90.0, "UNDECIDED"), (None, "HELD")])
@pytest.mark.parametrize("doubt", ["its targets were known only from 20 s before", None])
def test_no_bound_of_a_suite_is_claimed_of_a_fault_whose_targets_were_known_only_from_before(
    doubt: str | None, maximum: float | None, result: str
) -> None:
    row = {"minimum": None, "maximum": None, "value": 20.0, "doubt": doubt, "at_least": None}
    row |= {"at_most": None, "cut_off_by": None}
    from brokerproof_judging.suites.measurement_expectation import BoundResult, find_bound_result

    without = {5.0: BoundResult.UNEXPECTED, 90.0: BoundResult.HELD, None: BoundResult.HELD}[maximum]
    found = find_bound_result(row, minimum=None, maximum=maximum, required=True)
    assert found is (BoundResult[result] if doubt else without)


def test_one_moment_at_which_a_segment_did_not_span_is_enough(planted: Planted, judge: Judge) -> None:
    planted.measure("segments_not_spanning", "impact", 2.0)
    judgement = judge(planted, only="placement")["placement"]
    assert judgement["verdict"] == "failed"
    assert about(judgement, "segments_not_spanning")["rows"] == 3


@pytest.mark.parametrize("metric", ["segments_not_spanning", "under_replicated_segments"])
def test_placement_without_these_measurements_is_unknown(planted: Planted, judge: Judge, metric: str) -> None:
    planted.measurements = [row for row in planted.measurements if row["metric"] != metric]
    judgement = judge(planted, only="placement")["placement"]
    assert judgement["verdict"] == "unknown"
    assert f"`{metric}` was not measured" in judgement["why"]


def test_what_only_the_scenarios_own_bound_allows_is_reported(planted: Planted, judge: Judge) -> None:
    planted.scenario = {"bounds": {"under_replicated_segments": {"max": 3}}}
    planted.measure("under_replicated_segments", "end", 2.0, maximum=3.0)
    judgement = judge(planted, only="placement")["placement"]
    assert judgement["verdict"] == "passed"
    assert about(judgement, "under_replicated_segments")["legal"] == 1
    assert "only the scenario's own bound allows under_replicated_segments" in judgement["why"]


def test_a_minimum_of_the_scenario_leaves_the_suites_maximum_in_force(planted: Planted, judge: Judge) -> None:
    planted.scenario = {"bounds": {"under_replicated_segments": {"min": 0}}}
    planted.measure("under_replicated_segments", "end", 2.0, minimum=0.0)
    assert judge(planted, only="placement")["placement"]["verdict"] == "failed"


@pytest.mark.parametrize("suite", ["placement", "recovery"])
def test_a_suite_of_which_nothing_was_measured_is_no_data(planted: Planted, judge: Judge, suite: str) -> None:
    planted.measurements = [row for row in planted.measurements if row["suite"] != suite]
    assert judge(planted, only=suite)[suite]["verdict"] == "no_data"


def test_recovery_without_fault_and_bound_passes_and_says_that_it_judged_nothing(
    planted: Planted, judge: Judge
) -> None:
    judgement = judge(planted, only="recovery")["recovery"]
    assert judgement["verdict"] == "passed"
    assert judgement["why"] == (
        "The scenario sets no fault and no bound, so nothing can fail; 2 measurements are recorded."
    )


def test_a_fault_whose_recovery_was_not_measured_is_unknown(planted: Planted, judge: Judge) -> None:
    planted.scenario = FAULT
    judgement = judge(planted, only="recovery")["recovery"]
    assert judgement["verdict"] == "unknown"
    assert "`rto_s` of `kill_eu` was not measured" in judgement["why"]


def test_a_fault_from_which_the_rate_never_came_back_is_unknown_without_a_bound(planted: Planted, judge: Judge) -> None:
    planted.scenario = FAULT
    planted.measure("rto_s", "kill_eu", None)
    assert judge(planted, only="recovery")["recovery"]["verdict"] == "unknown"


def test_a_value_that_the_next_fault_cut_off_is_told_and_decides_nothing(planted: Planted, judge: Judge) -> None:
    planted.scenario = FAULT
    planted.measure("rto_s", "kill_eu", None, cut_off_by="kill_again")
    judgement = judge(planted, only="recovery")["recovery"]
    assert judgement["verdict"] == "passed"
    assert judgement["why"].endswith(
        "`rto_s` of kill_eu was not measured, because kill_again took effect before, and no bound asks for it."
    )


def test_a_value_that_the_next_fault_cut_off_and_a_bound_asks_for_is_unknown(planted: Planted, judge: Judge) -> None:
    _bounded(planted, "rto_s", None, max=30)
    planted.measurements[-1]["cut_off_by"] = "kill_again"
    assert judge(planted, only="recovery")["recovery"]["verdict"] == "unknown"


def test_a_bound_that_did_not_arrive_with_the_row_is_a_doubt(planted: Planted, judge: Judge) -> None:
    _bounded(planted, "detect_s", 99.0, max=30)
    planted.measure("detect_s", "kill_eu", 99.0)
    judgement = judge(planted, only="recovery")["recovery"]
    assert judgement["verdict"] == "unknown"
    assert "bound on `detect_s` of `kill_eu`, no limit to 30, arrived as no limit to no limit" in judgement["why"]


@pytest.mark.parametrize("bounded", ["detect_s", "detect_s/kill_eu"])
def test_a_bounded_metric_that_has_no_row_is_a_doubt(planted: Planted, judge: Judge, bounded: str) -> None:
    planted.scenario = {**FAULT, "bounds": {bounded: {"max": 30}}}
    planted.measure("rto_s", "kill_eu", 5.0)
    judgement = judge(planted, only="recovery")["recovery"]
    assert judgement["verdict"] == "unknown"
    assert "`detect_s` of `kill_eu` was not measured" in judgement["why"]


def test_a_bound_on_one_subject_is_not_asked_of_another(planted: Planted, judge: Judge) -> None:
    planted.scenario = {"bounds": {"publish_latency_p99_ms/steady": {"max": 30}}}
    planted.measure("publish_latency_p99_ms", "steady", 12.0, maximum=30.0)
    planted.measure("publish_latency_p99_ms", "impact", 900.0)
    assert judge(planted, only="recovery")["recovery"]["verdict"] == "passed"


def test_an_unknown_metric_is_a_doubt(planted: Planted, judge: Judge) -> None:
    planted.measurements.append({**measurement("rto_s", "kill_eu", 1.0), "metric": "rto"})
    judged = judge(planted)
    assert judged["recovery"]["verdict"] == "unknown"
    assert judged["placement"]["verdict"] == "passed"


def test_a_metric_filed_under_a_suite_that_does_not_judge_it_is_a_doubt(planted: Planted, judge: Judge) -> None:
    planted.measurements.append({**measurement("segments_not_spanning", "late", 5.0), "suite": "recovery"})
    assert judge(planted, only="placement")["placement"]["verdict"] == "unknown"


def test_measurements_of_another_run_are_a_doubt(planted: Planted, judge: Judge) -> None:
    planted.measurements[0]["run_id"] = "yesterday"
    assert judge(planted, only="placement")["placement"]["verdict"] == "unknown"


def test_an_owner_that_the_scenario_names_and_nobody_looked_for_is_a_doubt(planted: Planted, judge: Judge) -> None:
    planted.scenario = {"owner": {"steady": "eu"}}
    judgement = judge(planted, only="placement")["placement"]
    assert judgement["verdict"] == "unknown"
    assert "`owner_in_region` of `steady` was not measured" in judgement["why"]


def test_an_owner_in_another_region_fails_placement(planted: Planted, judge: Judge) -> None:
    planted.scenario = {"owner": {"steady": "eu"}}
    planted.measure("owner_in_region", "steady", 0.4, minimum=1.0)
    judgement = judge(planted, only="placement")["placement"]
    assert judgement["verdict"] == "failed"
    assert "`owner_in_region` of steady is 0.4 share, and has to be at least 1" in judgement["why"]


def test_an_owner_whose_region_is_not_demanded_is_a_doubt(planted: Planted, judge: Judge) -> None:
    planted.scenario = {"owner": {"steady": "eu"}}
    planted.measure("owner_in_region", "steady", 0.4)
    assert judge(planted, only="placement")["placement"]["verdict"] == "unknown"


def test_data_docs_show_the_value_and_the_bound_that_is_in_force(planted: Planted, judge: Judge) -> None:
    from brokerproof_judging.suites.data_docs import locate_data_docs

    _bounded(planted, "detect_s", 51.25, max=90.0)
    planted.measure("first_ack_s", "kill_eu", None, minimum=None, maximum=60.0)
    run = planted.write()
    judge(run, only="recovery", data_docs=True)
    pages = [
        page.read_text(encoding="utf-8") for page in Path(locate_data_docs(run)).parent.rglob("validations/**/*.html")
    ]
    (page,) = [text for text in pages if "51.2 s of kill_eu (at most 90 s)" in text]
    assert "not measured of kill_eu (at most 60 s)" in page
    assert "against it" not in page
