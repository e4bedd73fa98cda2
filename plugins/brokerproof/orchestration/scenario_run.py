"""One run of a scenario through Airflow's API, from the trigger to its outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerproof.errors import BrokerproofError
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.orchestration.airflow_client import FINISHED, AirflowClient, TaskState
from brokerproof.orchestration.progress import Progress, Snapshot, read_live
from brokerproof.results.outcome import outcome
from brokerproof.run.directory import Run

_READ_LIVE_EVERY_S = 0.5
# Each time takes Airflow 0.1 s of computing, next to the experiment.
_ASK_AIRFLOW_EVERY_S = 2.0
# These fail because of what the run came to, which the verdict says; the others because something could not be done.
_JUDGING = {str(suite) for suite in Suite} | {"verdict"}


@dataclass(frozen=True, kw_only=True)
class ScenarioRun:
    """A triggered run; its directory appears when the task `reserve` has made it."""

    client: AirflowClient
    scenario: str
    run_id: str
    directory: Path

    def follow(self, progress: Progress) -> str:
        """Show it until it ended; the DAG run's last state."""
        while True:
            state = self.client.state(self.scenario, self.run_id)
            tasks = self.client.tasks(self.scenario, self.run_id)
            asked_at = time.monotonic()
            while True:
                progress.show(Snapshot(tasks=tasks, live=read_live(self.directory)))
                if state in FINISHED:
                    return state
                if time.monotonic() - asked_at > _ASK_AIRFLOW_EVERY_S:
                    break
                time.sleep(_READ_LIVE_EVERY_S)

    def problems(self) -> dict[str, str]:
        """The tasks that could not do their work, each with its sentence."""
        return {
            task.task_id: self._sentence(task)
            for task in self.client.tasks(self.scenario, self.run_id)
            if task.state == "failed" and task.task_id not in _JUDGING
        }

    def outcome(self) -> dict[str, Any]:
        """What it came to; `unknown` with the reason where there is not even a run's directory."""
        try:
            return outcome(Run(str(self.directory)))
        except BrokerproofError as error:
            reasons = [f"{task} failed: {sentence}" for task, sentence in self.problems().items()]
            return {
                "run_id": self.run_id,
                "scenario": self.scenario,
                "verdict": str(Verdict.UNKNOWN),
                "met": False,
                "why": "; ".join(reasons) or str(error),
                "run_dir": str(self.directory),
            }

    def _sentence(self, task: TaskState) -> str:
        left = self._left_in_run(task.task_id)
        said = left or self.client.xcom(self.scenario, self.run_id, task.task_id, "problem")
        return str(said or "its log in Airflow says why")

    def _left_in_run(self, step: str) -> str | None:
        try:
            problem = Run(str(self.directory)).state(f"problem-{step}")
        except BrokerproofError:
            return None
        return str(problem["problem"]) if isinstance(problem, Mapping) and "problem" in problem else None
