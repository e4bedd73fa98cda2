"""The DAG of a campaign and its operators. A campaign runs many scenarios one after the other."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, BaseOperator, CronTriggerTimetable, Param

from brokerproof.checks import load_scenario
from brokerproof.directories import Directories
from brokerproof.errors import BrokerproofError, InputError, RunError
from brokerproof.experiment.numbers import NOTHING, format_value
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.kept_clusters import ClusterChoice, choose_clusters, order_for_keeping
from brokerproof.orchestration.dag_building.step import fail_with_sentence
from brokerproof.orchestration.dag_run import CLUSTER, make_run_id
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.outcome import BriefOutcome, Outcome, make_unknown_outcome
from brokerproof.settings import from_environment

if TYPE_CHECKING:
    from airflow.sdk import Context

# By default (`run_immediately=False`), a DAG that is unpaused within 2.4 hours after 01:00 would run at once.
_NIGHTLY = CronTriggerTimetable("0 1 * * *", timezone="UTC", run_immediately=timedelta(0))
_POLL_S = 5
_KEEP = "keep_clusters"

_PAGE = """
Runs the chosen scenarios one after the other. Each run is a DAG run of its own, with its own page and record. A run
that fails or breaks down does not stop the following ones. The task `verdict` succeeds if the outcome of every run is
what its scenario expects; its log has a line for each run.

The DAG is paused at first. Unpause it for a campaign every night at 01:00 UTC, or trigger it with the scenarios of
your choice.
"""

log = logging.getLogger(__name__)


def build_campaign_dag(scenarios: Sequence[str]) -> DAG:
    """Return the DAG `campaign`. Its form offers the scenarios named in `scenarios`; by default, all are chosen."""
    dag = DAG(
        dag_id="campaign",
        dag_display_name="Campaign: many scenarios in a row",
        description="Runs the chosen scenarios one after the other; succeeds if every outcome is the expected one.",
        doc_md=_PAGE,
        tags=["campaign"],
        schedule=_NIGHTLY,
        catchup=False,
        is_paused_upon_creation=True,
        max_active_runs=1,
        default_args={"retries": 0, "owner": "brokerproof"},
        params={
            "scenarios": Param(
                list(scenarios),
                type="array",
                items={"type": "string"},
                minItems=1,
                examples=list(scenarios),
                title="Scenarios",
                description="The scenarios to run, in this order.",
            ),
            _KEEP: Param(
                False,
                type="boolean",
                title="Keep clusters",
                description="Run a scenario on the cluster of the one before, if that cluster fits and is as a new "
                "one. The order changes: scenarios of one cluster follow each other, those that destroy nodes last.",
            ),
        },
    )
    plan = PlanOperator(task_id="plan", dag=dag)
    # The task polls through Airflow's execution API, so it needs neither a triggerer nor access to Airflow's database.
    run = TriggerDagRunOperator.partial(
        task_id="run",
        dag=dag,
        wait_for_completion=True,
        poke_interval=_POLL_S,
        fail_when_dag_is_paused=True,
        max_active_tis_per_dagrun=1,
        map_index_template="{{ task.trigger_dag_id }}",
    ).expand_kwargs(plan.output)
    run >> CampaignVerdictOperator(task_id="verdict", planned=plan.output, trigger_rule="all_done", dag=dag)
    return dag


class PlanOperator(BaseOperator):
    """The task `plan`: it decides which runs the campaign starts, and in which order."""

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return the arguments of TriggerDagRunOperator for each chosen scenario; fail if a name is unknown."""
        settings = from_environment()
        files = {file.stem: file for file in settings.scenario_files()}
        chosen = list(dict.fromkeys(context["params"]["scenarios"]))
        with fail_with_sentence(context):
            for name in chosen:
                if name not in files:
                    raise InputError(
                        f"no scenario is called `{name}`", field="scenarios", remedy=suggest_name(name, files)
                    )
        choices = dict.fromkeys(chosen, ClusterChoice.NEW)
        if context["params"][_KEEP]:
            choices = _share_clusters([files[name] for name in chosen], settings.topologies)
        started = context["ti"].start_date
        return [
            {
                "trigger_dag_id": name,
                "trigger_run_id": make_run_id(name, started, "campaign"),
                "conf": {CLUSTER: str(choice)},
            }
            for name, choice in choices.items()
        ]


def _share_clusters(files: Sequence[Path], topologies: Directories) -> dict[str, ClusterChoice]:
    """Return the choice of each scenario, in an order in which they share clusters. Unusable files come last."""
    planned, unusable = [], {}
    for file in files:
        try:
            planned.append(load_scenario(file, topologies))
        except InputError as error:
            # The run of this scenario fails with the error, and does not stop the other runs.
            log.warning("%s", error)
            unusable[file.stem] = ClusterChoice.NEW
    ordered = order_for_keeping(planned)
    choices = choose_clusters(ordered, keep=True)
    return {scenario.name: choice for (scenario, _), choice in zip(ordered, choices, strict=True)} | unusable


class CampaignVerdictOperator(BaseOperator):
    """The task `verdict` of a campaign: it succeeds if the outcome of every run is what the run's scenario expects."""

    template_fields: Sequence[str] = ("planned",)

    def __init__(self, *, planned: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned = planned

    def execute(self, context: Context) -> str:
        """Log a line for each run, and return one sentence about all runs.

        The task fails with this sentence if the campaign has no run, or if a run has an unexpected outcome.
        """
        runs = from_environment().runs
        outcomes = [_read_outcome(one["trigger_dag_id"], runs / one["trigger_run_id"]) for one in self.planned or []]
        for line in _tabulate_outcomes(outcomes):
            log.info(line)
        sentence = _summarize_outcomes(outcomes)
        if not outcomes or not all(each.met for each in outcomes):
            with fail_with_sentence(context):
                raise RunError(sentence)
        log.info(sentence)
        return sentence


def _read_outcome(scenario: str, directory: Path) -> BriefOutcome:
    try:
        return compose_outcome(Run(str(directory)))
    except BrokerproofError as error:
        return make_unknown_outcome(directory.name, scenario, directory, str(error))


def _summarize_outcomes(outcomes: Sequence[BriefOutcome]) -> str:
    """Return one sentence with the number of expected outcomes and the reason for each unexpected outcome."""
    unmet = [outcome for outcome in outcomes if not outcome.met]
    parts = [f"{len(outcomes) - len(unmet)} of {len(outcomes)} scenarios have the expected outcome"]
    parts += [f"{outcome.scenario} is {outcome.verdict}: {outcome.why}" for outcome in unmet]
    return "; ".join(parts)


def _tabulate_outcomes(outcomes: Sequence[BriefOutcome]) -> list[str]:
    """Return the lines of a table with a heading and a row for each outcome."""
    rows = [("scenario", "verdict", "expected", "as expected", "seconds", "why")]
    for outcome in outcomes:
        whole = outcome if isinstance(outcome, Outcome) else None
        expected = whole.expected.verdict if whole else NOTHING
        seconds, met = format_value(whole.seconds.total if whole else None), "yes" if outcome.met else "NO"
        rows.append((outcome.scenario, outcome.verdict, expected, met, seconds, outcome.why))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
