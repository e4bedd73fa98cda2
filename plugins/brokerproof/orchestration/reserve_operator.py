"""The operator of the step reserve, which every other step of a run depends on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowTaskTerminated

from brokerproof import clock
from brokerproof.checks import check_suites, load_scenario
from brokerproof.errors import InputError
from brokerproof.machine import slots
from brokerproof.orchestration.pages import find_run_page
from brokerproof.orchestration.run_id import SETTINGS, derive_run_id
from brokerproof.orchestration.step import fail_with_sentence
from brokerproof.run.records import StepSeconds, write_record
from brokerproof.settings import from_environment
from brokerproof.suites.suite_names import list_suites

if TYPE_CHECKING:
    from airflow.sdk import Context

_ASK_FOR_SLOT_EVERY_S = 5

log = logging.getLogger(__name__)


class ReserveOperator(BaseOperator):
    """Check the scenario, make the run's directory, take a slot with its address range, and start the monitor.

    It starts no nodes, because Airflow skips the teardown of a setup that failed.
    """

    def __init__(self, *, scenario: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scenario = scenario

    def execute(self, context: Context) -> str:
        """Return the run's directory, or fail with one sentence. If all slots are held, Airflow tries again later."""
        # Imported only when a task runs, as in lifecycle_operator.py.
        from brokerproof import lifecycle
        from brokerproof.orchestration.result_notifier import check_notifiers

        settings = from_environment()
        dag_run = context["dag_run"]
        run_id = derive_run_id(self.scenario, dag_run.run_id, context["ti"].try_number)
        started_at = clock.now_us()
        if slots.are_all_held():
            # A waiting task would occupy one of Airflow's places for tasks. The run that holds the slot may need that
            # place to end, so this task ends for a moment.
            log.info("all %d slots are held; trying again in %d s", slots.count_slots(), _ASK_FOR_SLOT_EVERY_S)
            raise AirflowRescheduleException(clock.to_utc(clock.now_us()) + timedelta(seconds=_ASK_FOR_SLOT_EVERY_S))
        with fail_with_sentence(context):
            check_suites(settings.expectations)
            check_notifiers(settings)
            file = settings.scenario_file(self.scenario)
            changed = _read_changed_values(context["params"])
            suites = list_suites(settings.expectations)
            scenario, topology = load_scenario(file, settings.topologies, changed, suites=suites)
            run = lifecycle.reserve(
                scenario,
                topology,
                directory=str(settings.runs / run_id),
                run_id=run_id,
                settings=changed,
                triggered_at=clock.to_microseconds(dag_run.run_after),
                report=find_run_page(run_id),
            )
        write_record(run, StepSeconds(step="reserve", started_at=started_at, finished_at=clock.now_us()))
        return run.directory

    def on_kill(self) -> None:
        """Raises AirflowTaskTerminated to stop the wait for a slot."""
        raise AirflowTaskTerminated("reserve was ended from outside")


def _read_changed_values(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values in the parameter `settings`, by dotted path.

    Raises InputError for any other parameter. Airflow accepts them, and they would change nothing.
    """
    for name in params:
        if name != SETTINGS:
            raise InputError("is no parameter", field=name, remedy=f'write it as {{"{SETTINGS}": {{"PATH": VALUE}}}}')
    return dict(params.get(SETTINGS) or {})
