"""The operator of the steps provision, configure, break_it and release, which need no Spark."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from brokerproof.orchestration.step import StepOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

# Imported only when a task runs: Airflow parses the DAG files all the time, and parsing must not import drivers.
LIFECYCLE = "brokerproof.lifecycle"


class LifecycleOperator(StepOperator):
    """Call the function of brokerproof.lifecycle that has the name of the task."""

    def execute(self, context: Context) -> None:
        """Do the step."""
        lifecycle = importlib.import_module(LIFECYCLE)
        with self.record_work(context) as run:
            getattr(lifecycle, self.task_id)(run)
