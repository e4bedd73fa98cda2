"""The ways in which Great Expectations says yes wrongly: each is shown first, and then that we say no."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.suites.suite_file import SuiteFile
from brokerproof_judging.suites.library import Frame, GreatExpectations, Validation
from pyspark.sql import DataFrame, SparkSession

from .conftest import EXPECTATIONS, Judge, Planted, about, rewrite


@pytest.fixture
def library(spark: SparkSession) -> Callable[[DataFrame, list[dict[str, Any]]], Any]:
    """Great Expectations on its own: runs expectations as they are written on a frame."""
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")

    def run(frame: DataFrame, expectations: list[dict[str, Any]]) -> Any:
        suite = context.suites.add(gx.ExpectationSuite(name="alone", expectations=expectations))
        source = context.data_sources.add_spark("alone", persist=False)
        batches = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
        definition = context.validation_definitions.add(
            gx.ValidationDefinition(name="alone", data=batches, suite=suite)
        )
        return definition.run(batch_parameters={"dataframe": frame}, result_format="COMPLETE")

    return run


class Changed(GreatExpectations):
    """Great Expectations, with what it says of one result changed before it is believed."""

    def change(self, result: Any) -> None:
        """Change a result in place."""

    def validate(self, file: SuiteFile, frame: Frame) -> Validation:
        validation = super().validate(file, frame)
        for result in validation.results:
            self.change(result)
        return replace(validation, success=all(result.success for result in validation.results))


def _no_rows(query: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": query, **kwargs}}


def test_the_library_drops_an_expectation_of_an_unregistered_kind_and_succeeds(
    spark: SparkSession, library: Any
) -> None:
    outcome = library(
        spark.range(3), [_no_rows("SELECT * FROM {batch} WHERE id < 0"), {"type": "expect_x", "kwargs": {}}]
    )
    assert (outcome.success, len(outcome.results)) == (True, 1)


def test_an_expectation_of_an_unregistered_kind_makes_the_suite_unknown(
    planted: Planted, judge: Judge, written_suites: Path
) -> None:
    rewrite(written_suites, "ordering", lambda content: content["expectations"][0].update(type="expect_x"))
    judged = judge(planted, written_suites, only=["ordering", "completeness"])
    assert judged["ordering"]["verdict"] == "unknown"
    assert (
        "ordering.json: expectations.0.type: no kind of expectation is called `expect_x`" in judged["ordering"]["why"]
    )
    assert judged["completeness"]["verdict"] == "passed"


def test_a_kind_that_we_know_and_the_library_does_not_makes_the_suite_unknown(planted: Planted, judge: Judge) -> None:
    class WithoutAKind(GreatExpectations):
        def validate(self, file: SuiteFile, frame: Frame) -> Validation:
            first, *others = file.expectations
            unknown = replace(first, content={**first.content, "type": "expect_x"})
            return super().validate(replace(file, expectations=(unknown, *others)), frame)

    judgement = judge(planted, only="ordering", library=WithoutAKind)["ordering"]
    assert (judgement["verdict"], judgement["evaluated"], judgement["written"]) == ("unknown", 0, 5)
    assert "holds 4 expectations, and Great Expectations took 3" in judgement["why"]


def test_the_library_succeeds_on_an_empty_batch(spark: SparkSession, library: Any) -> None:
    assert library(spark.range(0), [_no_rows("SELECT * FROM {batch}")]).success


def test_the_library_succeeds_without_expectations(spark: SparkSession, library: Any) -> None:
    assert library(spark.range(3), []).success


def test_a_suite_without_expectations_is_unknown(planted: Planted, judge: Judge, written_suites: Path) -> None:
    rewrite(written_suites, "recovery", lambda content: content.update(expectations=[]))
    judged = judge(planted, written_suites, only="recovery")
    assert judged["recovery"]["verdict"] == "unknown"
    assert "recovery.json: expectations: holds no expectation" in judged["recovery"]["why"]


def test_the_library_calls_a_broken_query_a_violation(spark: SparkSession, library: Any) -> None:
    outcome = library(spark.range(3), [_no_rows("SELECT * FROM {batch} WHERE nothing = 1")])
    assert not outcome.success
    assert "raised_exception': True" in str(outcome.results[0].exception_info)


def test_a_broken_condition_makes_the_suite_unknown_and_not_failed(planted: Planted, judge: Judge) -> None:
    class WithoutAColumn(GreatExpectations):
        def validate(self, file: SuiteFile, frame: Frame) -> Validation:
            return super().validate(file, frame.drop(columns="illegal") if file.suite is Suite.ORDERING else frame)

    judged = judge(planted, only=["ordering", "completeness"], library=WithoutAColumn)
    assert judged["ordering"]["verdict"] == "unknown"
    assert "could not be evaluated" in judged["ordering"]["why"]
    assert judged["completeness"]["verdict"] == "passed"


def test_the_library_overlooks_what_a_row_condition_hides(spark: SparkSession, library: Any) -> None:
    condition = {"row_condition": "id < 2", "condition_parser": "spark"}
    kwargs = {"column": "id", "max_value": 1, **condition}
    # The highest of 0, 1 and 2 is 2.
    assert library(spark.range(3), [{"type": "expect_column_max_to_be_between", "kwargs": kwargs}]).success


def test_a_row_condition_makes_the_suite_unknown(planted: Planted, judge: Judge, written_suites: Path) -> None:
    planted.mark(Anomaly.LOST)
    rewrite(
        written_suites,
        "completeness",
        lambda content: content["expectations"][0]["kwargs"].update(row_condition='col("seq") > 5'),
    )
    judgement = judge(planted, written_suites, only="completeness")["completeness"]
    assert judgement["verdict"] == "unknown"
    assert "unknown field `row_condition`" in judgement["why"]


def test_the_library_shows_no_more_than_200_rows_of_those_it_counts(spark: SparkSession, library: Any) -> None:
    outcome = library(spark.range(300), [_no_rows("SELECT * FROM {batch}")])
    result = outcome.results[0].result
    assert (result["observed_value"], len(result["details"]["unexpected_rows"])) == (300, 200)


def test_a_success_that_the_counts_contradict_is_unknown(planted: Planted, judge: Judge) -> None:
    class Content(Changed):
        def change(self, result: Any) -> None:
            result.success = True

    planted.mark(Anomaly.LOST)
    judgement = judge(planted, only="completeness", library=Content)["completeness"]
    assert judgement["verdict"] == "unknown"
    assert about(judgement, Anomaly.LOST)["verdict"] == "unknown"


def test_a_result_without_counts_is_unknown(planted: Planted, judge: Judge) -> None:
    class WithoutCounts(Changed):
        def change(self, result: Any) -> None:
            if "anomaly" in result.expectation_config.kwargs:
                result.result = {}

    judged = judge(planted, only=["completeness", "placement"], library=WithoutCounts)
    assert (judged["completeness"]["verdict"], judged["completeness"]["evaluated"]) == ("unknown", 0)
    assert judged["placement"]["verdict"] == "passed"


def test_counts_that_overlook_a_violation_are_unknown(planted: Planted, judge: Judge) -> None:
    class Blind(Changed):
        def change(self, result: Any) -> None:
            result.success, result.result["unexpected_count"] = True, 0

    planted.measure("under_replicated_segments", "end", 4.0)
    judgement = judge(planted, only="placement", library=Blind)["placement"]
    assert judgement["verdict"] == "unknown"
    assert "was found out of bounds 0 times in 1 rows, and is 1 times in 1" in judgement["why"]


def test_a_library_that_does_not_start_makes_every_suite_unknown(planted: Planted, judge: Judge) -> None:
    def refuse(site: str, run_name: str) -> GreatExpectations:
        raise RuntimeError("out of order")

    judged = judge(planted, library=refuse)
    assert {judgement["verdict"] for judgement in judged.values()} == {"unknown"}
    assert judged["placement"]["why"] == "The suite could not be judged: out of order"


def test_nothing_is_sent_to_other_hosts_and_the_session_stays(
    planted: Planted, judge: Judge, spark: SparkSession
) -> None:
    asked: list[Any] = []
    listening = True

    def hear(event: str, details: tuple[Any, ...]) -> None:
        if listening and event == "socket.connect":
            asked.append(details[1][0])
        elif listening and event == "socket.getaddrinfo":
            asked.append(details[0])

    # Python has no way to take a hook away.
    sys.addaudithook(hear)
    try:
        assert judge(planted, only="ordering", data_docs=True)["ordering"]["verdict"] == "passed"
        # Spark sends rows through a socket, so this shows that the hook hears.
        assert len(spark.range(3).collect()) == 3
    finally:
        listening = False
    assert asked, "the hook did not hear Spark's socket; the test shows nothing"
    assert {str(host) for host in asked} <= {"127.0.0.1", "localhost", "::1"}


def test_the_files_are_suites_that_the_library_reads_by_itself() -> None:
    import great_expectations as gx
    from brokerproof_judging.suites import measurement_expectation, message_expectation  # noqa: F401

    for path in sorted(EXPECTATIONS.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        assert len(gx.ExpectationSuite(**content).expectations) == len(content["expectations"])
