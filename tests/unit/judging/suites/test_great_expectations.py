"""The ways in which Great Expectations says yes wrongly: each is shown first, and then that we say no."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from brokerproof.experiment.guarantees import Anomaly
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
    judged = judge(planted, written_suites)
    assert judged["ordering"]["verdict"] == "unknown"
    assert (
        "ordering.json: expectations.0.type: no kind of expectation is called `expect_x`" in judged["ordering"]["why"]
    )
    assert judged["completeness"]["verdict"] == "passed"


def test_a_kind_that_we_know_and_the_library_does_not_makes_the_suite_unknown(
    planted: Planted, judge: Judge, written_suites: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from brokerproof_judging.suites import suite_file

    monkeypatch.setattr(suite_file, "KINDS", {**suite_file.KINDS, "expect_x": ("anomaly", frozenset({"anomaly"}))})
    rewrite(written_suites, "ordering", lambda content: content["expectations"][0].update(type="expect_x"))
    judgement = judge(planted, written_suites, only="ordering")["ordering"]
    assert (judgement["verdict"], judgement["evaluated"], judgement["written"]) == ("unknown", 0, 3)
    assert "holds 3 expectations, and Great Expectations took 2" in judgement["why"]


def test_the_library_succeeds_on_an_empty_batch(spark: SparkSession, library: Any) -> None:
    assert library(spark.range(0), [_no_rows("SELECT * FROM {batch}")]).success


def test_the_library_succeeds_without_expectations(spark: SparkSession, library: Any) -> None:
    assert library(spark.range(3), []).success


def test_a_suite_without_expectations_is_unknown(planted: Planted, judge: Judge, written_suites: Path) -> None:
    rewrite(written_suites, "recovery", lambda content: content.update(expectations=[]))
    judged = judge(planted, written_suites)
    assert judged["recovery"]["verdict"] == "unknown"
    assert "recovery.json: expectations: holds no expectation" in judged["recovery"]["why"]


def test_the_library_calls_a_broken_query_a_violation(spark: SparkSession, library: Any) -> None:
    outcome = library(spark.range(3), [_no_rows("SELECT * FROM {batch} WHERE nothing = 1")])
    assert not outcome.success
    assert "raised_exception': True" in str(outcome.results[0].exception_info)


def test_a_broken_condition_makes_the_suite_unknown_and_not_failed(
    planted: Planted, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    from brokerproof_judging.suites import expectations

    sound = expectations.ExpectNoIllegalAnomaly.rule

    def broken(self: Any) -> Any:
        rule = sound(self)
        return expectations.Rule(
            **{**vars(rule), "unexpected": "nothing = 1"} if self.anomaly == Anomaly.POSITION_REGRESSED else vars(rule)
        )

    monkeypatch.setattr(expectations.ExpectNoIllegalAnomaly, "rule", broken)
    judged = judge(planted)
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


def test_a_success_that_the_counts_contradict_is_unknown(
    planted: Planted, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    from brokerproof_judging.suites import expectations

    honest = expectations.ExpectNoIllegalAnomaly._validate
    monkeypatch.setattr(
        expectations.ExpectNoIllegalAnomaly,
        "_validate",
        lambda *args, **kwargs: {**honest(*args, **kwargs), "success": True},
    )
    planted.mark(Anomaly.LOST)
    judgement = judge(planted, only="completeness")["completeness"]
    assert judgement["verdict"] == "unknown"
    assert about(judgement, Anomaly.LOST)["verdict"] == "unknown"


def test_a_result_without_counts_is_unknown(planted: Planted, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    from brokerproof_judging.suites import expectations

    monkeypatch.setattr(
        expectations.ExpectNoIllegalAnomaly, "_validate", lambda *args, **kwargs: {"success": True, "result": {}}
    )
    judged = judge(planted)
    assert (judged["completeness"]["verdict"], judged["completeness"]["evaluated"]) == ("unknown", 0)
    assert judged["placement"]["verdict"] == "passed"


def test_counts_that_overlook_a_violation_are_unknown(
    planted: Planted, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    from brokerproof_judging.suites import expectations

    monkeypatch.setattr(expectations, "_outside", lambda lower, upper: "false")
    planted.measure("under_replicated_ledgers", "end", 4.0)
    judgement = judge(planted, only="placement")["placement"]
    assert judgement["verdict"] == "unknown"
    assert "was found out of bounds 0 times in 1 rows, and is 1 times in 1" in judgement["why"]


def test_a_library_that_does_not_start_makes_every_suite_unknown(
    planted: Planted, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    import great_expectations as gx

    def refuse(**_: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(gx, "get_context", refuse)
    judged = judge(planted)
    assert {judgement["verdict"] for judgement in judged.values()} == {"unknown"}
    assert judged["placement"]["why"] == "The suite could not be judged: out of order"


def test_nothing_is_said_to_other_hosts_and_the_session_stays(
    planted: Planted, judge: Judge, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    connect, look_up = socket.socket.connect, socket.getaddrinfo
    monkeypatch.setattr(socket.socket, "connect", lambda self, to: (asked.append(to[0]), connect(self, to))[1])
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **more: (asked.append(host), look_up(host, *rest, **more))[1]
    )
    assert judge(planted, only="ordering")["ordering"]["verdict"] == "passed"
    assert {str(host) for host in asked} <= {"127.0.0.1", "localhost", "::1"}
    assert spark.range(3).count() == 3


def test_the_files_are_suites_that_the_library_reads_by_itself() -> None:
    import brokerproof_judging.suites.expectations  # noqa: F401
    import great_expectations as gx

    for path in sorted(EXPECTATIONS.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        assert len(gx.ExpectationSuite(**content).expectations) == len(content["expectations"])
