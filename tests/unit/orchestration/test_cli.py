from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokerproof.cli import main
from brokerproof.commands import track_record_commands
from brokerproof.commands.output import ExitStatus, combine_exit_statuses
from brokerproof.errors import RunError
from brokerproof.results.history import open_history
from brokerproof.run.directory import Run
from brokerproof.run.records import StepProblem, write_record
from brokerproof.settings import from_environment
from builders import SCENARIOS, leave_judgement, make_run

from ..planted_system import PlantedSystem, plant_system
from .conftest import SCENARIO, judgement
from .stand_in_airflow import StandInAirflow


@pytest.fixture(autouse=True)
def airflow(monkeypatch: pytest.MonkeyPatch, scenarios: Path) -> Iterator[StandInAirflow]:
    """An Airflow that runs already; a run that it is given leaves nothing but what a test plants."""
    # A system that has nothing to do before the first run on a machine.
    plant_system(monkeypatch, PlantedSystem())
    (scenarios / "region_lost.yaml").write_text(f"{SCENARIO}overrides: {{system: planted}}\n")
    airflow = StandInAirflow(from_environment().airflow_home, lambda *_: None)
    yield airflow
    airflow.close()


def plant_run(airflow: StandInAirflow, *, judged: Any = None, failed: tuple[str, ...] = ()) -> None:
    """What the next run leaves: a judgement, and the problem of each task that failed."""

    def leave(scenario_name: str, run_id: str) -> None:
        settings = from_environment()
        if "reserve" in failed:
            return
        run = make_run(settings.runs / run_id, settings.scenario_file(scenario_name), run_id=run_id)
        if judged:
            leave_judgement(run, judged)
        for task in failed:
            write_record(run, StepProblem(step=task, problem=f"planted problem of {task}"))

    airflow.on_trigger, airflow.failed = leave, failed


def test_a_run_as_expected_exits_with_0(airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]) -> None:
    plant_run(airflow, judged=judgement())
    assert main(["run", "region_lost"]) == 0
    assert "passed, as expected" in capsys.readouterr().out


def test_a_run_not_as_expected_exits_with_1(airflow: StandInAirflow) -> None:
    plant_run(airflow, judged=judgement(completeness="failed"))
    assert main(["run", "region_lost"]) == 1


def test_an_unknown_run_exits_with_2_and_names_the_failed_task(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    plant_run(airflow, failed=("load",))
    assert main(["run", "region_lost"]) == 2
    assert "task load failed: planted problem of load" in capsys.readouterr().out


def test_a_users_suite_that_failed_is_no_task_that_could_not_work(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    plant_run(airflow, failed=("mine", "load"))
    main(["run", "region_lost"])
    printed = capsys.readouterr().out
    assert "task load failed" in printed
    assert "task mine failed" not in printed


def test_a_run_without_a_reservation_exits_with_2_and_the_reason(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    plant_run(airflow, failed=("reserve",))
    assert main(["run", "region_lost", "--json"]) == 2
    result = json.loads(capsys.readouterr().out)
    assert (result["verdict"], result["why"]) == ("unknown", "reserve failed: no slot is free")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "region_loss"], "did you mean `region_lost`?"),
        (["run", "region_lost", "--set", "workload.rate=0"], "workload.rate"),
        (["run", "region_lost", "--set", "workload.rat=1"], "did you mean `rate`?"),
        (["run", "region_lost", "--set", "workload.rate"], "PATH=VALUE"),
        (["run", "region_lost", "--set", "tags=["], "no YAML"),
        (["verify", "/nonexistent"], "holds no run"),
    ],
)
def test_unusable_input_exits_with_3_before_anything_starts(
    airflow: StandInAirflow, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 3
    assert said in " ".join(capsys.readouterr().err.split())
    assert airflow.requests == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "brokerproof: the following arguments are required: COMMAND (`brokerproof --help` "),
        (["histroy"], "brokerproof: `histroy` is no command (did you mean `history`?)"),
        (["airflow", "strat"], "brokerproof airflow: `strat` is no action (did you mean `start`?)"),
        (
            ["history", "region_lost", "--by", "setings"],
            "`setings` is no value of `--by` (did you mean `settings`?)",
        ),
        (["run", "region_lost", "--runtim", "a", "--st", "a=1"], "unknown option `--st` (did you mean `--set`?)"),
        (["history", "--limt", "5"], "brokerproof history: unknown option `--limt` (did you mean `--limit`?)"),
        (["history", "--limt=5"], "unknown option `--limt` (did you mean `--limit`?)"),
        (["doctor", "--quux"], "unknown option `--quux` (one of: --help, --json)"),
        (["--output", "a", "metrics"], "brokerproof: `--output` is before the command (write options after it"),
        (["doctor", "all"], "brokerproof doctor: unexpected argument `all` (`brokerproof doctor --help` "),
        (["explain", "run", "p"], "brokerproof explain: the following arguments are required: SEQ ("),
        (["history", "--compare", "a"], "brokerproof history: --compare: expected 2 arguments ("),
        (["history", "--limit", "0"], "brokerproof history: --limit: `0` is no number over 0 ("),
    ],
)
def test_a_wrong_option_command_or_argument_exits_with_3_and_one_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 3
    output = capsys.readouterr()
    assert said in output.err
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert main([*arguments, "--json"]) == 3
    output = capsys.readouterr()
    assert json.loads(output.out) == {"error": output.err.rstrip("\n")}


