"""Operators of a run's life that need no Spark: reserve, provision, configure, break_it, release."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowTaskTerminated

from brokerproof import clock
from brokerproof.checks import load_scenario
from brokerproof.machine import slots
from brokerproof.orchestration.form import settings_of
from brokerproof.orchestration.run_id import run_id_of
from brokerproof.orchestration.step import RUN_DIRECTORY, Step, failing_with_a_sentence
from brokerproof.settings import from_environment

if TYPE_CHECKING:
    from airflow.sdk import Context


# Imported when a task runs: DAG files are parsed all the time and must not import drivers.
LIFECYCLE = "brokerproof.lifecycle"
_TRY_AGAIN_S = 5

log = logging.getLogger(__name__)


class ReserveOperator(BaseOperator):
    """Take the run's directory, lease and address range; returns the directory.

    Does nothing else: Airflow skips the teardown of a setup that failed.
    """

    def __init__(self, *, scenario: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scenario = scenario

    def execute(self, context: Context) -> str:
        """Validate and reserve. Fails with one sentence; nothing is left behind then."""
        lifecycle = importlib.import_module(LIFECYCLE)

        settings = from_environment()
        dag_run = context["dag_run"]
        run_id = run_id_of(self.scenario, dag_run.run_id, context["ti"].try_number)
        file = settings.scenario_file(self.scenario)
        started_at = clock.now_us()
        if _all_held():
            # Given back meanwhile: tasks that wait in their places could keep the run that they wait for from ending.
            log.info("all %d slots of this machine are held; trying again in %d s", slots.slots(), _TRY_AGAIN_S)
            raise AirflowRescheduleException(clock.utc(clock.now_us()) + timedelta(seconds=_TRY_AGAIN_S))
        with failing_with_a_sentence(context):
            plain, _ = load_scenario(file, settings.topologies)
            run = lifecycle.reserve(
                file,
                directory=str(settings.runs / run_id),
                run_id=run_id,
                topologies=settings.topologies,
                settings=settings_of(context["params"], plain),
                triggered_at=clock.microseconds(dag_run.run_after),
            )
        run.leave_state("seconds-reserve", {"step": "reserve", "started_at": started_at, "finished_at": clock.now_us()})
        return run.directory

    def on_kill(self) -> None:
        """Stop waiting for a slot."""
        raise AirflowTaskTerminated("reserve was ended from outside")


def _all_held() -> bool:
    """Whether every slot belongs to a run that goes on."""
    holders = slots.holders()
    return len(holders) >= slots.slots() and all(slots.keeper_alive(holder) for holder in holders)


class LifecycleOperator(Step, BaseOperator):
    """Call the function of brokerproof.lifecycle that is named like the task."""

    template_fields: Sequence[str] = ("run_directory",)

    def __init__(self, *, run_directory: str = RUN_DIRECTORY, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_directory = run_directory

    def execute(self, context: Context) -> None:
        """Do the step."""
        lifecycle = importlib.import_module(LIFECYCLE)
        with self.recorded(context) as run:
            getattr(lifecycle, self.task_id)(run)
