from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
    AirflowTaskTerminated,
    AirflowTaskTimeout,
)
from brokerproof.checks import load_scenario
from brokerproof.errors import MachineError, NodeError
from brokerproof.machine import slots
from brokerproof.orchestration.lifecycle_operator import LIFECYCLE, LifecycleOperator
from brokerproof.orchestration.reserve_operator import ReserveOperator
from brokerproof.orchestration.step import end_children
from brokerproof.orchestration.suite_operator import SuiteOperator
from brokerproof.orchestration.verdict_operator import VerdictOperator
from brokerproof.run.directory import Run
from brokerproof.run.records import StepProblem, StepSeconds, read_record, write_record

from .conftest import FakeTaskInstance, judgement, leave_judgement


class FakeLifecycle:
    """Stands in for brokerproof.lifecycle."""

    def __init__(self, provision: BaseException | None = None) -> None:
        self._provision = provision
        self.reserved: dict[str, Any] = {}

    def provision(self, run: Run) -> None:
        if self._provision:
            raise self._provision

    def reserve(self, file: Path, **asked: Any) -> Run:
        self.reserved = {"file": file, **asked}
        scenario, topology = load_scenario(file, asked["topologies"], asked["overrides"])
        return Run.create(asked["directory"], run_id=asked["run_id"], scenario=scenario, topology=topology)


def use(monkeypatch: pytest.MonkeyPatch, lifecycle: FakeLifecycle) -> None:
    monkeypatch.setitem(sys.modules, LIFECYCLE, lifecycle)  # type: ignore[arg-type]


def provision(run: Run) -> LifecycleOperator:
    return LifecycleOperator(task_id="provision", run_directory=run.directory, execution_timeout=timedelta(seconds=7))


def problem_of(run: Run) -> str:
    """The problem that the step `provision` left."""
    record = read_record(run, StepProblem, "provision")
    return "" if record is None else record.problem


class TestAStep:
    def test_leaves_its_wall_time(self, a_run: Run, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        use(monkeypatch, FakeLifecycle())
        provision(a_run).execute(context)
        seconds = read_record(a_run, StepSeconds, "provision")
        assert seconds is not None
        assert seconds.started_at <= seconds.finished_at
        assert read_record(a_run, StepProblem, "provision") is None

    def test_that_fails_leaves_its_sentence(self, a_run: Run, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        use(monkeypatch, FakeLifecycle(NodeError("node broker-eu-1 died")))
        with pytest.raises(AirflowFailException, match=r"^node broker-eu-1 died$"):
            provision(a_run).execute(context)
        assert problem_of(a_run) == "node broker-eu-1 died"
        assert read_record(a_run, StepSeconds, "provision") is not None
        assert context["ti"].pushed == {"problem": "node broker-eu-1 died"}

    def test_that_takes_too_long_names_its_limit(
        self, a_run: Run, context: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use(monkeypatch, FakeLifecycle(AirflowTaskTimeout("Timeout, PID: 1")))
        with pytest.raises(AirflowFailException, match="took longer than its limit of 7 s"):
            provision(a_run).execute(context)
        assert "limit of 7 s" in problem_of(a_run)

    def test_that_takes_too_long_leaves_no_child(
        self, a_run: Run, context: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake = FakeLifecycle(AirflowTaskTimeout("Timeout, PID: 1"))
        use(monkeypatch, fake)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        with pytest.raises(AirflowFailException):
            provision(a_run).execute(context)
        assert not psutil.pid_exists(child.pid)

    def test_that_airflow_kills_raises(self, a_run: Run) -> None:
        with pytest.raises(AirflowTaskTerminated, match="ended from outside"):
            provision(a_run).on_kill()

    def test_that_is_killed_leaves_its_problem(self, a_run: Run, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        use(monkeypatch, FakeLifecycle(AirflowTaskTerminated("provision was ended from outside")))
        with pytest.raises(AirflowTaskTerminated):
            provision(a_run).execute(context)
        assert "ended from outside" in problem_of(a_run)

    def test_that_works_at_the_second_try_removes_its_problem(
        self, a_run: Run, context: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_record(a_run, StepProblem(step="provision", problem="planted"))
        use(monkeypatch, FakeLifecycle())
        provision(a_run).execute(context)
        assert read_record(a_run, StepProblem, "provision") is None

    def test_has_a_time_limit_from_the_runs_own_scenario(self, a_run: Run, context: Any) -> None:
        task = LifecycleOperator(task_id="break_it", run_directory=a_run.directory)
        task.pre_execute(context)
        assert task.execution_timeout.total_seconds() > a_run.scenario.phases.total_s

    def test_without_a_run_fails_with_a_sentence(self, context: Any) -> None:
        with pytest.raises(AirflowFailException, match="reserve has not left"):
            LifecycleOperator(task_id="provision", run_directory="None").execute(context)


class TestReserve:
    def context(self, **params: Any) -> dict[str, Any]:
        run = SimpleNamespace(
            run_id="manual__2026-11-21T01:34:39.123+00:00", run_after=datetime(2026, 11, 21, tzinfo=UTC)
        )
        return {"ti": FakeTaskInstance(), "dag_run": run, "params": params}

    def test_passes_on_what_the_form_changed(self, scenarios: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fake = FakeLifecycle()
        use(monkeypatch, fake)
        params = {"rate": 2000, "size": 200, "settings": {"phases.steady_s": 5}}
        directory = ReserveOperator(task_id="reserve", scenario="region_lost").execute(self.context(**params))
        assert fake.reserved["overrides"] == {"workload.rate": 2000, "phases.steady_s": 5}
        assert fake.reserved["triggered_at"] == 1795219200_000_000
        assert Run(directory).run_id == "region_lost-manual__2026-11-21T0134391230000"

    def test_is_rescheduled_while_all_slots_are_held(self, scenarios: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fake = FakeLifecycle()
        use(monkeypatch, fake)
        monkeypatch.setenv("BROKERPROOF_MAX_CLUSTERS", "1")
        with slots.take(timeout_s=0), pytest.raises(AirflowRescheduleException):
            ReserveOperator(task_id="reserve", scenario="region_lost").execute(self.context())
        assert not fake.reserved
        ReserveOperator(task_id="reserve", scenario="region_lost").execute(self.context())
        assert fake.reserved

    def test_leaves_its_sentence_if_the_scenario_is_unusable(
        self, scenarios: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use(monkeypatch, FakeLifecycle())
        context = self.context(settings={"workload.keys": 1})
        with pytest.raises(AirflowFailException, match="1 keys are fewer than 2 producers"):
            ReserveOperator(task_id="reserve", scenario="region_lost").execute(context)
        assert "1 keys are fewer" in context["ti"].pushed["problem"]

    def test_passes_an_error_of_the_machine_on(self, scenarios: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fake = FakeLifecycle()
        monkeypatch.setattr(fake, "reserve", lambda *_, **__: (_ for _ in ()).throw(MachineError("no slot")))
        use(monkeypatch, fake)
        with pytest.raises(AirflowFailException, match=r"^no slot$"):
            ReserveOperator(task_id="reserve", scenario="region_lost").execute(self.context())


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


def test_a_tasks_children_are_ended_and_its_nodes_are_not() -> None:
    """A node leads a session of its own; every other process that a task started ends with the task."""
    code = "import time; time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code])
    node = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        end_children()
        assert not psutil.pid_exists(child.pid)
        assert node.poll() is None
    finally:
        os.kill(node.pid, signal.SIGKILL)
        node.wait()
