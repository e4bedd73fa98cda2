"""The operators of the steps (tasks of a run) that need no Spark.

Modules that take long to import are imported when a task runs. Airflow parses the DAG files often, so parsing must be
quick.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
    AirflowTaskTerminated,
)

from brokerproof import clock
from brokerproof.checks import check_suites, load_scenario
from brokerproof.errors import InputError
from brokerproof.experiment.verdict import Verdict
from brokerproof.machine import slots
from brokerproof.machine.processes import SERVICE_MARK
from brokerproof.orchestration.airflow_pages.page_addresses import find_run_page
from brokerproof.orchestration.dag_building.step import StepOperator, fail_with_sentence
from brokerproof.orchestration.dag_run import CLUSTER, SETTINGS, derive_run_id
from brokerproof.run.records import StepSeconds, write_record
from brokerproof.settings import from_environment
from brokerproof.suites.suite_names import list_suites

if TYPE_CHECKING:
    from airflow.sdk import Context

RESULTS = Asset(name="brokerproof_results", uri="brokerproof://results")
# Airflow may learn up to 5 s late that a task's process has ended. If it has begun the task again before, it fails the
# new attempt, because it takes the end for that of the new one.
_ASK_FOR_SLOT_EVERY_S = 15
# The largest number of earlier runs by which a seed is chosen.
_MOST_RUNS = 1000

log = logging.getLogger(__name__)


class ReserveOperator(BaseOperator):
    """The task `reserve`: check the scenario, take a slot, make the run's directory, and start the monitor.

    This task starts no nodes, because it is a setup: if a setup fails, Airflow skips the teardown that ends nodes.
    """

    def __init__(self, *, scenario: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scenario = scenario

    def execute(self, context: Context) -> str:
        """Return the run's directory, or fail with one sentence. If all slots are held, Airflow repeats the task."""
        from brokerproof import lifecycle
        from brokerproof.kept_clusters import ClusterChoice, has_kept_cluster
        from brokerproof.orchestration.notify.notifier import check_notifiers
        from brokerproof.results.history import open_history_to_read
        from brokerproof.results.state_search import choose_seed
        from brokerproof.spark.query_planning import check_queries

        settings = from_environment()
        dag_run = context["dag_run"]
        run_id = derive_run_id(self.scenario, dag_run.run_id, context["ti"].try_number)
        started_at = clock.now_us()
        if slots.are_all_held() and not has_kept_cluster():
            # A waiting task would occupy one of Airflow's places for tasks. The run that holds the slot may need that
            # place to end, so this task ends, and Airflow starts it again later.
            log.info("all %d slots are held; trying again in %d s", slots.count_slots(), _ASK_FOR_SLOT_EVERY_S)
            raise AirflowRescheduleException(clock.to_utc(clock.now_us()) + timedelta(seconds=_ASK_FOR_SLOT_EVERY_S))
        with fail_with_sentence(context):
            check_suites(settings.expectations)
            check_notifiers(settings)
            changed = _read_changed_values(context["params"])
            load = partial(
                load_scenario,
                settings.scenario_file(self.scenario),
                settings.topologies,
                suites=list_suites(settings.expectations),
            )
            scenario, topology = load(changed)
            if scenario.draw is not None and scenario.draw.seed is None:
                with open_history_to_read() as history:
                    changed["draw.seed"] = choose_seed(scenario, history.list_runs([scenario.name], limit=_MOST_RUNS))
                log.info("the faults are drawn from the seed %d", changed["draw.seed"])
                scenario, topology = load(changed)
            check_queries(settings, announce=log.info, warn=log.warning)
            run = lifecycle.reserve(
                scenario,
                topology,
                directory=str(settings.runs / run_id),
                run_id=run_id,
                settings=changed,
                triggered_at=clock.to_microseconds(dag_run.run_after),
                triggered_by=_name_trigger(dag_run.triggering_user_name),
                report=find_run_page(run_id),
                cluster_choice=ClusterChoice(context["params"].get(CLUSTER) or ClusterChoice.NEW),
            )
        write_record(run, StepSeconds(step="reserve", started_at=started_at, finished_at=clock.now_us()))
        return run.directory

    def on_kill(self) -> None:
        """Raises AirflowTaskTerminated to stop the wait for a slot."""
        raise AirflowTaskTerminated("reserve was ended from outside")


