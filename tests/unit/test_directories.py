"""Files of a user's own directories are found beside the shipped ones; a name that two of them have is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from brokerproof.checks import check_suites, list_suite_problems
from brokerproof.directories import Directories
from brokerproof.errors import InputError
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.yaml_models import suggest_file
from brokerproof.spark.job_configuration import list_verify_options
from brokerproof.suites.suite_file import make_suite


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    return fill(tmp_path / "shipped", "a.yaml", "b.yaml")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return fill(tmp_path / "my own", "c.yaml")


def fill(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).touch()
    return directory


def fill_with_suites(directory: Path, *suites: Suite) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for suite in suites:
        (directory / f"{suite}.json").write_text(json.dumps(make_suite(suite)))
    return directory


def test_a_file_is_found_in_each_directory(shipped: Path, mine: Path) -> None:
    both = Directories((mine, shipped))
    assert (both.find("a"), both.find("c"), both.find("d")) == (shipped / "a.yaml", mine / "c.yaml", None)
    assert list(both.list_files()) == ["a", "b", "c"]
    assert both.list_problems() == []


@pytest.mark.parametrize("name", ["../shipped/a", "", "x" * 5000, "/", "a\0"])
def test_no_name_leads_out_of_the_directories(mine: Path, shipped: Path, name: str) -> None:
    assert Directories((mine,), shipped=shipped).find(name) is None


def test_a_name_that_two_directories_have_is_refused_with_both_files_and_takes_no_other_down(
    shipped: Path, mine: Path
) -> None:
    fill(mine, "a.yaml")
    both = Directories((mine, shipped))
    sentence = f"{mine}/a.yaml: has the same name as {shipped}/a.yaml (rename all but one)"
    with pytest.raises(InputError) as refused:
        both.find("a")
    assert str(refused.value) == sentence
    assert [str(problem) for problem in both.list_problems()] == [sentence]
    assert list(both.list_files()) == ["b", "c"]
    assert both.find("b") == shipped / "b.yaml"


def test_a_file_may_be_in_a_directory_that_cannot_be_read(shipped: Path, tmp_path: Path) -> None:
    both = Directories((tmp_path / "gone", shipped), variable="V")
    assert both.find("a") == shipped / "a.yaml"
    with pytest.raises(InputError, match=r"^V: the directory .*/gone cannot be read: No such file or directory"):
        both.find("c")


def test_only_a_shipped_file_that_is_not_searched_is_left_out(shipped: Path, mine: Path) -> None:
    assert Directories((mine,), shipped=shipped).has_left_out("a")
    assert not Directories((mine,), shipped=shipped).has_left_out("c")
    assert not Directories((mine, shipped), shipped=shipped).has_left_out("a")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("c.yml", "rename it to c.yaml"),
        ("c.YAML", "rename it to c.yaml"),
        ("a.yml", "delete it, or give it another name"),
    ],
)
def test_a_file_with_another_ending_is_named_beside_others_and_alone(tmp_path: Path, name: str, remedy: str) -> None:
    mine = fill(tmp_path / "mine", name, "notes.md", ".hidden.yml")
    for others in ([], ["a.yaml"]):
        fill(mine, *others)
        (problem,) = Directories((mine,), variable="V").list_problems()
        assert (problem.file, problem.problem) == (
            f"{mine}/{name}",
            "is not read, because its name does not end with `.yaml`",
        )
    assert problem.remedy == remedy


def test_a_file_that_is_missing_for_its_ending_is_answered_with_the_right_name(tmp_path: Path) -> None:
    mine = fill(tmp_path / "mine", "c.yml", "b.yaml")
    assert suggest_file("c", Directories((mine,))) == f"rename {mine}/c.yml to c.yaml"
    assert suggest_file("bb", Directories((mine,))) == "did you mean `b`?"


def test_directories_without_any_file_are_an_error_and_one_empty_directory_beside_others_is_none(
    shipped: Path, tmp_path: Path
) -> None:
    empty = fill(tmp_path / "empty", "notes.md")
    alone = Directories((empty,), variable="V", shipped=shipped)
    sentence = f"V: the directory {empty} has no file that ends with `.yaml` "
    (problem,) = alone.list_problems()
    assert str(problem) == sentence + "(put one there, or let it end with `:` to have the shipped ones)"
    beside = Directories((empty, shipped), variable="V", shipped=shipped)
    assert beside.list_problems() == []
    (warning,) = beside.list_empty()
    assert str(warning) == sentence + "(put one there, or take the directory out of the list)"
    # The directory above that of the files is as empty as one without subdirectories.
    (empty / "scenarios").mkdir()
    assert [str(problem) for problem in alone.list_problems()] == [str(alone.list_empty()[0])]
    # A directory with settings that topologies extend is not empty, and neither is one with a misnamed file.
    (empty / "settings").mkdir()
    assert beside.list_empty() == []
    assert Directories((fill(tmp_path / "other", "a.yml"), shipped), shipped=shipped).list_empty() == []


class TestSuites:
    @pytest.fixture
    def shipped(self, tmp_path: Path) -> Path:
        return fill_with_suites(tmp_path / "shipped", *Suite)

    def test_a_users_suite_replaces_the_shipped_one(self, shipped: Path, mine: Path) -> None:
        fill_with_suites(mine, Suite.RECOVERY)
        both = Directories((shipped, mine), shipped=shipped, replaceable=True)
        check_suites(both)
        assert both.find("recovery", ".json") == mine / "recovery.json"
        assert both.find("ordering", ".json") == shipped / "ordering.json"
        assert both.list_problems(".json") == []

    def test_a_users_own_suite_is_judged_beside_the_five(self, shipped: Path, mine: Path) -> None:
        fill(mine, "mine.json")
        both = Directories((mine, shipped), shipped=shipped, replaceable=True)
        assert list_verify_options(both)[-2:] == ["--suite", "mine"]

    @pytest.mark.parametrize("name", ["mine", "recovery"])
    def test_a_broken_file_is_named_before_a_run(self, shipped: Path, mine: Path, name: str) -> None:
        fill(mine, f"{name}.json")
        with pytest.raises(InputError, match=rf"my own/{name}\.json: not valid JSON"):
            check_suites(Directories((mine, shipped), shipped=shipped, replaceable=True))

    @pytest.mark.parametrize("name", ["mine.yaml", "mine.yml", "mine.JSON"])
    def test_a_suite_with_another_ending_is_refused_because_nothing_would_check_it(
        self, shipped: Path, mine: Path, name: str
    ) -> None:
        (mine / name).write_text("name: mine\nexpectations:\n- type: expect_column_values_to_not_be_null\n")
        with pytest.raises(InputError) as refused:
            check_suites(Directories((mine, shipped), shipped=shipped, replaceable=True))
        assert str(refused.value) == (
            f"{mine}/{name}: is not read, because its name does not end with `.json` "
            "(write it as JSON, and name it mine.json)"
        )

    def test_scenarios_beside_suites_are_not_taken_for_suites(self, shipped: Path, mine: Path) -> None:
        (mine / "c.yaml").write_text("title: t\ndescription: |\n  expectations: none\n")
        check_suites(Directories((mine, shipped), shipped=shipped, replaceable=True))

    def test_an_empty_directory_of_suites_is_a_mistake_only_without_the_shipped_ones(
        self, shipped: Path, tmp_path: Path
    ) -> None:
        empty = fill(tmp_path / "empty")
        check_suites(Directories((empty, shipped), shipped=shipped, replaceable=True))
        with pytest.raises(InputError) as refused:
            check_suites(Directories((empty,), variable="V", shipped=shipped, replaceable=True))
        (mistake,) = refused.value.mistakes
        assert mistake.problem.startswith("no directory has completeness.json, uniqueness.json, ")
        assert mistake.remedy == "let it end with `:` to have the shipped ones"

    def test_every_broken_file_is_listed(self, shipped: Path, mine: Path) -> None:
        fill(mine, "mine.json", "recovery.json", "verify.json")
        (shipped / "ordering.json").unlink()
        problems = list_suite_problems(Directories((mine, shipped), shipped=shipped, replaceable=True))
        assert [(Path(problem.file).name, problem.problem.partition(":")[0]) for problem in problems] == [
            ("", "no directory has ordering.json"),
            ("mine.json", "not valid JSON"),
            ("recovery.json", "not valid JSON"),
            ("verify.json", "a suite cannot be called `verify`, as a task is"),
        ]

    def test_the_job_takes_it_because_the_shipped_directory_comes_last(self, shipped: Path, mine: Path) -> None:
        both = Directories((shipped, mine), shipped=shipped, replaceable=True)
        assert list_verify_options(both) == ["--expectations", str(mine), "--expectations", str(shipped)]

    def test_two_users_suites_of_one_name_are_refused(self, shipped: Path, mine: Path, tmp_path: Path) -> None:
        others = fill(tmp_path / "others", "recovery.json")
        fill(mine, "recovery.json")
        with pytest.raises(InputError, match=r"my own/recovery\.json: has the same name as .*others/recovery\.json"):
            check_suites(Directories((mine, others, shipped), shipped=shipped, replaceable=True))

    def test_a_suite_that_is_nowhere_is_refused_before_a_run(self, shipped: Path, mine: Path) -> None:
        fill_with_suites(mine, *(suite for suite in Suite if suite is not Suite.RECOVERY))
        with pytest.raises(InputError) as refused:
            check_suites(Directories((mine,), variable="V", shipped=shipped))
        assert str(refused.value) == ("V: no directory has recovery.json (let it end with `:` to have the shipped one)")
        (shipped / "recovery.json").unlink()
        with pytest.raises(InputError, match=r"no directory has recovery\.json \(add it\)"):
            check_suites(Directories((mine, shipped), variable="V", shipped=shipped, replaceable=True))
