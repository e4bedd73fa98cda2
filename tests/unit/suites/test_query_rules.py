"""The SQL of a user's suite is refused, with the clause's name, unless it is one SELECT on the expectation's table."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from brokerproof.errors import InputError
from brokerproof.suites.query_rules import LONGEST_QUERY, list_query_mistakes
from brokerproof.suites.suite_file import SuiteFile, read_suite
from builders import EXPECTATIONS, ROOT
from hypothesis import given, settings
from users_queries import ATTEMPTS, QUERIES, mutate_queries


def read(directory: Path, *queries: str) -> SuiteFile:
    """Write a suite with SQL, and read it."""
    entries = [
        {
            "type": "unexpected_rows_expectation",
            "kwargs": {"unexpected_rows_query": query},
            "description": "No such row.",
            "meta": {"table": "messages"},
        }
        for query in queries
    ]
    (directory / "mine.json").write_text(json.dumps({"name": "mine", "expectations": entries}))
    return read_suite([str(directory)], "mine")


@pytest.mark.parametrize(("query", "clause"), ATTEMPTS.items(), ids=ATTEMPTS)
def test_an_attempt_is_refused_with_its_clause_its_file_and_field_and_a_remedy(
    tmp_path: Path, query: str, clause: str
) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, query)
    named = [mistake for mistake in refused.value.mistakes if clause in mistake.problem]
    assert named, str(refused.value)
    assert named[0].file == f"{tmp_path}/mine.json"
    assert named[0].field == "expectations.0.kwargs.unexpected_rows_query"
    assert named[0].remedy


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_on_the_table_of_its_expectation_is_taken(tmp_path: Path, query: str) -> None:
    (written,) = read(tmp_path, query).expectations
    assert written.query == query


def test_all_mistakes_of_a_suite_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(
            tmp_path,
            "SELECT reflect('a', 'b'), user, user FROM {batch}, text.`/etc/passwd`",
            "SELECT * FROM {batch}",
            "DROP VIEW {batch}",
        )
    file = f"{tmp_path}/mine.json: expectations"
    one_table = "(an expectation can read only one table, which is called `{batch}` in it)"
    listed = "(docs/sql-functions.md lists those allowed)"
    assert sorted(str(refused.value).splitlines()) == [
        f"{file}.0.kwargs.unexpected_rows_query: calls the function `reflect`, which a suite must not call {listed}",
        f"{file}.0.kwargs.unexpected_rows_query: calls the function `user`, which a suite must not call {listed}",
        f"{file}.0.kwargs.unexpected_rows_query: reads `text./etc/passwd`, a file or a table elsewhere {one_table}",
        f"{file}.2.kwargs.unexpected_rows_query: is the statement `DROP`, and no query that selects rows "
        "(begin it with SELECT)",
    ]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (f"SELECT '{'x' * LONGEST_QUERY}' FROM {{batch}}", "and a query may have 20,000"),
        (f"SELECT {'(' * 5_000}1{')' * 5_000} FROM {{batch}}", "is nested too deeply"),
        (f"SELECT * FROM {{batch}} {'JOIN {batch} ' * 30}", "has 30 joins, and may have 10"),
        (f"SELECT CAST(1 AS {'ARRAY<' * 200}INT{'>' * 200}) FROM {{batch}}", "has 200 nested types, and may have 40"),
        (f"SELECT {'struct(' * 30}1{')' * 30} FROM {{batch}}", "has 30 arrays, maps and structs in each other"),
    ],
    ids=["long", "deep", "joins", "types", "structs"],
)
def test_sql_that_takes_long_to_read_is_refused_before_it_is_parsed(query: str, reason: str) -> None:
    (mistake,) = list_query_mistakes(query)
    assert reason in mistake.problem


@settings(max_examples=300, derandomize=True, deadline=None)
@given(query=mutate_queries())
def test_any_text_is_read_in_two_seconds_with_a_sentence_for_each_mistake(query: str) -> None:
    began = time.process_time()
    assert all(mistake.problem and mistake.remedy for mistake in list_query_mistakes(query))
    assert time.process_time() - began < 2


def test_the_parser_logs_nothing_about_sql_that_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    list_query_mistakes("SELECT * FROM {batch}; DROP nothing {batch}")
    assert caplog.records == []


def test_suites_without_sql_are_read_without_the_parser_of_sql() -> None:
    program = f"""
import sys
import time
import brokerproof.cli
from brokerproof.checks import list_suite_problems
from brokerproof.settings import from_environment
assert list_suite_problems(from_environment().expectations) == []
assert {str(EXPECTATIONS)!r} in str(from_environment().expectations)
assert "sqlglot" not in sys.modules, "imported"
"""
    environment: dict[str, Any] = {"env": {"PYTHONPATH": str(ROOT / "plugins")}}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, **environment)
