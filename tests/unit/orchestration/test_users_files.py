"""Scenarios, topologies and suites of a user's own repository are used like the shipped ones, beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException
from brokerproof.checks import load_scenario
from brokerproof.cli import main
from brokerproof.errors import RunError
from brokerproof.orchestration.dag_building.operators import ReserveOperator
from brokerproof.run.directory import Run
from brokerproof.settings import Settings, from_environment
from brokerproof.spark import query_planning
from builders import ROOT

from .conftest import SCENARIO

EXAMPLE = "owner_killed_far_apart"


def load() -> DagBag:
    """The DAGs as Airflow's DAG processor reads them."""
    return DagBag(str(ROOT / "dags"))


def list_scenarios(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What `brokerproof scenarios` lists: the topology of each scenario by its name."""
    assert main(["scenarios", "--json"]) == 0
    return {row["name"]: row["topology"] for row in json.loads(capsys.readouterr().out)["scenarios"]}


@pytest.fixture
def repository(tmp_path: Path, scenarios: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own repository with the files of the guide's example. Of what is shipped, it has the topologies."""
    directory = tmp_path / "my repository"
    guide = (ROOT / "docs" / "write-a-scenario.md").read_text(encoding="utf-8")
    files = re.findall(r"`((?:scenarios|topologies)/\S+\.yaml)`:\n\n```yaml\n(.*?)```", guide, re.DOTALL)
    assert len(files) == 3
    for name, text in files:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("BROKERPROOF_SCENARIOS", f"{directory}/scenarios")
    monkeypatch.setenv("BROKERPROOF_TOPOLOGIES", f"{directory}/topologies:")
    return directory


@pytest.fixture
def shipped(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped scenarios, beside those of the user."""
    monkeypatch.setenv("BROKERPROOF_SCENARIOS", f"{repository}/scenarios:")


def test_the_example_of_the_guide_is_listed_beside_the_shipped_scenarios(
    shipped: None, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = list_scenarios(capsys)
    assert listed[EXAMPLE] == "far_apart"
    assert listed["sync_nominal"] == "sync_active_passive"


def test_the_example_of_the_guide_has_a_dag_beside_those_of_the_shipped_scenarios(shipped: None) -> None:
    bag = load()
    assert bag.import_errors == {}
    assert {EXAMPLE, "sync_nominal", "campaign"} <= set(bag.dags)
    assert bag.dags["campaign"].params["scenarios"] == sorted(set(bag.dags) - {"campaign", "clean_up"})
    assert "| eu – us | 40 ms |" in (bag.dags[EXAMPLE].doc_md or "")


def test_the_example_of_the_guide_has_the_shipped_nodes_and_the_users_settings(repository: Path) -> None:
    settings = from_environment()
    _, topology = load_scenario(settings.scenario_file(EXAMPLE), settings.topologies)
    assert "broker-us-2" in topology.nodes
    assert topology.settings["bookie"]["zkTimeout"] == 8000


def test_a_file_that_is_added_later_has_a_dag_at_the_next_reading(repository: Path) -> None:
    load()
    (repository / "scenarios" / "added.yaml").write_text(SCENARIO)
    assert "added" in load().dags


def test_without_the_empty_entry_only_the_users_scenarios_are_there(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(list_scenarios(capsys)) == [EXAMPLE]
    assert set(load().dags) == {EXAMPLE, "campaign", "clean_up"}


def test_without_the_empty_entry_a_shipped_topology_is_missing_and_the_sentence_says_how_to_have_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BROKERPROOF_TOPOLOGIES", str(repository / "topologies"))
    (repository / "scenarios" / "plain.yaml").write_text(SCENARIO)
    assert main(["scenarios"]) == 3
    printed = " ".join(capsys.readouterr().err.split())
    remedy = "(it is a shipped one: let BROKERPROOF_TOPOLOGIES end with `:`)"
    assert f"far_apart.yaml: extends: no file of topologies/ is called `sync_active_passive` {remedy}" in printed
    assert f"plain.yaml: topology: no topology is called `sync_active_passive` {remedy}" in printed


@pytest.mark.parametrize("variable", ["SCENARIOS", "TOPOLOGIES", "EXPECTATIONS"])
@pytest.mark.parametrize("arguments", [["scenarios"], ["run", EXAMPLE], ["airflow", "start"]], ids=" ".join)
def test_a_directory_that_is_not_there_is_one_sentence_and_nothing_starts(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    arguments: list[str],
) -> None:
    monkeypatch.setenv(f"BROKERPROOF_{variable}", f"{repository}/mistyped:")
    assert main(arguments) == 3
    printed = " ".join(capsys.readouterr().err.split())
    assert printed.count("mistyped cannot be read: No such file or directory") == 1
    assert f"BROKERPROOF_{variable}: " in printed
    assert not from_environment().airflow_home.exists()


def test_in_airflow_a_directory_that_is_not_there_takes_no_scenario_of_the_others_down(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERPROOF_SCENARIOS", f"{repository}/mistyped:{repository}/scenarios")
    bag = load()
    assert set(bag.dags) == {EXAMPLE, "campaign", "clean_up"}
    ((file, message),) = bag.import_errors.items()
    assert Path(file).name == "unusable_scenarios.py"
    assert "BROKERPROOF_SCENARIOS: the directory " in message


def test_a_name_that_two_directories_have_is_refused_with_both_files_and_takes_no_other_down(
    shipped: None, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "scenarios" / "sync_nominal.yaml").write_text(SCENARIO)
    (repository / "topologies" / "side_by_side.yaml").write_text("title: mine")
    sentences = [
        f"{repository}/scenarios/sync_nominal.yaml: has the same name as {ROOT}/dags/scenarios/sync_nominal.yaml",
        f"{repository}/topologies/side_by_side.yaml: has the same name as {ROOT}/topologies/side_by_side.yaml",
    ]
    assert main(["run", "sync_nominal"]) == 3
    assert sentences[0] in " ".join(capsys.readouterr().err.split())
    assert main(["scenarios"]) == 3
    printed = " ".join(capsys.readouterr().err.split())
    # The sentence about the topology stands once, although each scenario that uses it has it.
    assert [printed.count(sentence) for sentence in sentences] == [1, 1]
    bag = load()
    assert "sync_nominal" not in bag.dags
    assert {EXAMPLE, "sync_datacenter_loss"} <= set(bag.dags)
    ((_, message),) = bag.import_errors.items()
    assert [sentence in message for sentence in sentences] == [True, True]


def test_all_mistakes_of_a_file_are_listed_wherever_scenarios_are_listed(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = repository / "scenarios" / "broken.yaml"
    file.write_text(SCENARIO.replace("steady_s: 20", "steady_s: 20 s") + "colour: red\nruntime: dokcer\n")
    sentences = [
        f"{file}: phases.steady_s: `20 s` is no number (write a number, as in 20)",
        f"{file}: colour: unknown field `colour`",
        f"{file}: runtime: no runtime is called `dokcer` (did you mean `docker`?)",
    ]
    for arguments in (["scenarios"], ["run", "broken"]):
        assert main(arguments) == 3
        printed = " ".join(capsys.readouterr().err.split())
        assert [printed.count(sentence) for sentence in sentences] == [1, 1, 1]
    assert main(["scenarios", "--json"]) == 3
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert len(errors) == 3
    assert all(error.startswith(sentence) for error, sentence in zip(errors, sentences, strict=True))
    ((_, message),) = load().import_errors.items()
    assert [message.count(sentence) for sentence in sentences] == [1, 1, 1]


@pytest.mark.parametrize("variable", ["SCENARIOS", "TOPOLOGIES"])
def test_a_file_that_ends_with_yml_is_named_everywhere(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str
) -> None:
    (repository / "other").mkdir()
    (repository / "other" / "mine.yml").write_text(SCENARIO)
    own = "scenarios" if variable == "SCENARIOS" else "topologies"
    monkeypatch.setenv(f"BROKERPROOF_{variable}", f"{repository}/other:{repository}/{own}:")
    assert main(["scenarios"]) == 3
    sentence = (
        f"{repository}/other/mine.yml: is not read, because its name does not end with `.yaml` (rename it to mine"
    )
    assert sentence in " ".join(capsys.readouterr().err.split())
    ((_, message),) = load().import_errors.items()
    assert sentence in message


def test_a_run_of_a_scenario_that_ends_with_yml_is_answered_with_the_right_name(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "scenarios" / "mine.yml").write_text(SCENARIO)
    assert main(["run", "mine"]) == 3
    assert f"(rename {repository}/scenarios/mine.yml to mine.yaml)" in " ".join(capsys.readouterr().err.split())


def test_an_empty_directory_is_a_warning_beside_others_and_an_error_alone(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "empty").mkdir()
    sentence = f"BROKERPROOF_SCENARIOS: the directory {repository}/empty has no file that ends with `.yaml`"
    for others, status in ((":", 0), ("", 3)):
        monkeypatch.setenv("BROKERPROOF_SCENARIOS", f"{repository}/empty{others}")
        assert main(["scenarios"]) == status
        printed = " ".join(capsys.readouterr().err.split())
        assert printed.count(sentence) == 1
        assert (f"warning: {sentence}" in printed) == (status == 0)


def test_a_suite_in_two_directories_of_a_user_is_refused_and_nothing_starts(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (repository / name).mkdir()
        (repository / name / "recovery.json").touch()
    monkeypatch.setenv("BROKERPROOF_EXPECTATIONS", f"{repository}/one:{repository}/two:")
    assert main(["run", EXAMPLE]) == 3
    printed = " ".join(capsys.readouterr().err.split())
    assert f"{repository}/one/recovery.json: has the same name as {repository}/two/recovery.json" in printed
    assert not from_environment().airflow_home.exists()


def test_the_judging_gets_the_users_suites_and_then_the_shipped_ones(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "expectations").mkdir()
    monkeypatch.setenv("BROKERPROOF_EXPECTATIONS", f":{repository}/expectations")
    arguments = load().dags[EXAMPLE].task_dict["verify"].application_args
    assert arguments[1:] == [
        *("--expectations", str(repository / "expectations")),
        *("--expectations", str(ROOT / "expectations")),
    ]


ENTRY = {
    "type": "expect_column_values_to_not_be_null",
    "kwargs": {"column": "key"},
    "description": "Every message has a key.",
    "meta": {"table": "stored"},
}


@pytest.fixture
def own_suites(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's directory of expectations, with one suite."""
    directory = repository / "expectations"
    directory.mkdir()
    (directory / "mine.json").write_text(json.dumps({"name": "mine", "expectations": [ENTRY]}))
    monkeypatch.setenv("BROKERPROOF_EXPECTATIONS", f"{directory}:")
    return directory


def test_a_users_own_suite_is_a_task_beside_the_five(own_suites: Path, shipped: None) -> None:
    bag = load()
    assert bag.import_errors == {}
    for name in (EXAMPLE, "sync_nominal"):
        tasks = bag.dags[name].task_dict
        assert tasks["verify"].downstream_task_ids >= {"mine", "ordering"}
        assert tasks["mine"].downstream_task_ids == {"record", "verdict"}
        assert tasks["verify"].application_args[-2:] == ["--suite", "mine"]


def break_keyword(directory: Path) -> None:
    entry = ENTRY | {"kwargs": {"column": "key", "mostly": 0.9}}
    (directory / "mine.json").write_text(json.dumps({"name": "mine", "expectations": [entry]}))


def break_type(directory: Path) -> None:
    entry = ENTRY | {"type": "expect_column_values_to_not_be_nul"}
    (directory / "mine.json").write_text(json.dumps({"name": "mine", "expectations": [entry]}))


def break_name(directory: Path) -> None:
    (directory / "mine.json").rename(directory / "verify.json")


def break_shipped(directory: Path) -> None:
    (directory / "recovery.json").write_text('{"name": "recovery", "expectations": []}')


BROKEN = [
    (break_keyword, "mine.json: expectations.0.kwargs.mostly: `mostly` lets rows break the expectation (leave it out"),
    (break_type, "expectations.0.type: no kind of expectation is called `expect_column_values_to_not_be_nul`"),
    (break_name, "verify.json: a suite cannot be called `verify`, as a task is (rename the file)"),
    (break_shipped, "recovery.json: expectations: holds no expectation"),
]


@pytest.mark.parametrize(("spoil", "sentence"), BROKEN)
@pytest.mark.parametrize("arguments", [["scenarios"], ["run", EXAMPLE]], ids=" ".join)
def test_a_broken_suite_is_one_sentence_and_nothing_starts(
    own_suites: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    spoil: Callable[[Path], None],
    sentence: str,
) -> None:
    spoil(own_suites)
    assert main(arguments) == 3
    assert " ".join(capsys.readouterr().err.split()).count(sentence) == 1
    assert not from_environment().airflow_home.exists()


@pytest.fixture
def refused_sql(own_suites: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite with SQL, for which a planted Spark gives the same answer for any SQL."""

    def refuse(settings: Settings, job: str, arguments: Sequence[str]) -> None:
        Path(arguments[1]).write_text(json.dumps([["`stored` has no column `kee`", "the nearest are `key`"]]))

    monkeypatch.setattr(query_planning, "submit_locally", refuse)
    entry = ENTRY | {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE kee IS NULL"},
    }
    (own_suites / "mine.json").write_text(json.dumps({"name": "mine", "expectations": [entry]}))
    return own_suites


SQL_SENTENCE = "expectations.0.kwargs.unexpected_rows_query: `stored` has no column `kee` (the nearest are `key`)"


@pytest.mark.parametrize("arguments", [["scenarios"], ["run", EXAMPLE]], ids=" ".join)
def test_a_mistake_in_sql_is_one_sentence_and_nothing_starts(
    refused_sql: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 3
    printed = " ".join(capsys.readouterr().err.split())
    assert printed.startswith("checking the SQL of suites with Spark, about 10 s")
    assert printed.count(f"{refused_sql}/mine.json: {SQL_SENTENCE}") == 1
    assert not from_environment().airflow_home.exists()


def test_a_mistake_in_sql_fails_the_first_task_of_a_run_that_airflow_starts(
    refused_sql: Path, context: dict[str, Any]
) -> None:
    context["dag_run"] = SimpleNamespace(run_id="scheduled__1", run_after=datetime(2026, 11, 21, tzinfo=UTC))
    with pytest.raises(AirflowFailException, match=re.escape(SQL_SENTENCE)):
        ReserveOperator(task_id="reserve", scenario=EXAMPLE).execute(context)
    assert not from_environment().runs.exists()


def test_a_machine_without_java_lists_its_scenarios_with_a_warning(
    refused_sql: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise RunError("the Spark job plan_suites ended with status 127: java: not found")

    monkeypatch.setattr(query_planning, "submit_locally", fail)
    assert main(["scenarios"]) == 0
    printed = " ".join(capsys.readouterr().err.split())
    assert "warning: the SQL of suites could not be checked before the run, because Spark did not work: " in printed
    assert "java: not found; `brokerproof doctor` examines Java" in printed


def test_a_broken_suite_is_named_before_a_run_is_judged_again(
    own_suites: Path, a_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    break_keyword(own_suites)
    assert main(["verify", a_run.directory]) == 3
    assert "mine.json: expectations.0.kwargs.mostly" in " ".join(capsys.readouterr().err.split())
    assert not Path(a_run.path("logs")).exists()


@pytest.mark.parametrize(("spoil", "sentence"), BROKEN)
def test_in_airflow_a_broken_suite_is_named_and_takes_no_scenario_down(
    own_suites: Path, spoil: Callable[[Path], None], sentence: str
) -> None:
    spoil(own_suites)
    bag = load()
    assert set(bag.dags) == {EXAMPLE, "campaign", "clean_up"}
    ((file, message),) = bag.import_errors.items()
    assert Path(file).name == "unusable_scenarios.py"
    assert sentence in message


def test_a_scenario_may_expect_that_a_users_suite_fails(
    own_suites: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expect = "expect: {{verdict: failed, failed_suites: [{name}]}}\n"
    (repository / "scenarios" / "control.yaml").write_text(SCENARIO + expect.format(name="mine"))
    assert "control" in list_scenarios(capsys)
    assert "suite `mine` fails" in (load().dags["control"].doc_md or "")
    (repository / "scenarios" / "control.yaml").write_text(SCENARIO + expect.format(name="mime"))
    assert main(["scenarios"]) == 3
    sentence = "control.yaml: expect.failed_suites.0: no suite is called `mime` (did you mean `mine`?)"
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_a_scenario_cannot_take_the_name_of_another_dag(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("campaign", "clean_up", "unusable_scenarios")
    for name in names:
        (repository / "scenarios" / f"{name}.yaml").write_text(SCENARIO)
    assert main(["scenarios"]) == 3
    printed = " ".join(capsys.readouterr().err.split())
    for name in names:
        assert f"{name}.yaml: a scenario cannot be called `{name}`, because a DAG is (rename the file)" in printed
    assert EXAMPLE in load().dags


def test_a_scenario_may_have_the_name_of_anything_in_the_dag_files(repository: Path) -> None:
    names = {"settings", "file", "wanted", "dags", "suppress", "load_scenario_dag"}
    for name in names:
        (repository / "scenarios" / f"{name}.yaml").write_text(SCENARIO)
    bag = load()
    assert bag.import_errors == {}
    assert names | {EXAMPLE} <= set(bag.dags)


def test_values_that_airflow_does_not_take_are_import_errors_and_take_no_other_down(repository: Path) -> None:
    long_tag = SCENARIO.replace("tags: [datacenter]", f"tags: [{'x' * 101}]")
    (repository / "scenarios" / "long_tag.yaml").write_text(long_tag)
    (repository / "scenarios" / "too_long.yaml").write_text(SCENARIO.replace("steady_s: 20", "steady_s: 1e+15"))
    bag = load()
    assert EXAMPLE in bag.dags
    ((_, message),) = bag.import_errors.items()
    for name, problem in (("long_tag", "tag cannot be longer than 100 characters"), ("too_long", "too large")):
        assert re.search(rf"{repository}/scenarios/{name}.yaml: makes no DAG: .*{problem}", message)
