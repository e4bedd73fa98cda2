from __future__ import annotations

import getpass
import json
import logging
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
    AirflowTaskTerminated,
    AirflowTaskTimeout,
)
from brokerproof import lifecycle
from brokerproof.checks import load_scenario
from brokerproof.errors import NodeError
from brokerproof.experiment.states import STATES
from brokerproof.machine import slots
from brokerproof.orchestration.dag_building.campaign import CampaignVerdictOperator, PlanOperator
from brokerproof.orchestration.dag_building.operators import (
    LifecycleOperator,
    ReserveOperator,
    SuiteOperator,
    VerdictOperator,
)
from brokerproof.results.history import open_history
from brokerproof.run.directory import Run
from brokerproof.run.records import EarlyEnd, StepProblem, StepSeconds, read_record, write_record
from brokerproof.settings import from_environment
from builders import dump_judgement, leave_judgement, make_judgement, make_measurement, make_run

from ...planted_system import ON_PLANTED, PlantedSystem, plant_system
from ..conftest import FakeTaskInstance, judgement


class Nodes:
    """The provisioning of clusters without a node, which raises what a test plants."""

    def __init__(self, error: BaseException | None = None) -> None:
        self._error = error

    def specs(self) -> dict[str, Any]:
        if self._error is not None:
            raise self._error
        return {}

    def start_order(self) -> list[list[str]]:
        return []


class Step(LifecycleOperator):
    """A step that does not end the test's own children."""

    work_ended = False

    def end_work(self) -> None:
        self.work_ended = True


def provision(run: Run) -> Step:
    return Step(task_id="provision", run_directory=run.directory, execution_timeout=timedelta(seconds=7))


