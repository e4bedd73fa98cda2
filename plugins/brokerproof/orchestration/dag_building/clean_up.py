"""The DAG `clean_up` and its operator. It removes old rows of Airflow's database and old logs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, BaseOperator, CronTriggerTimetable

from brokerproof.errors import MachineError
from brokerproof.machine.processes import SERVICE_MARK
from brokerproof.orchestration.dag_building.step import end_children, fail_with_sentence
from brokerproof.orchestration.embedded.airflow_supervisor import DATABASE_URL
from brokerproof.orchestration.embedded.environment import CLEANED_DATABASE_URL
from brokerproof.settings import from_environment, read_secret

if TYPE_CHECKING:
    from airflow.sdk import Context

_CLEANING = "brokerproof.orchestration.dag_building.cleaning"
# An hour before the nightly campaign, whose measurements need the machine. By default (`run_immediately=False`), a DAG
# that is unpaused within 2.4 hours after midnight would run at once.
_NIGHTLY = CronTriggerTimetable("0 0 * * *", timezone="UTC", run_immediately=timedelta(0))

_PAGE = """
Removes what Airflow has kept for more than `BROKERPROOF_KEEP_AIRFLOW_DAYS` days (90 by default): rows of its database,
such as its log of who did what, and logs of tasks and of the DAG processor. What belongs to an unfinished run stays.
Brokerproof's own runs, reports and history stay too; `brokerproof prune` deletes those.

On the team's platform, the DAG runs every night at 00:00 UTC. In an embedded Airflow it is paused at first.
"""

log = logging.getLogger(__name__)


def build_clean_up_dag() -> DAG:
    """Return the DAG `clean_up`. It is paused at first in an embedded Airflow, where people start runs at any time."""
    dag = DAG(
        dag_id="clean_up",
        dag_display_name="Clean up: old rows and logs of Airflow",
        description="Removes old rows of Airflow's database and old logs; keeps Brokerproof's runs and history.",
        doc_md=_PAGE,
        tags=["clean_up"],
        schedule=_NIGHTLY,
        catchup=False,
        is_paused_upon_creation=bool(os.environ.get(SERVICE_MARK)),
        max_active_runs=1,
        default_args={"retries": 0, "owner": "brokerproof"},
    )
    CleanUpOperator(task_id="clean_up", dag=dag, execution_timeout=timedelta(hours=1))
    return dag


class CleanUpOperator(BaseOperator):
    """The task `clean_up`. A process beside it does the work, because Airflow closes its database to its tasks."""

    def execute(self, context: Context) -> None:
        """Fail with one sentence if a setting cannot be used or something could not be removed."""
        with fail_with_sentence(context):
            days = from_environment().keep_airflow_days
            url = read_secret(CLEANED_DATABASE_URL)
            if not url:
                raise MachineError(f"{CLEANED_DATABASE_URL} does not name Airflow's database, so nothing was removed")
            command = [sys.executable, "-m", _CLEANING, str(days)]
            environment = {**os.environ, DATABASE_URL: url}
            with subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as cleaning:
                assert cleaning.stdout is not None
                last = ""
                for line in cleaning.stdout:
                    if line.strip():
                        log.info(last := line.strip())
            if cleaning.returncode:
                raise MachineError(f"not everything was removed: {last}")

    def on_kill(self) -> None:
        """End the process that removes."""
        end_children()