def test_help_still_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["history", "--help"])
    assert end.value.code == 0
    assert "--compare" in capsys.readouterr().out
    # A shortened option is no mistake.
    assert main(["scenarios", "--js"]) == 0


@pytest.mark.parametrize(
    "command", [["history"], ["history", "region_lost"], ["badge"], ["history", "--by", "version"]], ids=" ".join
)
@pytest.mark.parametrize(
    ("name", "near"), [("region_lots", "region_lost"), ("earlier_naem", "earlier_name")], ids=["a file", "a run"]
)
def test_a_scenario_without_a_file_and_without_a_run_is_refused(
    command: list[str], name: str, near: str, tmp_path: Path, scenarios: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (scenarios / "earlier_name.yaml").write_text(SCENARIO)
    with open_history() as history:
        history.record(make_run(tmp_path / "run", scenarios / "earlier_name.yaml", run_id="earlier_name-1"))
    (scenarios / "earlier_name.yaml").unlink()
    assert main([*command, name, "--json"]) == 3
    output = capsys.readouterr()
    assert json.loads(output.out)["error"] == (
        f"no scenario is called `{name}`, and none of its runs is recorded (did you mean `{near}`?)"
    )
    assert main([*command[:1], near]) == 0


def test_a_scenario_that_has_no_run_yet_gets_the_advice_to_run_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "region_lost"]) == 0
    assert "brokerproof run region_lost" in capsys.readouterr().out
    assert main(["badge", "region_lost"]) == 0
    assert "no run" in capsys.readouterr().out


def test_a_shipped_scenario_that_the_settings_leave_out_is_named_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "sync_nominal"]) == 3
    assert "it is a shipped one: let BROKERPROOF_SCENARIOS end with `:`" in capsys.readouterr().err


