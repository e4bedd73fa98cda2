"""The DAG of a campaign, which runs many scenarios one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, CronTriggerTimetable, Param

from brokerproof.orchestration.campaign_operators import CampaignVerdictOperator, PlanOperator

# With False, the default of `run_immediately`, a DAG that is unpaused within 2.4 hours after 01:00 would run at once.
_NIGHTLY = CronTriggerTimetable("0 1 * * *", timezone="UTC", run_immediately=timedelta(0))
_POLL_S = 5

_PAGE = """
Runs the chosen scenarios one after the other. Each run is a DAG run of its own, with its own page and record. A run
that fails or breaks down does not stop the following ones. The task `verdict` succeeds if the outcome of every run is
what its scenario expects; its log has a line for each run.

The DAG is paused at first. Unpause it for a campaign every night at 01:00 UTC, or trigger it with the scenarios of
your choice.
"""


def build_campaign_dag(scenarios: Sequence[str]) -> DAG:
    """Return the DAG `campaign`. Its form offers the scenarios with these names; by default all are chosen."""
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
            )
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
