"""The SQL of suites is planned before a run: what Spark refuses is named with a remedy, all else is accepted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import plan_suites
import pytest
from brokerproof.experiment.guarantees import Suite
from brokerproof.settings import from_environment
from brokerproof.spark.query_planning import list_query_problems
from brokerproof.suites.query_rules import fill_in_batch
from brokerproof.suites.suite_file import read_suite
from brokerproof_judging.suites.query_planning import find_query_problem
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from .conftest import EXPECTATIONS, PROJECT, Judge, Planted

REFUSED = {
    "SELECT * FROM {batch} WHERE recieved_at IS NULL": (
        "`deliveries` has no column `recieved_at`",
        "the nearest are `received_at`, `published_at`, `acknowledged_at`",
    ),
    "SELECT * FROM {batch} AS d WHERE d.kee = 'a'": (
        "`deliveries` has no column `d.kee`",
        "the nearest are `d.key`, `d.seq`, `d.offset`",
    ),
    "SELEC * FROM {batch}": ("Syntax error at or near 'SELEC'", "correct the SQL"),
    "SELECT * FROM {batch} AS d WHERE {batch}.key = 'a' AND ORDER BY seq": (
        "Syntax error at or near 'AND', after `…ROM {batch} AS d WHERE {batch}.key = 'a'`",
        "correct the SQL",
    ),
    "SELECT * FROM {batch} WHERE received_at > 5": (
        'Cannot resolve "(received_at > 5)" due to data type mismatch: the left and right operands of the binary '
        'operator have incompatible types ("TIMESTAMP" and "INT")',
        "write a time as TIMESTAMP '2026-01-31 12:00:00', and a duration as INTERVAL 5 SECONDS",
    ),
    "SELECT * FROM {batch} JOIN stored USING (key)": (
        "reads the table `stored`",
        "an expectation can read only one table, which is called `{batch}` in it",
    ),
    "SELECT key, count(*) FROM {batch}": (
        "The query does not include a GROUP BY clause",
        "Add GROUP BY or turn it into the window functions using OVER clauses",
    ),
    "SELECT key FROM {batch} GROUP BY cluster": (
        'The non-aggregating expression "key" is based on columns which are not participating in the GROUP BY clause',
        'Add the columns or the expression to the GROUP BY, aggregate the expression, or use "any_value(key)" if you '
        "do not care which of the values within a group is returned",
    ),
    "SELECT * FROM {batch} WHERE {batch:d} = 1": (
        "Unknown format code 'd' for object of type 'str'",
        "write the table as `{batch}`",
    ),
    "DROP VIEW {batch}": ("is a command, and no query that selects rows", "begin it with SELECT"),
    "CREATE TABLE taken AS SELECT * FROM {batch}": (
        "is a command, and no query that selects rows",
        "begin it with SELECT",
    ),
}
ACCEPTED = [
    "SELECT * FROM {batch} WHERE received_at IS NULL",
    "WITH d AS (SELECT * FROM {batch}) SELECT key, count(*) FROM d GROUP BY key HAVING count(*) > 5;\n",
    "SELECT * FROM {batch} WHERE received_at - published_at > INTERVAL 60 SECONDS",
    "SELECT a.key FROM {batch} AS a JOIN {batch} AS b USING (producer, seq)",
    "SELECT * FROM {batch} WHERE key RLIKE '^key-[0-9]{{1,3}}$'",
]


@pytest.mark.parametrize(("query", "answer"), REFUSED.items(), ids=REFUSED)
def test_a_query_that_spark_refuses_is_named_in_a_sentence_with_a_remedy(
    spark: SparkSession, query: str, answer: tuple[str, str]
) -> None:
    assert find_query_problem(spark, "deliveries", query) == answer


@pytest.mark.parametrize("query", ACCEPTED)
def test_a_correct_query_has_no_problem(spark: SparkSession, query: str) -> None:
    assert find_query_problem(spark, "deliveries", query) is None


def test_planning_does_not_execute_a_command(spark: SparkSession) -> None:
    find_query_problem(spark, "deliveries", "CREATE TABLE taken AS SELECT * FROM {batch}")
    assert not spark.catalog.tableExists("taken")


def test_a_query_is_planned_on_its_own_table(spark: SparkSession) -> None:
    query = "SELECT * FROM {batch} WHERE redelivery_count > 0"
    assert find_query_problem(spark, "deliveries", query) is None
    assert find_query_problem(spark, "stored", query) is not None


@pytest.mark.parametrize("query", ACCEPTED)
def test_the_library_evaluates_the_text_that_is_planned(
    spark: SparkSession, planted: Planted, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    evaluated: list[str] = []

    def remember(self: SparkSession, text: str, *_: Any, **__: Any) -> Any:
        evaluated.append(text)
        raise PySparkException("not evaluated")

    monkeypatch.setattr(SparkSession, "sql", remember)
    (tmp_path / "mine.json").write_text(json.dumps(make_suite("messages", query)))
    judge(planted, tmp_path, only="mine")
    assert set(evaluated) == {fill_in_batch(query)}


def test_the_shipped_suites_and_every_example_of_the_guide_are_planned_without_a_problem(spark: SparkSession) -> None:
    guide = (PROJECT / "docs" / "write-a-suite.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```json\n(.*?)^ *```", guide, re.DOTALL | re.MULTILINE)
    examples = [entry for block in blocks for entry in json.loads(block)["expectations"]]
    shipped = [written.content for suite in Suite for written in read_suite([str(EXPECTATIONS)], suite).expectations]
    queries = {
        entry["kwargs"]["unexpected_rows_query"]: entry["meta"]["table"]
        for entry in [*examples, *shipped]
        if "unexpected_rows_query" in entry["kwargs"]
    }
    assert queries
    assert {query: find_query_problem(spark, table, query) for query, table in queries.items()} == dict.fromkeys(
        queries
    )


def test_the_job_writes_an_answer_to_each_query(spark: SparkSession, tmp_path: Path) -> None:
    queries, answers = tmp_path / "queries.json", tmp_path / "answers.json"
    queries.write_text(json.dumps([["stored", "SELECT * FROM {batch}"], ["stored", "SELEC * FROM {batch}"]]))
    plan_suites.main([str(queries), str(answers)])
    assert json.loads(answers.read_text()) == [None, ["Syntax error at or near 'SELEC'", "correct the SQL"]]


def test_the_job_is_submitted_to_spark_as_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "mine.json").write_text(
        json.dumps(make_suite("stored", ACCEPTED[3], "SELECT kee FROM {batch}"))
    )
    monkeypatch.setenv("BROKERPROOF_EXPECTATIONS", f"{tmp_path}/suites:")
    monkeypatch.setenv("BROKERPROOF_VAR", f"{tmp_path}/var")
    warned: list[str] = []
    (problem,) = list_query_problems(from_environment(), announce=lambda _: None, warn=warned.append)
    assert (problem.field, warned) == ("expectations.1.kwargs.unexpected_rows_query", [])
    assert len(json.loads((tmp_path / "var" / "planned_queries.json").read_text())) == 1


def make_suite(table: str, *queries: str) -> dict[str, Any]:
    """The content of a suite's file."""
    return {
        "name": "mine",
        "expectations": [
            {
                "type": "unexpected_rows_expectation",
                "kwargs": {"unexpected_rows_query": query},
                "description": "No such row.",
                "meta": {"table": table},
            }
            for query in queries
        ],
    }