def test_rules_for_notifiers_that_cannot_be_used_exit_with_3_before_anything_starts(
    airflow: StandInAirflow, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BROKERPROOF_NOTIFY", '[{"class": "a.b", "kwargs": {"text": "{{ brokerproof.nothing }}"}}]')
    assert main(["run", "region_lost"]) == 3
    assert "`brokerproof.nothing` is not known" in " ".join(capsys.readouterr().err.split())
    assert airflow.requests == []


def test_overrides_reach_the_form(airflow: StandInAirflow) -> None:
    plant_run(airflow, judged=judgement())
    main(["run", "region_lost", "--set", "workload.rate=2000", "--set", "settle_s=60", "--runtime", "process"])
    assert airflow.triggered == [{"settings": {"workload.rate": 2000, "settle_s": 60, "runtime": "process"}}]


@pytest.mark.parametrize(
    ("options", "clusters"),
    [([], [{}, {}, {}]), (["--keep-cluster"], [{"cluster": "keep"}, {"cluster": "keep"}, {"cluster": "reuse"}])],
)
def test_several_scenarios_run_one_after_the_other_and_keep_their_cluster_if_asked(
    airflow: StandInAirflow,
    scenarios: Path,
    options: list[str],
    clusters: list[dict[str, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = scenarios / "region_lost.yaml"
    # Without its fault, which destroys a region, the scenario leaves a cluster that the next run can use.
    file.write_text(f"{SCENARIO.partition('faults:')[0]}overrides: {{system: planted}}\n")
    plant_run(airflow, judged=judgement())
    assert main(["run", "region_lost", "region_lost", "region_lost", "--json", *options]) == 0
    assert airflow.triggered == [{"settings": {}, **cluster} for cluster in clusters]
    results = json.loads(capsys.readouterr().out)
    assert [each["verdict"] for each in results] == ["passed"] * 3
    assert len({each["run_id"] for each in results}) == 3


@pytest.mark.parametrize(
    ("options", "cases"),
    [
        ([], ["one/near", "one/far", "two/near", "two/far"]),
        (["--keep-cluster"], ["one/near", "two/near", "one/far", "two/far"]),
    ],
)
def test_cases_that_can_share_a_cluster_run_in_a_row_if_it_is_to_be_kept(
    airflow: StandInAirflow, scenarios: Path, options: list[str], cases: list[str]
) -> None:
    far = "{overrides: {system: planted, clusters.mycluster.nodes.bookie-us-1.rack: rack-9}}"
    matrix = f"matrix: {{load: {{one: {{}}, two: {{}}}}, rack: {{near: {{}}, far: {far}}}}}"
    content = f"{SCENARIO.partition('faults:')[0]}overrides: {{system: planted}}\n{matrix}\n"
    (scenarios / "region_lost.yaml").write_text(content)
    plant_run(airflow, judged=judgement())
    main(["run", "region_lost", *options])
    assert [each["settings"]["case"] for each in airflow.triggered] == cases


def test_versions_and_repeats_run_in_turns_and_are_compared(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = [judgement(completeness=verdict) for verdict in ("failed", "passed") * 3]

    def leave(name: str, run_id: str) -> None:
        plant_run(airflow, judged=judged.pop(0))
        assert airflow.on_trigger is not None
        planted, airflow.on_trigger = airflow.on_trigger, leave
        planted(name, run_id)

    airflow.on_trigger = leave
    assert main(["run", "region_lost", "--versions", "4.0.6, 4.0.8", "--repeat", "3"]) == 1
    assert [each["settings"]["version"] for each in airflow.triggered] == ["4.0.6", "4.0.8"] * 3
    said = capsys.readouterr().out
    assert "region_lost 4.0.6: failed in 3 of 3 (29% to 100%)\n" in said
    assert "region_lost 4.0.8: failed in 0 of 3 (0% to 71%); differs, by chance in at most 0.032\n" in said
    assert "Barnard" in said


def plant_bug(scenarios: Path, verdict: str) -> None:
    """Have `region_lost` be about a known bug, with a recorded run of the given verdict."""
    file = scenarios / "region_lost.yaml"
    bug = "{issue: apache/pulsar#17, claim: Nothing is lost., hit: [4.0.6], mended: 4.0.7}"
    file.write_text(f"{SCENARIO}expect: {{verdict: failed}}\nbug: {bug}\n")
    run = make_run(from_environment().runs / "region_lost-1", file, run_id="region_lost-1")
    leave_judgement(run, judgement(completeness=verdict))
    record(run)


def record(run: Run) -> None:
    with open_history() as history:
        history.record(run)


def test_the_track_record_is_listed_without_a_run(scenarios: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant_bug(scenarios, "failed")
    assert main(["track-record", "17", "--list"]) == 0
    said = capsys.readouterr().out
    assert "apache/pulsar#17  4.0.6, mended in 4.0.7" in said
    assert "region_lost: failed in 1 of 1; reached in 1 of 1 tries" in said
    assert main(["track-record", "--list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["bug"]["issue"], row["as_expected"], row["newest"]) == ("apache/pulsar#17", 1, "region_lost-1")
    assert main(["track-record", "18", "--list"]) == 3
    assert "no scenario is about the issue `18`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("again", "status", "verified"),
    [
        ("failed", 0, ExitStatus.OK),
        ("passed", 1, ExitStatus.NOT_EXPECTED),
        ("failed", 2, ExitStatus.UNKNOWN),
    ],
)
def test_the_track_records_runs_are_judged_again_by_the_present_definitions(
    scenarios: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    again: str,
    status: int,
    verified: ExitStatus,
) -> None:
    plant_bug(scenarios, "failed")
    judged: list[str] = []

    def verify(options: Any, settings: Any) -> ExitStatus:
        judged.append(options.run)
        run = Run(options.run)
        leave_judgement(run, judgement(completeness=again))
        record(run)
        return verified

    monkeypatch.setattr(track_record_commands, "execute_verify", verify)
    assert main(["track-record", "--verify"]) == status
    assert judged == [str(from_environment().runs / "region_lost-1")]
    assert ("1 of 1 runs were not failed" in capsys.readouterr().out) == (again == "passed")


def test_a_run_of_the_track_record_that_cannot_be_judged_again_is_named(
    scenarios: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant_bug(scenarios, "failed")

    def refuse(options: Any, settings: Any) -> ExitStatus:
        raise RunError("its tables are gone")

    monkeypatch.setattr(track_record_commands, "execute_verify", refuse)
    assert main(["track-record", "--verify"]) == 2
    assert "its tables are gone" in capsys.readouterr().err


def test_one_run_has_no_rate(airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]) -> None:
    plant_run(airflow, judged=judgement())
    assert main(["run", "region_lost", "--versions", "4.0.8"]) == 0
    assert "Barnard" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--versions", "4.0.8,9.9.9"], "no pinned version is called `9.9.9`"),
        (["--versions", "4.0.8,,"], "is no list"),
        (["--repeat", "0"], "is no number over 0"),
    ],
)
def test_a_version_that_does_not_exist_is_found_before_the_first_run(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str], options: list[str], problem: str
) -> None:
    assert main(["run", "region_lost", *options]) == 3
    assert problem in " ".join(capsys.readouterr().err.split())
    assert airflow.requests == []


def test_a_mistake_in_the_last_of_several_scenarios_is_found_before_the_first_begins(
    airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "region_lost", "region_lots"]) == 3
    assert "did you mean `region_lost`?" in " ".join(capsys.readouterr().err.split())
    assert airflow.requests == []


@pytest.mark.parametrize(("statuses", "status"), [([0, 0], 0), ([0, 2], 2), ([2, 1, 0], 1), ([1, 130], 130)])
def test_several_runs_have_the_status_of_the_one_that_matters_most(statuses: list[int], status: int) -> None:
    assert combine_exit_statuses(map(ExitStatus, statuses)) == status


def test_only_json_is_on_stdout(airflow: StandInAirflow, capsys: pytest.CaptureFixture[str]) -> None:
    plant_run(airflow, judged=judgement())
    main(["run", "region_lost", "--json"])
    result = json.loads(capsys.readouterr().out)
    for key in ("run_id", "scenario", "topology", "runtime", "verdict", "expected", "counts", "recovery", "seconds"):
        assert key in result
    assert Path(result["run_dir"]).is_dir()


def test_scenarios_lists_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["scenarios"]
    assert (one["name"], one["expected"], one["phases_s"]) == ("region_lost", "passed", 115)


SHORT = SCENARIO.replace("impact_s: 75", "impact_s: 20")


def test_scenarios_shows_the_warnings_of_each(scenarios: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (scenarios / "short.yaml").write_text(SHORT)
    assert main(["scenarios", "--json"]) == 0
    warnings = {row["name"]: row["warnings"] for row in json.loads(capsys.readouterr().out)["scenarios"]}
    assert warnings["region_lost"] == []
    assert warnings["short"][0].keys() == {"field", "what", "remedy"}
    assert main(["scenarios"]) == 0
    marked = [line for line in capsys.readouterr().out.splitlines() if "⚠" in line]
    assert len(marked) == len(warnings["short"]) > 0


def test_run_warns_before_anything_starts_and_runs_all_the_same(
    airflow: StandInAirflow, scenarios: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant_run(airflow, judged=judgement())
    assert main(["run", "region_lost", "--json"]) == 0
    output = capsys.readouterr()
    assert "warning: " not in output.err
    keys = json.loads(output.out).keys()
    assert main(["run", "region_lost", "--json", "--set", "phases.impact_s=20"]) == 0
    output = capsys.readouterr()
    assert output.err.startswith("warning: bounds.rto_s.max: the load ends 40 s after `eu_destroyed`")
    assert json.loads(output.out).keys() == keys


def test_a_history_that_cannot_be_opened_stops_nothing(
    airflow: StandInAirflow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "history.db").write_text("no database")
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", f"sqlite:///{tmp_path}/history.db")
    assert main(["scenarios", "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["scenarios"]
    assert output.err.count("\n") == 1
    assert "no rate is compared with those that this machine held" in output.err
    plant_run(airflow, judged=judgement())
    assert main(["run", "region_lost"]) == 0


def test_looking_for_warnings_makes_no_history(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios"]) == 0
    assert not (from_environment().var / "history.db").exists()
    assert capsys.readouterr().err == ""


def test_scenarios_names_every_wrong_file_and_exits_with_3(scenarios: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (scenarios / "broken.yaml").write_text(SCENARIO.replace("size: 200", "sizes: 200"))
    (scenarios / "torn.yaml").write_text("title: [")
    assert main(["scenarios"]) == 3
    output = capsys.readouterr()
    assert "region_lost" in output.out
    assert "broken.yaml: workload.sizes" in output.err
    assert "torn.yaml: line 1" in output.err


def test_an_empty_history_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", f"sqlite:///{tmp_path}/history.db")
    assert main(["history"]) == 0


def test_a_home_without_topologies_exits_with_3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BROKERPROOF_HOME", str(tmp_path))
    assert main(["scenarios"]) == 3


def test_the_projects_own_scenarios_are_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_SCENARIOS", str(SCENARIOS))
    assert main(["scenarios"]) == 0


@pytest.fixture
def topologies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the user's topologies, searched before the shipped one."""
    directory = tmp_path / "topologies"
    directory.mkdir()
    (directory / "mine.yaml").write_text(
        "title: Mine\ndescription: One broker more.\nextends: sync_active_passive_managed\n"
        "clusters: {mycluster: {nodes: {broker-us-3: {role: broker, region: us, standby: true}}}}\n"
        "settings: {broker: {a: 1}}\nlinks: [{between: [eu, us], delay_ms: 5}]\n"
    )
    monkeypatch.setenv("BROKERPROOF_TOPOLOGIES", f"{directory}:")
    return directory


def test_topologies_lists_own_and_shipped_ones(topologies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topologies", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["topologies"]}
    assert rows["mine"] == {
        "name": "mine",
        "title": "Mine",
        "description": "One broker more.",
        "system": "pulsar",
        "extends": ["sync_active_passive_managed", "sync_active_passive"],
        "clusters": ["mycluster"],
        "regions": ["witness", "eu", "us"],
        "nodes": {"metadata": 1, "bookie": 4, "broker": 5},
        "policies": {"namespaces": ["mytenant/eu", "mytenant/us"]},
        "scenarios": [],
    }
    assert rows["sync_active_passive"]["scenarios"] == ["region_lost"]
    assert main(["topologies"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for text in (
        "mine 1 metadata, 4 bookie, 5 broker Mine (extends sync_active_passive_managed, sync_active_passive) clusters: "
        "mycluster; regions: witness, eu, us; namespaces: mytenant/eu, mytenant/us scenarios: none",
        "scenarios: region_lost",
    ):
        assert text in printed


def test_topologies_shows_one_as_it_is_after_extends(
    topologies: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["topologies", "mine", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)["content"]
    assert content["clusters"]["mycluster"]["nodes"]["bookie-eu-1"]["restart"] == {"after_s": 10}
    assert content["clusters"]["mycluster"]["namespaces"]["mytenant/eu"]["isolation"]["primary"] == "eu"
    assert (content["links"][0]["delay_ms"], content["settings"]) == (5, {"broker": {"a": 1}})
    assert main(["topologies", "mine"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["mycluster", "broker-us-3", "broker", "us", "rack-1", "standby,", "restarts", "after", "10", "s"] in lines
    isolation = "isolation: {primary: eu, secondary: us, min_limit: 1, usage_threshold: 100}"
    link = "between: [eu, us]"
    for text in ("mytenant/eu:", isolation, link, "broker: {a: 1}"):
        assert text.split() in lines


def test_topologies_names_every_wrong_file_and_exits_with_3(
    topologies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (topologies / "broken.yaml").write_text("title: a\ndescription: b\nextends: sync_active_pasive\n")
    (topologies / "active_active.yaml").write_text("title: a\n")
    assert main(["topologies", "--json"]) == 3
    output = capsys.readouterr()
    printed = json.loads(output.out)
    assert "mine" in [row["name"] for row in printed["topologies"]]
    assert len(printed["errors"]) == 2
    assert "broken.yaml: extends: no file" in printed["errors"][-1]
    assert "has the same name" in printed["errors"][0]
    assert main(["topologies", "broken"]) == 3
    assert "did you mean `sync_active_passive`?" in capsys.readouterr().err
    assert main(["topologies", "mien"]) == 3
    assert "no topology is called `mien` (did you mean `mine`?)" in capsys.readouterr().err