@pytest.fixture
def a_run(tmp_path: Path, scenarios: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that was reserved, whose system a test plants."""
    plant_system(monkeypatch, PlantedSystem(nodes=Nodes()))
    return make_run(tmp_path / "run", scenarios / "region_lost.yaml", ON_PLANTED, run_id="region_lost-1")


def plant_error(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Have provisioning fail with it."""
    plant_system(monkeypatch, PlantedSystem(nodes=Nodes(error)))


def problem_of(run: Run) -> str:
    """The problem that the step `provision` left."""
    record = read_record(run, StepProblem, "provision")
    return "" if record is None else record.problem


class TestAStep:
    def test_leaves_its_wall_time(self, a_run: Run, context: Any) -> None:
        provision(a_run).execute(context)
        seconds = read_record(a_run, StepSeconds, "provision")
        assert seconds is not None
        assert seconds.started_at <= seconds.finished_at
        assert read_record(a_run, StepProblem, "provision") is None

    def test_that_fails_leaves_its_sentence(self, a_run: Run, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        plant_error(monkeypatch, NodeError("node broker-eu-1 died"))
        with pytest.raises(AirflowFailException, match=r"^node broker-eu-1 died$"):
            provision(a_run).execute(context)
        assert problem_of(a_run) == "node broker-eu-1 died"
        assert read_record(a_run, StepSeconds, "provision") is not None
        assert context["ti"].pushed == {"problem": "node broker-eu-1 died"}

    def test_that_takes_too_long_names_its_limit(
        self, a_run: Run, context: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plant_error(monkeypatch, AirflowTaskTimeout("Timeout, PID: 1"))
        with pytest.raises(AirflowFailException, match="took longer than its limit of 7 s"):
            provision(a_run).execute(context)
        assert "limit of 7 s" in problem_of(a_run)

    def test_that_takes_too_long_ends_its_work(self, a_run: Run, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        plant_error(monkeypatch, AirflowTaskTimeout("Timeout, PID: 1"))
        step = provision(a_run)
        with pytest.raises(AirflowFailException):
            step.execute(context)
        assert step.work_ended

    def test_that_airflow_kills_raises(self, a_run: Run) -> None:
        step = provision(a_run)
        with pytest.raises(AirflowTaskTerminated, match="ended from outside"):
            step.on_kill()
        assert step.work_ended

    def test_that_is_killed_leaves_its_problem(self, a_run: Run, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        plant_error(monkeypatch, AirflowTaskTerminated("provision was ended from outside"))
        with pytest.raises(AirflowTaskTerminated):
            provision(a_run).execute(context)
        assert "ended from outside" in problem_of(a_run)

    def test_that_works_at_the_second_try_removes_its_problem(
        self, a_run: Run, context: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_record(a_run, StepProblem(step="provision", problem="planted"))
        provision(a_run).execute(context)
        assert read_record(a_run, StepProblem, "provision") is None

    def test_has_a_time_limit_from_the_runs_own_scenario(self, a_run: Run, context: Any) -> None:
        task = LifecycleOperator(task_id="break_it", run_directory=a_run.directory)
        task.pre_execute(context)
        assert task.execution_timeout.total_seconds() > a_run.scenario.phases.total_s

    def test_breaks_nothing_without_clusters_and_ends_the_clients_that_wait(self, a_run: Run, context: Any) -> None:
        task = LifecycleOperator(task_id="break_it", run_directory=a_run.directory)
        with pytest.raises(AirflowSkipException, match="were not configured"):
            task.execute(context)
        early = read_record(a_run, EarlyEnd)
        assert early is not None
        assert early.why == "the clusters were not configured"

    def test_without_a_run_fails_with_a_sentence(self, context: Any) -> None:
        with pytest.raises(AirflowFailException, match="reserve has not left"):
            LifecycleOperator(task_id="provision", run_directory="None").execute(context)


@pytest.fixture
def reserve(scenarios: Path) -> Iterator[Callable[..., Run]]:
    """Executes the step `reserve` with parameters; what it made is released in the end."""
    made: list[Run] = []

    def execute(context: dict[str, Any]) -> Run:
        made.append(Run(ReserveOperator(task_id="reserve", scenario="region_lost").execute(context)))
        return made[-1]

    yield execute
    for run in made:
        lifecycle.release(run)


DRAW = "draw: {rest_s: [1, 2], moves: {killed: {kind: kill, targets: {role: broker}, lasts_s: [1, 2]}}}\n"


class TestReserve:
    def context(self, **params: Any) -> dict[str, Any]:
        run = SimpleNamespace(
            run_id="manual__2026-11-21T01:34:39.123+00:00",
            run_after=datetime(2026, 11, 21, tzinfo=UTC),
            triggering_user_name="alice",
        )
        return {"ti": FakeTaskInstance(), "dag_run": run, "params": params}

    def test_draws_faults_from_a_seed_that_no_earlier_run_had(
        self, reserve: Callable[..., Run], scenarios: Path
    ) -> None:
        file = scenarios / "region_lost.yaml"
        file.write_text(file.read_text().partition("faults:")[0] + DRAW)
        run = reserve(self.context())
        assert run.scenario.draw is not None
        assert run.facts.settings == {"draw.seed": run.scenario.draw.seed}
        assert {fault.kind for fault in run.scenario.faults} == {"kill"}
        leave_judgement(run, judgement())
        with open_history() as history:
            history.record(run)
        again = self.context()
        again["ti"].try_number = 2
        later = reserve(again)
        assert later.scenario.draw is not None
        assert (later.scenario.draw.seed or 0) > (run.scenario.draw.seed or 0)
        # The seed gives the same faults again.
        same = load_scenario(file, from_environment().topologies, run.facts.settings)[0]
        assert same.faults == run.scenario.faults

    def test_changes_the_values_of_the_settings(self, reserve: Callable[..., Run]) -> None:
        settings = {"workload.rate": 2000, "phases.steady_s": 5}
        run = reserve(self.context(settings=settings))
        assert run.run_id == "region_lost-manual__2026-11-21T0134391230000"
        assert run.facts.settings == settings
        assert (run.scenario.workload.rate, run.scenario.phases.steady_s) == (2000, 5)
        assert run.facts.triggered_at == 1795219200_000_000

    @pytest.mark.parametrize(
        ("user", "service", "triggered_by"),
        [
            ("alice", "", "alice"),
            (None, "", "schedule"),
            # The one user of an embedded Airflow is `admin`, which says nothing about the person.
            ("admin", "/home:airflow", getpass.getuser()),
            (None, "/home:airflow", "schedule"),
        ],
        ids=["of a team", "by its schedule", "embedded", "embedded, by its schedule"],
    )
    def test_knows_who_triggered_the_run(
        self,
        reserve: Callable[..., Run],
        monkeypatch: pytest.MonkeyPatch,
        user: str | None,
        service: str,
        triggered_by: str,
    ) -> None:
        monkeypatch.setenv("BROKERPROOF_SERVICE", service)
        context = self.context()
        context["dag_run"].triggering_user_name = user
        assert reserve(context).facts.triggered_by == triggered_by

    @pytest.mark.parametrize(
        ("environment", "report"),
        [
            ({}, None),
            (
                {"AIRFLOW__API__BASE_URL": "https://airflow.example.com/"},
                "https://airflow.example.com/brokerproof/runs/",
            ),
            # An embedded Airflow has another port when somebody follows the link.
            ({"AIRFLOW__API__BASE_URL": "http://127.0.0.1:41001", "BROKERPROOF_SERVICE": "/home:airflow"}, None),
        ],
        ids=["without an address", "of a team", "embedded"],
    )
    def test_knows_the_page_of_the_run_where_people_reach_it(
        self,
        reserve: Callable[..., Run],
        monkeypatch: pytest.MonkeyPatch,
        environment: dict[str, str],
        report: str | None,
    ) -> None:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        run = reserve(self.context())
        assert run.facts.report == (report and f"{report}{run.run_id}")

    def test_refuses_a_name_that_two_directories_have_before_anything_is_made(
        self, reserve: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "also").mkdir()
        (tmp_path / "also" / "region_lost.yaml").touch()
        monkeypatch.setenv("BROKERPROOF_SCENARIOS", f"{tmp_path}/scenarios:{tmp_path}/also")
        with pytest.raises(AirflowFailException, match=r"scenarios/region_lost\.yaml: has the same name as "):
            reserve(self.context())
        assert not from_environment().runs.exists()

    def test_refuses_suites_that_cannot_be_found_before_anything_is_made(
        self, reserve: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("BROKERPROOF_EXPECTATIONS", str(tmp_path))
        with pytest.raises(
            AirflowFailException, match=r"BROKERPROOF_EXPECTATIONS: no directory has completeness\.json"
        ):
            reserve(self.context())
        assert not from_environment().runs.exists()

    def test_refuses_a_broken_suite_of_a_user_before_anything_is_made(
        self, reserve: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "mine.json").write_text('{"name": "mine", "expectations": []}')
        monkeypatch.setenv("BROKERPROOF_EXPECTATIONS", f"{tmp_path}/mine:")
        with pytest.raises(AirflowFailException, match=r"mine\.json: expectations: holds no expectation"):
            reserve(self.context())
        assert not from_environment().runs.exists()

    def test_is_rescheduled_while_all_slots_are_held(
        self, reserve: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("BROKERPROOF_MAX_CLUSTERS", "1")
        with slots.take(timeout_s=0), pytest.raises(AirflowRescheduleException):
            reserve(self.context())
        assert not list(from_environment().runs.glob("*"))
        run = reserve(self.context())
        assert slots.list_assigned_runs() == [run.directory]

    def test_accepts_a_form_that_was_emptied(self, reserve: Callable[..., Run]) -> None:
        assert reserve(self.context(settings=None)).facts.settings == {}

    @pytest.mark.parametrize(
        ("params", "sentence"),
        [
            ({"workload.rate": 5}, r'^workload\.rate: is no parameter \(write it as {"settings": {"PATH": VALUE}}\)$'),
            ({"settings": {"workload.rat": 5}}, r"workload\.rat: unknown field `rat` \(did you mean `rate`\?\)"),
            ({"settings": {"expect.failed_suites": ["orderin"]}}, r"did you mean `ordering`\?"),
        ],
    )
    def test_refuses_unusable_settings_before_anything_is_made(
        self, reserve: Callable[..., Run], params: dict[str, Any], sentence: str
    ) -> None:
        with pytest.raises(AirflowFailException, match=sentence):
            reserve(self.context(**params))
        assert not from_environment().runs.exists()

    def test_leaves_its_sentence_if_the_scenario_is_unusable(self, reserve: Callable[..., Run]) -> None:
        context = self.context(settings={"workload.keys": 1})
        with pytest.raises(AirflowFailException, match="1 keys are fewer than 2 producers"):
            reserve(context)
        assert "1 keys are fewer" in context["ti"].pushed["problem"]

    def test_passes_an_error_of_the_machine_on(self, reserve: Callable[..., Run], tmp_path: Path) -> None:
        # A file is in the way of the directory of all runs.
        from_environment().runs.parent.mkdir(parents=True)
        from_environment().runs.write_text("")
        with pytest.raises(AirflowFailException, match="cannot be written"):
            reserve(self.context())


class TestASuite:
    def suite(self, run: Run) -> SuiteOperator:
        return SuiteOperator(task_id="ordering", run_directory=run.directory)

    def test_that_passed_succeeds(self, a_run: Run, context: Any) -> None:
        leave_judgement(a_run, judgement())
        assert self.suite(a_run).execute(context) == "passed: why of ordering"

    @pytest.mark.parametrize("verdict", ["failed", "unknown", "no_data"])
    def test_that_did_not_pass_fails_with_one_sentence(self, a_run: Run, context: Any, verdict: str) -> None:
        leave_judgement(a_run, judgement(ordering=verdict))
        with pytest.raises(AirflowFailException, match=f"^{verdict}: why of ordering$"):
            self.suite(a_run).execute(context)

    def test_that_does_not_apply_is_skipped(self, a_run: Run, context: Any) -> None:
        leave_judgement(a_run, judgement(ordering="not_applicable"))
        with pytest.raises(AirflowSkipException, match=r"^not_applicable: why of ordering$"):
            self.suite(a_run).execute(context)

    def test_that_was_not_evaluated_fails(self, a_run: Run, context: Any) -> None:
        content = judgement()
        content["suites"]["ordering"]["evaluated"] = 1
        leave_judgement(a_run, content)
        with pytest.raises(AirflowFailException, match="1 of its 2 expectations"):
            self.suite(a_run).execute(context)

    def test_of_a_user_is_a_task_like_the_five(self, a_run: Run, context: Any) -> None:
        content = judgement()
        content["suites"]["mine"] = content["suites"]["ordering"] | {"verdict": "failed", "why": "2 rows are."}
        leave_judgement(a_run, content)
        with pytest.raises(AirflowFailException, match=r"^failed: 2 rows are\.$"):
            SuiteOperator(task_id="mine", run_directory=a_run.directory).execute(context)

    def test_that_is_missing_fails(self, a_run: Run, context: Any) -> None:
        content = judgement()
        del content["suites"]["ordering"]
        leave_judgement(a_run, content)
        with pytest.raises(AirflowFailException, match="was not judged"):
            self.suite(a_run).execute(context)

    def test_without_a_judgement_fails(self, a_run: Run, context: Any) -> None:
        with pytest.raises(AirflowFailException, match="nothing was judged"):
            self.suite(a_run).execute(context)


class TestTheVerdict:
    def verdict(self, run: Run) -> VerdictOperator:
        return VerdictOperator(task_id="verdict", run_directory=run.directory)

    def test_succeeds_for_the_expected_outcome(self, a_run: Run, context: Any) -> None:
        leave_judgement(a_run, judgement())
        assert self.verdict(a_run).execute(context).startswith("passed, as expected")

    def test_fails_for_another_outcome(self, a_run: Run, context: Any) -> None:
        leave_judgement(a_run, judgement(completeness="failed"))
        with pytest.raises(AirflowFailException, match=r"^failed instead of passed"):
            self.verdict(a_run).execute(context)

    def test_fails_if_a_step_could_not_work(self, a_run: Run, context: Any) -> None:
        leave_judgement(a_run, judgement())
        write_record(a_run, StepProblem(step="load", problem="the client was refused"))
        with pytest.raises(AirflowFailException, match="step load failed: the client was refused"):
            self.verdict(a_run).execute(context)


def test_a_campaign_logs_a_line_for_each_run_and_fails_if_one_is_not_as_expected(
    scenarios: Path, context: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_run(from_environment().runs / "region_lost-1", scenarios / "region_lost.yaml", run_id="region_lost-1")
    leave_judgement(run, judgement())
    planned = [{"trigger_dag_id": "region_lost", "trigger_run_id": f"region_lost-{number}"} for number in (1, 2)]
    verdict = CampaignVerdictOperator(task_id="verdict", planned=planned)
    with (
        caplog.at_level(logging.INFO),
        pytest.raises(AirflowFailException, match=r"^1 of 2 .*region_lost-2/run\.json is missing"),
    ):
        verdict.execute(context)
    heading, passed, unknown = (line.split() for line in caplog.messages)
    assert heading[:3] == ["scenario", "verdict", "expected"]
    assert passed[:4] == ["region_lost", "passed", "passed", "yes"]
    assert unknown[:5] == ["region_lost", "unknown", "–", "NO", "–"]


@pytest.mark.parametrize(("reached", "why"), [(1, ""), (0, "shows nothing about sent_again: no run reached this")])
def test_a_campaign_in_which_no_run_reached_a_state_fails(
    scenarios: Path, context: Any, reached: float, why: str
) -> None:
    file = scenarios / "region_lost.yaml"
    file.write_text(file.read_text().partition("faults:")[0] + DRAW)
    planned = []
    for seed in range(2):
        run_id = f"region_lost-{seed}"
        run = make_run(from_environment().runs / run_id, file, {"draw.seed": seed}, run_id=run_id)
        states = [
            make_measurement(run_id, "reached", reached if state == "sent_again" else seed, subject=state)
            for state in STATES
        ]
        leave_judgement(run, dump_judgement(make_judgement(measurements=states)))
        with open_history() as history:
            history.record(run)
        planned.append({"trigger_dag_id": "region_lost", "trigger_run_id": run_id})
    verdict = CampaignVerdictOperator(task_id="verdict", planned=planned)
    if not why:
        assert verdict.execute(context) == "2 of 2 runs have the expected outcome"
        return
    with pytest.raises(AirflowFailException, match=f"region_lost: the search {why}"):
        verdict.execute(context)


@pytest.mark.parametrize(
    ("keep", "choices"),
    [
        (False, [("destroying", "new"), ("broken", "new"), ("region_lost", "new"), ("calm", "new")]),
        (True, [("calm", "keep"), ("destroying", "reuse"), ("region_lost", "reuse"), ("broken", "new")]),
    ],
)
def test_a_campaign_that_keeps_clusters_begins_with_the_scenarios_that_do_not_destroy_them(
    scenarios: Path, keep: bool, choices: list[tuple[str, str]]
) -> None:
    content = (scenarios / "region_lost.yaml").read_text()
    (scenarios / "destroying.yaml").write_text(content)
    (scenarios / "calm.yaml").write_text(content[: content.index("faults:")])
    (scenarios / "broken.yaml").write_text("title: [")
    chosen = ["destroying", "broken", "region_lost", "calm"]
    planned = plan_campaign(scenarios=chosen, keep_clusters=keep)
    assert [(each["trigger_dag_id"], each["conf"]["cluster"]) for each in planned] == choices


def plan_campaign(**params: Any) -> list[dict[str, Any]]:
    started = SimpleNamespace(start_date=datetime(2026, 11, 21, tzinfo=UTC))
    context: Any = {"ti": started, "params": {"keep_clusters": False, "versions": [], "repeat": 1} | params}
    return PlanOperator(task_id="plan").execute(context)


@pytest.mark.parametrize("keep", [False, True])
def test_a_campaign_runs_each_version_in_turns_as_often_as_it_is_asked_to(scenarios: Path, keep: bool) -> None:
    file = scenarios / "region_lost.yaml"
    file.write_text(file.read_text().partition("faults:")[0])
    planned = plan_campaign(scenarios=["region_lost"], versions=["4.0.6", "4.0.8"], repeat=2, keep_clusters=keep)
    versions = [each["conf"]["settings"]["version"] for each in planned]
    # With kept clusters, those of one version run in a row.
    assert versions == (["4.0.6", "4.0.6", "4.0.8", "4.0.8"] if keep else ["4.0.6", "4.0.8"] * 2)
    suffixes = ["campaign", "campaign_2", "campaign_3", "campaign_4"]
    assert [each["trigger_run_id"] for each in planned] == [
        f"region_lost-20261121T000000Z-{suffix}" for suffix in suffixes
    ]


def test_a_tasks_children_are_ended_and_its_nodes_are_not() -> None:
    """A node leads a session of its own; every other process that a task started ends with the task."""
    # In a process of its own, which has no other children.
    task = """
import subprocess, sys
from brokerproof.orchestration.dag_building.step import end_children
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
child, node = subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)
end_children()
print(child.poll() is not None, node.poll() is None)
node.kill()
"""
    output = subprocess.run([sys.executable, "-c", task], capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "True True"


@pytest.mark.parametrize(("master", "runs_here"), [("local[8]", True), ("spark://m:7077", False)])
def test_a_job_is_submitted_to_a_cluster_and_runs_without_that_here(
    master: str, runs_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from brokerproof.orchestration.dag_building import spark_operator
    from brokerproof.spark.submission import LastException

    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": master}))
    hook = spark_operator._WatchingHook(
        settings=(settings := from_environment()),
        last=LastException(),
        conn_id="spark_default",
        conf={"a": "b c"},
        application_args=["run"],
        env_vars={"HOME": "/"},
    )
    command = hook._build_spark_submit_command(str(settings.spark_jobs / "load.py"))
    environment, options = hook._env or {}, ["--master", master, "--conf", "a=b c", "--name", "default-name"]
    if runs_here:
        assert command == [
            sys.executable,
            str(settings.spark_jobs / "run_locally.py"),
            str(settings.spark_jobs / "load.py"),
            "run",
        ]
        assert shlex.split(environment["PYSPARK_SUBMIT_ARGS"]) == [*options, "pyspark-shell"]
    else:
        assert command == ["spark-submit", *options, str(settings.spark_jobs / "load.py"), "run"]
        assert "PYSPARK_SUBMIT_ARGS" not in environment
    assert environment["HOME"] == "/"


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("137", "the driver of Spark was ended by signal 9"),
        ("-15", "the driver of Spark was ended by signal 15"),
        ("1", "the driver of Spark ended with status 1 and named no exception"),
    ],
)
def test_a_driver_that_named_no_exception_is_told_in_a_sentence(code: str, sentence: str) -> None:
    from brokerproof.orchestration.dag_building.spark_operator import describe_end

    assert describe_end(f"Cannot execute: spark-submit --conf a=b jobs/load.py. Error code is: {code}.") == sentence
    assert describe_end("no connection") == "no connection"
