from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from brokerproof.checks import load_scenario
from brokerproof.cli import main
from brokerproof.commands import run_command
from brokerproof.orchestration.airflow_client import TaskState
from brokerproof.run.directory import Run
from brokerproof.run.records import StepProblem, write_record
from brokerproof.settings import from_environment

from .conftest import PROJECT, SCENARIO, judgement, leave_judgement


class FakeAirflow:
    """An embedded Airflow that always runs, and counts its starts."""

    starts = 0

    def __init__(self, *_: Any) -> None: ...

    def start(self) -> str:
        FakeAirflow.starts += 1
        return "http://127.0.0.1:1"

    def read_password(self) -> str:
        return "secret"


class FakeClient:
    """An Airflow whose runs end at once; the tests plant what they leave."""

    judged: Any = None
    failed: tuple[str, ...] = ()
    triggered: dict[str, Any]

    def __init__(self, *_: Any) -> None: ...

    def wait_for_dag(self, _: str) -> None: ...

    def trigger_run(self, dag_id: str, run_id: str, params: dict[str, Any]) -> None:
        settings = from_environment()
        FakeClient.triggered = params
        if "reserve" in self.failed:
            return
        scenario, topology = load_scenario(settings.scenario_file(dag_id), settings.topologies)
        run = Run.create(str(settings.runs / run_id), run_id=run_id, scenario=scenario, topology=topology)
        if self.judged:
            leave_judgement(run, self.judged)
        for task in self.failed:
            write_record(run, StepProblem(step=task, problem=f"planted problem of {task}"))

    def read_state(self, *_: str) -> str:
        return "failed"

    def list_tasks(self, *_: str) -> list[TaskState]:
        return [TaskState(task_id=task, state="failed") for task in (*self.failed, "verdict")]

    def read_xcom(self, *_: str) -> str:
        return "no slot is free"


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch, scenarios: Path) -> None:
    monkeypatch.setattr(run_command, "EmbeddedAirflow", FakeAirflow)
    monkeypatch.setattr(run_command, "AirflowClient", FakeClient)
    monkeypatch.setattr(FakeAirflow, "starts", 0)
    monkeypatch.setattr(run_command, "prepare", lambda *_: None)


def planted(monkeypatch: pytest.MonkeyPatch, *, judged: Any = None, failed: tuple[str, ...] = ()) -> None:
    monkeypatch.setattr(FakeClient, "judged", judged)
    monkeypatch.setattr(FakeClient, "failed", failed)


def test_a_run_as_expected_exits_with_0(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    planted(monkeypatch, judged=judgement())
    assert main(["run", "region_lost"]) == 0
    assert "passed, as expected" in capsys.readouterr().out


def test_a_run_not_as_expected_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, judged=judgement(completeness="failed"))
    assert main(["run", "region_lost"]) == 1


def test_an_unknown_run_exits_with_2_and_names_the_failed_task(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch, failed=("load",))
    assert main(["run", "region_lost"]) == 2
    assert "task load failed: planted problem of load" in capsys.readouterr().out


def test_a_run_without_a_reservation_exits_with_2_and_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch, failed=("reserve",))
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
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 3
    assert said in " ".join(capsys.readouterr().err.split())
    assert FakeAirflow.starts == 0


def test_overrides_reach_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, judged=judgement())
    main(["run", "region_lost", "--set", "workload.rate=2000", "--set", "settle_s=60", "--runtime", "process"])
    assert FakeClient.triggered == {"rate": 2000, "runtime": "process", "settings": {"settle_s": 60}}


def test_only_json_is_on_stdout(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    planted(monkeypatch, judged=judgement())
    main(["run", "region_lost", "--json"])
    result = json.loads(capsys.readouterr().out)
    for key in ("run_id", "scenario", "topology", "runtime", "verdict", "expected", "counts", "recovery", "seconds"):
        assert key in result
    assert Path(result["run_dir"]).is_dir()


def test_scenarios_lists_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["scenarios"]
    assert (one["name"], one["expected"], one["phases_s"]) == ("region_lost", "passed", 115)


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
    monkeypatch.setenv("BROKERPROOF_SCENARIOS", str(PROJECT / "dags" / "scenarios"))
    assert main(["scenarios"]) == 0
