"""Spark's own reading of a suite's SQL is checked before Spark runs it, without a word from the check of the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokerproof.errors import InputError
from brokerproof.suites import written_expectation
from brokerproof.suites.query_rules import FUNCTIONS, VIEW, fill_in_batch, list_query_mistakes
from brokerproof_judging.suites.parsed_query import check_parsed_query
from brokerproof_judging.suites.query_planning import find_query_problem
from hypothesis import HealthCheck, given, settings
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from users_queries import ATTEMPTS, QUERIES, mutate_queries

from .conftest import Judge, Planted
from .test_query_planning import make_suite

# What only the check of the file refuses: it costs too much, shows nothing of the table, or is not in Spark's plan.
_ONLY_IN_THE_FILE = ("does not ask the table", "calls `", "has a `${`", "has the placeholder", "`TABLE`", "`VALUES`")


@pytest.fixture
def secret(tmp_path: Path) -> str:
    (tmp_path / "secret.txt").write_text("a password")
    return f"{tmp_path}/secret.txt"


def test_spark_alone_would_let_sql_read_files_the_environment_and_the_jvm(spark: SparkSession, secret: str) -> None:
    spark.createDataFrame([(1,)], "seq INT").createOrReplaceTempView(VIEW)
    shown = {
        f"SELECT * FROM text.`{secret}` -- {{batch}}": "a password",
        f"SELECT max(value) FROM {{batch}}, (SELECT value FROM text.`{secret}`)": "a password",
        "SELECT reflect('java.lang.System', 'getProperty', 'file.separator') FROM {batch}": "/",
        "SELECT '${{system:file.separator}}' FROM {batch}": "/",
    }
    spark.conf.set("spark.sql.variable.substitute", "true")
    for query, value in shown.items():
        assert spark.sql(fill_in_batch(query)).collect()[0][0] == value
        assert list_query_mistakes(query)
    spark.conf.unset("spark.sql.variable.substitute")


def test_the_session_of_verify_replaces_no_variable(spark: SparkSession) -> None:
    import verify

    text = "SELECT '${system:file.separator}'"
    assert verify.session().sql(text).collect()[0][0] == "${system:file.separator}"


@pytest.mark.parametrize(("query", "clause"), ATTEMPTS.items(), ids=ATTEMPTS)
def test_spark_cannot_parse_an_attempt_or_its_plan_is_refused_too(spark: SparkSession, query: str, clause: str) -> None:
    if clause.startswith("has the placeholder"):
        return
    try:
        check_parsed_query(spark, fill_in_batch(query))
    except (InputError, PySparkException):
        return
    assert any(only in clause for only in _ONLY_IN_THE_FILE) or "MAX RECURSION" in query


@pytest.mark.parametrize("query", QUERIES)
def test_spark_plans_a_query_that_the_check_takes(spark: SparkSession, query: str) -> None:
    assert find_query_problem(spark, "messages", query) is None


def test_every_function_of_the_list_is_one_of_spark(spark: SparkSession) -> None:
    # Spark's grammar has these three.
    assert FUNCTIONS - {function.name for function in spark.catalog.listFunctions()} == {
        "timestampadd",
        "timestampdiff",
        "try_cast",
    }


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT * FROM {batch}, text.`/etc/passwd`", "reads the table `text./etc/passwd`"),
        ("SELECT key FROM {batch} WHERE reflect('a', 'b') = ''", "calls the function `reflect`"),
        ("SELECT TRANSFORM (key) USING 'cat' FROM {batch}", "is read by Spark as `ScriptTransformation`"),
        ("INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT * FROM {batch}", "is read by Spark as `InsertIntoDir`"),
        ("ADD JAR '/x.jar' -- {batch}", "is read by Spark as `AddJarsCommand`"),
    ],
)
def test_sql_that_only_spark_reads_so_makes_its_suite_unknown_and_does_not_run(
    spark: SparkSession,
    planted: Planted,
    judge: Judge,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    reason: str,
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("Spark ran it")

    monkeypatch.setattr(written_expectation, "list_query_mistakes", lambda _: [])
    monkeypatch.setattr(SparkSession, "sql", fail)
    (tmp_path / "mine.json").write_text(json.dumps(make_suite("messages", "SELECT * FROM {batch}", query)))
    suite = judge(planted, tmp_path, only="mine")["mine"]
    assert suite["verdict"] == "unknown"
    assert f"{tmp_path}/mine.json: expectations.1.kwargs.unexpected_rows_query: {reason}" in suite["why"]
    assert [check["verdict"] for check in suite["expectations"]] == ["unknown", "unknown"]


def test_sql_that_the_file_must_not_have_makes_its_suite_unknown(
    planted: Planted, judge: Judge, tmp_path: Path, secret: str
) -> None:
    query = f"SELECT * FROM {{batch}}, text.`{secret}`"
    (tmp_path / "mine.json").write_text(json.dumps(make_suite("messages", query)))
    suite = judge(planted, tmp_path, only="mine")["mine"]
    assert suite["verdict"] == "unknown"
    assert f"reads `text.{secret[:20]}" in suite["why"]
    assert "a password" not in json.dumps(suite)


def list_nodes(value: Any) -> Iterator[dict[str, Any]]:
    """All nodes of a plan that Spark wrote as JSON."""
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from list_nodes(item)
    if isinstance(value, dict):
        yield value


@settings(
    max_examples=300, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=mutate_queries())
def test_spark_reads_only_the_table_and_listed_functions_in_any_sql_that_is_taken(
    spark: SparkSession, query: str
) -> None:
    if list_query_mistakes(query):
        return
    try:
        check_parsed_query(spark, fill_in_batch(query))
    except (InputError, PySparkException):
        return
    nodes = list(
        list_nodes(json.loads(spark._jsparkSession.sessionState().sqlParser().parsePlan(fill_in_batch(query)).toJSON()))
    )
    names = {node["_1"].lower() for node in nodes if node.get("product-class") == "scala.Tuple3"}
    tables = {node["multipartIdentifier"].lower() for node in nodes if "multipartIdentifier" in node}
    functions = {node["nameParts"].lower() for node in nodes if node.get("class", "").endswith(".UnresolvedFunction")}
    assert tables <= {f"[{name}]" for name in {VIEW, *names}}
    assert functions <= {f"[{name}]" for name in FUNCTIONS}
    assert not any(re.search(r"\.execution\.|\.command\.|Insert|Script", node.get("class", "")) for node in nodes)
