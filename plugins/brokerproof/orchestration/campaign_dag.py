"""The DAG that runs many scenarios, one after the other, and says what all of them came to."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, BaseOperator, CronTriggerTimetable, Param
from rich.console import Console
from rich.table import Table

from brokerproof.errors import BrokerproofError, InputError, RunError
from brokerproof.experiment.verdict import Verdict
from brokerproof.experiment.yaml_models import closest
from brokerproof.orchestration.run_id import new_run_id
from brokerproof.orchestration.step import failing_with_a_sentence
from brokerproof.results.outcome import outcome
from brokerproof.run.directory import Run
from brokerproof.settings import from_environment

if TYPE_CHECKING:
    from airflow.sdk import Context

# The default of run_immediately, and False as well, starts a run at once within 2.4 hours after the time of night.
_NIGHTLY = CronTriggerTimetable("0 1 * * *", timezone="UTC", run_immediately=timedelta(0))
_POLL_S = 5

log = logging.getLogger(__name__)

_PAGE = """
Runs the chosen scenarios one after the other. Each is a DAG run of its own, with its own page and record; one that
fails, or breaks down, does not keep the following from running. The task `verdict` succeeds where every scenario came
to what it expects; its log has a line for each.

Paused at first. Unpause it for a run every night at 01:00 UTC, or trigger it with the scenarios of your choice.
"""


def campaign_dag(scenarios: Sequence[str]) -> DAG:
    """The campaign over the scenarios that there are."""
    dag = DAG(
        dag_id="campaign",
        dag_display_name="Campaign: many scenarios in a row",
        description="Runs the chosen scenarios one after the other; succeeds where all came to what they expect.",
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
                description="What to run, in this order.",
            )
        },
    )
    plan = PlanOperator(task_id="plan", dag=dag)
    # Polls through Airflow's execution API: no triggerer has to run, and no task reaches Airflow's database.
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
    """The runs of the campaign, in their order, as arguments of TriggerDagRunOperator."""

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Check the names and give each run its id."""
        known = [file.stem for file in from_environment().scenario_files()]
        chosen = list(dict.fromkeys(context["params"]["scenarios"]))
        with failing_with_a_sentence(context):
            for name in chosen:
                if name not in known:
                    raise InputError(f"no scenario is called `{name}`", field="scenarios", remedy=closest(name, known))
        started = context["ti"].start_date
        return [{"trigger_dag_id": name, "trigger_run_id": new_run_id(name, started, "campaign")} for name in chosen]


class CampaignVerdictOperator(BaseOperator):
    """One line for each run; succeeds where all of them came to what their scenarios expect."""

    template_fields: Sequence[str] = ("planned",)

    def __init__(self, *, planned: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned = planned

    def execute(self, context: Context) -> str:
        """Read what the runs left."""
        runs = from_environment().runs
        results = [_result(one["trigger_dag_id"], runs / one["trigger_run_id"]) for one in self.planned or []]
        for line in table_of(results).splitlines():
            log.info(line)
        sentence = summary(results)
        if not results or not all(result["met"] for result in results):
            with failing_with_a_sentence(context):
                raise RunError(sentence)
        log.info(sentence)
        return sentence


def _result(scenario: str, directory: Path) -> dict[str, Any]:
    try:
        return outcome(Run(str(directory)))
    except BrokerproofError as error:
        return {"scenario": scenario, "verdict": str(Verdict.UNKNOWN), "met": False, "why": str(error)}


def summary(results: Sequence[dict[str, Any]]) -> str:
    """One sentence over all runs."""
    others = [result for result in results if not result["met"]]
    said = f"{len(results) - len(others)} of {len(results)} scenarios came to what they expect"
    return "; ".join([said, *(f"{result['scenario']} is {result['verdict']}: {result['why']}" for result in others)])


def table_of(results: Sequence[dict[str, Any]]) -> str:
    """The runs as plain text."""
    table = Table(box=None)
    for name in ("scenario", "verdict", "expected", "as expected", "seconds", "why"):
        table.add_column(name, no_wrap=True)
    for result in results:
        expected = result.get("expected") or {}
        total = (result.get("seconds") or {}).get("total")
        table.add_row(
            result["scenario"],
            result["verdict"],
            str(expected.get("verdict", "–")),
            "yes" if result["met"] else "NO",
            "–" if total is None else f"{total:.0f}",
            result["why"],
        )
    console = Console(width=500, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
