"""The operator of the steps provision, configure, break_it and release, which need no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from brokerproof.orchestration.step import StepOperator
from brokerproof.run.directory import Run

if TYPE_CHECKING:
    from airflow.sdk import Context


class LifecycleOperator(StepOperator):
    """Do the step of brokerproof.lifecycle whose name is the task's id."""

    def execute(self, context: Context) -> None:
        do_step = _load_steps()[self.task_id]
        with self.record_work(context) as run:
            do_step(run)


def _load_steps() -> Mapping[str, Callable[[Run], object]]:
    # Imported only when a task runs, because Airflow parses the DAG files all the time, and parsing must stay quick.
    from brokerproof import lifecycle

    return {
        "provision": _provision,
        "configure": lifecycle.configure,
        "break_it": lifecycle.break_it,
        "release": lifecycle.release,
    }


def _provision(run: Run) -> None:
    from brokerproof import lifecycle
    from brokerproof.orchestration.images import fetch_images

    fetch_images(run)
    lifecycle.provision(run)
