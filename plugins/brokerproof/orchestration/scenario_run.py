"""One run of a scenario through Airflow's API, from the trigger to its outcome."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerproof.errors import BrokerproofError
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.orchestration.airflow_client import FINISHED, AirflowClient, TaskState
from brokerproof.orchestration.progress import Progress
from brokerproof.orchestration.snapshot import Snapshot
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.live_status import read_live_status
from brokerproof.run.records import StepProblem, read_record

_READ_LIVE_EVERY_S = 0.5
# Each request takes Airflow 0.1 s of computing, on the cores that the experiment uses.
_ASK_AIRFLOW_EVERY_S = 2.0
# These tasks fail because of the verdict, which the outcome explains. Any other task fails because it could not work.
_JUDGING_TASKS = {str(suite) for suite in Suite} | {"verdict"}


@dataclass(frozen=True, kw_only=True)
class ScenarioRun:
    """A triggered run. The task `reserve` makes its directory."""

    client: AirflowClient
    scenario: str
    run_id: str
    directory: Path

    def follow(self, progress: Progress) -> str:
        """Show the run until it ends, and return the last state of the DAG run."""
        while True:
            state = self.client.read_state(self.scenario, self.run_id)
            tasks = self.client.list_tasks(self.scenario, self.run_id)
            asked_at = time.monotonic()
            while True:
                progress.show(Snapshot(tasks=tasks, live=read_live_status(Run(str(self.directory)), "live")))
                if state in FINISHED:
                    return state
                if time.monotonic() - asked_at > _ASK_AIRFLOW_EVERY_S:
                    break
                time.sleep(_READ_LIVE_EVERY_S)

    def read_problems(self) -> dict[str, str]:
        """The tasks that could not do their work, each with a sentence that says why."""
        return {
            task.task_id: self._read_problem(task)
            for task in self.client.list_tasks(self.scenario, self.run_id)
            if task.state == "failed" and task.task_id not in _JUDGING_TASKS
        }

    def read_outcome(self) -> dict[str, Any]:
        """The outcome of the run; `unknown` with the reason where the run has not even a directory."""
        try:
            return compose_outcome(Run(str(self.directory))).model_dump(mode="json")
        except BrokerproofError as error:
            reasons = [f"{task} failed: {problem}" for task, problem in self.read_problems().items()]
            return {
                "run_id": self.run_id,
                "scenario": self.scenario,
                "verdict": str(Verdict.UNKNOWN),
                "met": False,
                "why": "; ".join(reasons) or str(error),
                "run_dir": str(self.directory),
            }

    def _read_problem(self, task: TaskState) -> str:
        problem = self._read_recorded_problem(task.task_id)
        problem = problem or self.client.read_xcom(self.scenario, self.run_id, task.task_id, "problem")
        return str(problem or "its log in Airflow says why")

    def _read_recorded_problem(self, step: str) -> str | None:
        try:
            problem = read_record(Run(str(self.directory)), StepProblem, step)
        except BrokerproofError:
            return None
        return None if problem is None else problem.problem
