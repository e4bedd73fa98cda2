"""One run of a scenario, which is triggered, followed and cancelled through Airflow's API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from brokerproof.clock import SYSTEM_CLOCK, Clock, to_microseconds
from brokerproof.errors import BrokerproofError
from brokerproof.experiment.suite_name import STEPS
from brokerproof.kept_clusters import ClusterChoice
from brokerproof.machine import slots
from brokerproof.orchestration.dag_run import CLUSTER, PROBLEM, SETTINGS
from brokerproof.orchestration.follow.airflow_client import FINISHED, AirflowClient, AirflowError, TaskState
from brokerproof.orchestration.follow.progress import Progress, Snapshot
from brokerproof.orchestration.follow.standstill import Circumstances, Standstill, describe_standstill, waits_for_slot
from brokerproof.orchestration.steps import compute_time_limit
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.live_status import read_every_live_status, read_live_status
from brokerproof.run.outcome import BriefOutcome, Outcome, make_unknown_outcome
from brokerproof.run.records import StepProblem, read_record

_READ_LIVE_EVERY_S = 0.5
# Each request costs Airflow 0.1 s of computing on the cores that the run uses.
_ASK_AIRFLOW_EVERY_S = 2.0
# If one of these tasks fails, it could not do its work. `verdict` and the suites fail because of the verdict, which the
# outcome explains.
_WORKING_TASKS = frozenset(STEPS) - {"verdict"}


@dataclass(kw_only=True)
class ScenarioRun:
    """A run that was or will be triggered. `directory` does not exist before the task `reserve` makes it."""

    client: AirflowClient
    scenario: str
    run_id: str
    # Airflow's own id. It equals `run_id` if the command line triggered the run.
    dag_run_id: str
    directory: Path
    scheduler_log: Path
    # Raises AirflowGoneError if Airflow can start no further task, even if it still answers.
    check_scheduler: Callable[[], None] = lambda: None
    clock: Clock = SYSTEM_CLOCK
    # The tasks in Airflow's last answer.
    _tasks: list[TaskState] = field(default_factory=list)

    def trigger(self, settings: Mapping[str, Any], *, cluster: ClusterChoice = ClusterChoice.NEW) -> None:
        """Start the run. `settings` are the scenario's values to change, by dotted path.

        Raises InputError if Airflow refuses them.
        """
        parameters: dict[str, Any] = {SETTINGS: settings}
        if cluster is not ClusterChoice.NEW:
            parameters[CLUSTER] = str(cluster)
        self.client.trigger_run(self.scenario, self.dag_run_id, parameters)

    def follow(self, progress: Progress) -> str:
        """Show the run until it ends, and return the final state of the DAG run: `success` or `failed`.

        If the run makes no progress, print a sentence with the reason. Raises AirflowGoneError if Airflow has ended,
        can start no task, or was silent for too long.
        """
        standstill = Standstill(self.clock)
        with self.client.call_while_waiting(lambda: self._show(progress)):
            while True:
                state = self.client.read_state(self.scenario, self.dag_run_id)
                self._tasks = self.client.list_tasks(self.scenario, self.dag_run_id)
                asked_at = self.clock.monotonic_s()
                self._show(progress)
                if state in FINISHED:
                    return state
                self.check_scheduler()
                seconds = standstill.observe(state, self._tasks, read_every_live_status(self._run))
                if seconds is not None:
                    progress.print_sentence(describe_standstill(seconds, self._find_circumstances(state)))
                while self.clock.monotonic_s() - asked_at <= _ASK_AIRFLOW_EVERY_S:
                    self.clock.sleep(_READ_LIVE_EVERY_S)
                    self._show(progress)

    def cancel(self) -> bool:
        """Make Airflow end the run's tasks and then do the run's teardown. A run that has ended keeps its state.

        Return whether the run had begun. A run that had not begun is removed, so it cannot be followed.
        """
        state = self.client.read_state(self.scenario, self.dag_run_id)
        if state == "queued" and self.client.remove_queued_run(self.scenario, self.dag_run_id):
            return False
        if state not in FINISHED:
            self.client.cancel_run(self.scenario, self.dag_run_id)
        return True

    def read_problems(self) -> dict[str, str]:
        """Return {task id: sentence with the reason} for the tasks that could not do their work."""
        return {
            task.task_id: self._read_problem(task)
            for task in self._tasks
            if task.state == "failed" and task.task_id in _WORKING_TASKS
        }

    def read_outcome(self) -> BriefOutcome:
        """Return the outcome of the run, or `unknown` with the reason if its run.json is missing or unusable."""
        try:
            return compose_outcome(self._run)
        except BrokerproofError as error:
            reasons = [f"{task} failed: {problem}" for task, problem in self.read_problems().items()]
            return make_unknown_outcome(self.run_id, self.scenario, self.directory, "; ".join(reasons) or str(error))

    @property
    def _run(self) -> Run:
        return Run(str(self.directory))

    def _show(self, progress: Progress) -> None:
        progress.show(Snapshot(tasks=self._tasks, live=read_live_status(self._run, "live")))

    def _find_circumstances(self, state: str) -> Circumstances:
        now_us = self.clock.now_us()
        return Circumstances(
            state=state,
            tasks=self._tasks,
            running_s={
                task.task_id: (now_us - to_microseconds(task.started_at)) / 1e6
                for task in self._tasks
                if task.started_at
            },
            limits_s=self._compute_limits(),
            text=str(read_live_status(self._run, "live").get("text") or ""),
            other_runs=self.client.list_running(self.scenario) if state == "queued" else (),
            slot_holders=self._list_slot_holders(),
            is_alive=psutil.pid_exists,
            scheduler_log=self.scheduler_log,
        )

    def _list_slot_holders(self) -> list[str]:
        try:
            if waits_for_slot(self._tasks) and slots.are_all_held():
                return [name for run in slots.list_assigned_runs() if (name := Path(run).name) != self.run_id]
        except BrokerproofError:
            # The task `reserve` reports the problem with the slots.
            pass
        return []

    def _compute_limits(self) -> dict[str, float]:
        try:
            scenario = self._run.scenario
        except BrokerproofError:
            # The run is not reserved yet.
            return {}
        return {task.task_id: compute_time_limit(task.task_id, scenario).total_seconds() for task in self._tasks}

    def _read_problem(self, task: TaskState) -> str:
        with suppress(BrokerproofError):
            if recorded := read_record(self._run, StepProblem, task.task_id):
                return recorded.problem
        with suppress(AirflowError):
            if left := self.client.read_xcom(self.scenario, self.dag_run_id, task.task_id, PROBLEM):
                return str(left)
        return "its log in Airflow says why"


def has_recorded_outcome(directory: Path | str) -> bool:
    try:
        return read_record(Run(str(directory)), Outcome) is not None
    except BrokerproofError:
        return False