def _name_trigger(user: str | None) -> str:
    """Return who requested a DAG run: Airflow's `user`, or `schedule` if Airflow itself did.

    An embedded Airflow has only the user `admin`, so its runs have the name of the operating system's user.
    """
    if user is None:
        return "schedule"
    if not os.environ.get(SERVICE_MARK):
        return user
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # The user has no name on this machine.
        return f"user {os.getuid()}"


def _read_changed_values(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values in the parameter `settings`, by dotted path.

    Raises InputError for any other parameter, because Airflow would accept the parameter without any effect.
    """
    for name in params:
        if name not in (SETTINGS, CLUSTER):
            raise InputError("is no parameter", field=name, remedy=f'write it as {{"{SETTINGS}": {{"PATH": VALUE}}}}')
    return dict(params.get(SETTINGS) or {})


class LifecycleOperator(StepOperator):
    """Call the function of brokerproof.lifecycle that the task is named after.

    The tasks are `provision`, `configure`, `break_it` and `release`. The task `provision` also fetches images. If the
    clusters were not configured, `break_it` ends load and consumers, and is skipped.
    """

    def execute(self, context: Context) -> None:
        from brokerproof import lifecycle

        if self.task_id == "break_it" and lifecycle.end_load_without_clusters(self.open_run()):
            raise AirflowSkipException("nothing to do: the clusters were not configured")
        with self.record_work(context) as run:
            if self.task_id == "provision":
                from brokerproof.orchestration.dag_building.images import fetch_images

                fetch_images(run)
            getattr(lifecycle, self.task_id)(run)


class SuiteOperator(StepOperator):
    """Succeed if the suite with the task's name has the verdict `passed`. If it does not apply, the task is skipped.

    The suite's verdict comes from the judgement that `verify` wrote, so this task needs no Spark.
    """

    def execute(self, context: Context) -> str:
        """Return one sentence about the suite. A failed or skipped task has the sentence as its reason."""
        from brokerproof.run.judgement import read_judgement

        with fail_with_sentence(context):
            judgement = read_judgement(self.open_run())
        suite = next((judged for name, judged in judgement.suites.items() if name == self.task_id), None)
        if suite is None:
            raise AirflowFailException(f"unknown: suite {self.task_id} was not judged")
        if suite.evaluated != suite.written:
            raise AirflowFailException(
                f"unknown: {suite.evaluated} of its {suite.written} expectations were evaluated; {suite.why}"
            )
        sentence = f"{suite.worst}: {suite.why or f'{suite.evaluated} of {suite.written} expectations were evaluated'}"
        # In the log, this sentence comes before Airflow's own lines about a failed task.
        log.info(sentence)
        if suite.worst is Verdict.NOT_APPLICABLE:
            raise AirflowSkipException(sentence)
        if suite.worst is not Verdict.PASSED:
            raise AirflowFailException(sentence)
        return sentence


class RecordOperator(StepOperator):
    """Record the run in the history, add the run's outcome to the event of the asset RESULTS, and write the report.

    A run whose steps failed is recorded too.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(outlets=[RESULTS], **kwargs)

    def execute(self, context: Context) -> None:
        """Fail the task if the history or the report cannot be written. This does not change the verdict."""
        from brokerproof.results.recording import record_outcome

        run = self.open_run()
        with fail_with_sentence(context):
            outcome = record_outcome(run)
        shown = outcome.model_dump(mode="json", include={"run_id", "scenario", "verdict", "met", "run_dir"})
        context["outlet_events"][RESULTS].extra = shown
        log.info("recorded: %s", outcome.why)
        from brokerproof.reports.exports import write_run_file

        try:
            log.info("report: %s", write_run_file(run))
        except Exception as error:
            log.exception("the report could not be written")
            raise AirflowFailException(f"The run is recorded, but its report could not be written: {error}") from None


class VerdictOperator(StepOperator):
    """Succeed if the outcome of the run is what its scenario expects. No other task decides the DAG run's state.

    If a rule of the setting `notify` applies to the result, the task also uses the rule's notifier.
    """

    def execute(self, context: Context) -> str:
        """Return one sentence with the verdict and its reason. If the outcome is unexpected, fail with the sentence."""
        from brokerproof.orchestration.notify.notifier import notify_of_result
        from brokerproof.results.run_outcome import compose_outcome

        run = self.open_run()
        with fail_with_sentence(context):
            outcome = compose_outcome(run)
        # The story comes first in the log, before the counts and the verdict.
        log.info(outcome.story)
        log.info(json.dumps(outcome.counts, indent=1))
        notify_of_result(run, outcome, context)
        if not outcome.met:
            raise AirflowFailException(outcome.why)
        log.info(outcome.why)
        return outcome.why
