"""The pages on which Airflow shows the tasks of a recorded run and their logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import select
from sqlalchemy.orm import Session

from brokerproof.orchestration.run_id import belongs_to


@dataclass(frozen=True)
class TaskLogs:
    """Airflow's pages about one run, as paths below the page of its DAG."""

    dag_run: str
    # (task id, page), in the order in which the tasks began.
    tasks: Sequence[tuple[str, str]]


def find_task_logs(session: Session, scenario: str, run_id: str) -> TaskLogs | None:
    """Return the pages of a run and its tasks, or None if Airflow does not have its DAG run (any more)."""
    dag_run_ids = session.scalars(
        select(DagRun.run_id).where(DagRun.dag_id == scenario).order_by(DagRun.run_after.desc())
    )
    dag_run_id = next((one for one in dag_run_ids if belongs_to(run_id, scenario, one)), None)
    if dag_run_id is None:
        return None
    tasks = session.scalars(
        select(TaskInstance.task_id)
        .where(TaskInstance.dag_id == scenario, TaskInstance.run_id == dag_run_id, TaskInstance.start_date.is_not(None))
        .order_by(TaskInstance.start_date)
    )
    page = f"runs/{quote(dag_run_id)}"
    return TaskLogs(dag_run=page, tasks=[(task, f"{page}/tasks/{quote(task)}") for task in tasks])
