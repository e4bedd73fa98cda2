"""The queries of a mutant's file, repeated: which tests may notice the mutant."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sql_replay import Call, Recorder, Replay

NUMBERS = pa.table({"n": [1, 2, 3]})
LOWEST = ("CREATE MACRO lowest() AS getvariable('lowest')", ())


def make_replay(sql: str) -> Replay:
    definitions = [("SET VARIABLE lowest = ?", [2]), LOWEST]
    return Replay(
        [Call(before="", after="", definitions=definitions, tables={"numbers": NUMBERS}, tests=["a test"])], sql
    )


def test_only_a_query_with_other_rows_has_tests() -> None:
    replay = make_replay("SELECT n FROM numbers WHERE n >= lowest()")
    assert not list(replay.find_tests("SELECT n FROM numbers WHERE n > lowest() - 1 ORDER BY n DESC"))
    assert list(replay.find_tests("SELECT n FROM numbers WHERE n > lowest()")) == ["a test"]
    assert list(replay.find_tests("SELECT error('no') FROM numbers")) == ["a test"]


def test_the_rows_of_tables_and_views_are_compared() -> None:
    replay = make_replay("CREATE TABLE few AS FROM numbers; CREATE VIEW others AS FROM few WHERE n < 3")
    assert not list(replay.find_tests("CREATE TABLE few AS FROM numbers; CREATE VIEW others AS FROM few WHERE n <= 2"))
    assert list(replay.find_tests("CREATE TABLE few AS FROM numbers; CREATE VIEW others AS FROM few"))


def test_null_and_an_empty_list_differ() -> None:
    replay = make_replay("SELECT coalesce(NULL::INT[], []) AS found FROM numbers")
    assert list(replay.find_tests("SELECT NULL::INT[] AS found FROM numbers")) == ["a test"]


def test_the_order_of_rows_counts_if_the_query_has_one() -> None:
    replay = make_replay("SELECT n FROM numbers ORDER BY n")
    assert list(replay.find_tests("SELECT n FROM numbers ORDER BY n DESC")) == ["a test"]


def test_refused_sql_is_refused() -> None:
    with pytest.raises(duckdb.BinderException):
        list(make_replay("FROM numbers").find_tests("SELECT m FROM numbers"))


def test_a_query_is_kept_with_what_it_reads_and_with_its_tests(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(duckdb, "connect", duckdb.connect)
    recorder = Recorder({"some.sql": "SELECT n FROM numbers WHERE n >= lowest()"})
    for test in ("one", "other"):
        recorder.pytest_runtest_setup(SimpleNamespace(nodeid=test))  # type: ignore[arg-type]
        with duckdb.connect() as connection:
            connection.register("numbers", NUMBERS)
            connection.execute("CREATE TABLE unread AS SELECT 1 AS m")
            connection.execute("SET VARIABLE lowest = ?", [2])
            connection.execute(LOWEST[0])
            rows = connection.execute("CREATE TABLE found AS SELECT n FROM numbers WHERE n >= lowest()")
            assert rows.fetchall() == [(2,)]

    (call,) = recorder.calls["some.sql"].values()

    assert call.tests == ["one", "other"]
    assert call.before == "CREATE TABLE found AS "
    assert call.tables == {"numbers": NUMBERS}
    assert list(Replay([call], "FROM numbers").find_tests("FROM numbers LIMIT 1")) == ["one", "other"]


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("CREATE TABLE few AS FROM (", ") ANTI JOIN unwanted USING (n)", ["numbers", "unwanted"]),
        ("INSERT INTO numbers BY NAME ", "", ["numbers"]),
    ],
)
def test_a_query_inside_another_statement_is_repeated(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str, kept: list[str]
) -> None:
    monkeypatch.setattr(duckdb, "connect", duckdb.connect)
    recorder = Recorder({"some.sql": "SELECT n FROM numbers"})
    recorder.pytest_runtest_setup(SimpleNamespace(nodeid="a test"))  # type: ignore[arg-type]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE numbers AS SELECT unnest([1, 2, 3]) AS n")
        connection.execute("CREATE TABLE unwanted AS SELECT 1 AS n")
        connection.execute(f"{before}SELECT n FROM numbers{after}")

    (call,) = recorder.calls["some.sql"].values()

    assert sorted(call.tables) == kept
    replay = Replay([call], "SELECT n FROM numbers")
    assert not list(replay.find_tests("SELECT n FROM numbers ORDER BY n"))
    assert list(replay.find_tests("SELECT n FROM numbers WHERE n != 3")) == ["a test"]
