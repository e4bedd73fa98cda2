"""The campaign of `make mutants`: what becomes of a mutant, and what counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokerproof_judging.messages import message_columns
from differential_histories import Answer, write_histories
from sql_campaign import Fate, Judging, find_fate, list_mutants, read_results, summarize
from sql_mutants import make_mutants, rewrite

LOST = "anomalies/lost.sql"
SQL = Path(message_columns.__file__).parent / "sql"
ORIGINAL = (SQL / LOST).read_text(encoding="utf-8")
# Counts 10^15 rows, which takes days.
ENDLESS = "SELECT count(*) FROM range(1000000000) a, range(1000000) b WHERE (a.range + b.range) % 7 = 9"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Any, Answer]]]:
    return list(write_histories(tmp_path_factory.mktemp("histories"), 1))


def test_sql_that_is_only_written_anew_survives(runs: list[tuple[Any, Answer]]) -> None:
    rewritten = {str(path.relative_to(SQL)): rewrite(path.read_text(encoding="utf-8")) for path in SQL.rglob("*.sql")}
    assert find_fate(runs, rewritten) is Fate.SURVIVED


def test_sql_that_finds_nothing_is_killed_by_its_answer(runs: list[tuple[Any, Answer]]) -> None:
    assert find_fate(runs, {LOST: f"FROM ({ORIGINAL}) LIMIT 0"}) is Fate.ANSWER


@pytest.mark.parametrize("broken", ["SELECT FROM WHERE", "SELECT no_such_column FROM log_facts", "FROM no_such_table"])
def test_sql_that_duckdb_refuses_is_not_a_mutant(runs: list[tuple[Any, Answer]], broken: str) -> None:
    assert find_fate(runs, {LOST: broken}) is Fate.NO_MUTANT


def test_sql_that_fails_on_its_rows_is_killed_by_an_error(runs: list[tuple[Any, Answer]]) -> None:
    assert find_fate(runs, {LOST: "SELECT error('no')"}) is Fate.ERROR


def test_sql_that_does_not_end_is_killed_by_time(runs: list[tuple[Any, Answer]]) -> None:
    judging = Judging(runs, limit_s=3)
    try:
        assert judging.find_fate({LOST: ENDLESS}) is Fate.TIME
    finally:
        judging.end()


def test_a_process_judges_one_mutant_after_the_other(runs: list[tuple[Any, Answer]]) -> None:
    judging = Judging(runs, limit_s=600)
    try:
        assert judging.find_fate({LOST: f"FROM ({ORIGINAL}) LIMIT 0"}) is Fate.ANSWER
        assert judging.find_fate({LOST: ORIGINAL}) is Fate.SURVIVED
    finally:
        judging.end()


def test_refused_sql_does_not_count_and_a_survivor_does() -> None:
    fates = [Fate.ANSWER, Fate.ERROR, Fate.TIME, Fate.SURVIVED, Fate.NO_MUTANT]
    assert summarize(fates).startswith("3 of 4 mutants killed (75.0%), 1 of them by time; 1 were refused")


def test_without_a_mutant_no_share_is_claimed() -> None:
    assert "(nothing)" in summarize([Fate.NO_MUTANT])


def test_a_seed_chooses_always_the_same_share() -> None:
    everything, some = (set(list_mutants(share, 7, "lost.sql")) for share in (1, 0.5))
    assert some == set(list_mutants(0.5, 7, "lost.sql")) != set(list_mutants(0.5, 8, "lost.sql"))
    assert some < everything


def test_a_campaign_that_was_ended_keeps_what_it_found(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text('{"mutant": "a", "fate": "survived"}\n{"mutant": "b", "fa', encoding="utf-8")
    assert read_results(file) == {"a": Fate.SURVIVED}


def test_a_mutant_is_one_small_change() -> None:
    (first, *_) = make_mutants("SELECT a FROM t WHERE a < 1")
    assert rewrite("SELECT a FROM t WHERE a < 1") != first.sql
    assert {each.sql for each in make_mutants("SELECT a FROM t WHERE a < 1")} == {
        "SELECT a FROM t",
        "SELECT a FROM t WHERE a <= 1",
        "SELECT a FROM t WHERE a < 2",
    }
