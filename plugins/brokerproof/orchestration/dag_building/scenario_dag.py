"""The DAG of a scenario: its task graph, its tags and its parameter."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param
from airflow.sdk.definitions.param import ParamsDict

from brokerproof.checks import load_scenario
from brokerproof.directories import Directories
from brokerproof.errors import InputError
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.verdict import Verdict
from brokerproof.kept_clusters import ClusterChoice
from brokerproof.orchestration.dag_building.operators import (
    LifecycleOperator,
    RecordOperator,
    ReserveOperator,
    SuiteOperator,
    VerdictOperator,
)
from brokerproof.orchestration.dag_building.scenario_page import write_page
from brokerproof.orchestration.dag_building.spark_operator import SparkStepOperator
from brokerproof.orchestration.dag_run import CLUSTER, SETTINGS
from brokerproof.orchestration.steps import compute_time_limit
from brokerproof.run.records import PhaseTimes
from brokerproof.settings import Settings
from brokerproof.spark.job_configuration import list_verify_options
from brokerproof.suites.suite_names import list_suites


def load_scenario_dag(file: Path, settings: Settings) -> DAG:
    """Return the DAG of the scenario in `file`. Raises InputError if the file or a value in it cannot be used."""
    scenario, topology = load_scenario(file, settings.topologies, suites=list_suites(settings.expectations))
    try:
        return build_scenario_dag(scenario, topology, expectations=settings.expectations)
    except Exception as error:
        # Airflow and Python have limits of their own, for example on the length of a tag and on a time limit's seconds.
        raise InputError(f"makes no DAG: {error}", file=str(file), remedy="correct the value") from error


def build_scenario_dag(scenario: Scenario, topology: Topology, *, expectations: Directories) -> DAG:
    """Return the DAG that runs a scenario when it is triggered."""
    dag = DAG(
        dag_id=scenario.name,
        # The command line needs the scenario's name, so the UI shows it after the title.
        dag_display_name=f"{scenario.title} · {scenario.name}",
        description=" ".join(scenario.description.split()),
        doc_md=write_page(scenario, topology),
        tags=_list_tags(scenario),
        params=_build_params(),
        schedule=None,
        catchup=False,
        is_paused_upon_creation=False,
        # The history compares the runs of one scenario, so they must not compete for the machine.
        max_active_runs=1,
        # There is no dagrun_timeout: it would skip the teardown. Each task has its own limit.
        default_args={"retries": 0, "owner": "brokerproof"},
    )

    def limit(step: str) -> dict[str, Any]:
        return {"execution_timeout": compute_time_limit(step, scenario), "dag": dag}

    reserve = ReserveOperator(task_id="reserve", scenario=scenario.name, **limit("reserve"))
    provision, configure = (LifecycleOperator(task_id=step, **limit(step)) for step in ("provision", "configure"))
    # `break_it` also starts after a failed step, because load and consumers then wait for clusters in vain.
    break_it = LifecycleOperator(task_id="break_it", trigger_rule="all_done", **limit("break_it"))
    load, consume = (SparkStepOperator(task_id=step, **limit(step)) for step in ("load", "consume"))
    # `read_back` waits for all three steps, and reads the stored messages even if a step failed.
    read_back = SparkStepOperator(task_id="read_back", trigger_rule="all_done", after=PhaseTimes, **limit("read_back"))
    # These steps can be repeated, so a task that was killed is retried. A task that fails with a sentence is not.
    again: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=1)}
    release = LifecycleOperator(task_id="release", **limit("release"), **again)
    # `verify` runs even if a step failed, so that a run with a failed load ends as `unknown` with its reasons.
    verify = SparkStepOperator(
        task_id="verify",
        arguments=list_verify_options(expectations),
        trigger_rule="all_done",
        **limit("verify"),
        **again,
    )
    # Only the names of the suites' files are read here; `reserve` refuses a file that cannot be used.
    suites = [SuiteOperator(task_id=name, **limit(name), **again) for name in list_suites(expectations)]
    record = RecordOperator(task_id="record", **limit("record"), **again)
    verdict = VerdictOperator(task_id="verdict", **limit("verdict"), **again)

    # Spark and the clients start while the nodes start.
    reserve >> [provision, load, consume]
    provision >> configure >> break_it
    [load, consume, break_it] >> read_back >> verify >> suites
    [break_it, read_back] >> release
    suites >> record >> verdict
    # The record contains the problems and the time of `release`. Usually `release` ends before `verify`.
    release >> record
    # Airflow does not count the teardown `record` as a leaf. Without this edge the suites would be leaves, and the DAG
    # run of a control, whose suites must fail, would end as failed.
    suites >> verdict
    # Airflow runs a teardown even if an earlier task failed or a user marked the DAG run as failed. Only `verdict`
    # decides the DAG run's state.
    release.as_teardown(setups=reserve)
    record.as_teardown(setups=reserve)
    verdict.as_teardown(setups=reserve, on_failure_fail_dagrun=True)
    return dag


def _list_tags(scenario: Scenario) -> list[str]:
    """Return the tags of the scenario's DAG, by which users filter Airflow's list of DAGs.

    These are the scenario's own tags, its topology, its guarantee, and, if the scenario expects the verdict `failed`,
    the tag `control`.
    """
    control = ["control"] if scenario.expect.verdict is Verdict.FAILED else []
    return list(dict.fromkeys([*scenario.tags, scenario.topology, str(scenario.guarantee), *control]))


def _build_params() -> ParamsDict:
    """Return the DAG's parameters, for Airflow's form and `brokerproof run`. `reserve` checks the values."""
    settings = Param(
        {},
        title="Settings",
        description="Values of the scenario to change for this run, by dotted path: "
        '{"workload.rate": 2000, "phases.steady_s": 30}. '
        "docs/scenario-reference.md lists all fields.",
        # If a user empties the form, Airflow sends null.
        type=["object", "null"],
        propertyNames={"pattern": rf"^({'|'.join(Scenario.model_fields)})(\.|$)"},
    )
    cluster = Param(
        str(ClusterChoice.NEW),
        type="string",
        enum=[str(choice) for choice in ClusterChoice],
        title="Cluster",
        description="`new`: a new cluster. `reuse`: the cluster that an earlier run kept, if it fits and is as a new "
        "one. `keep`: like `reuse`, and it stays for a later run, at most 15 minutes.",
    )
    return ParamsDict({SETTINGS: settings, CLUSTER: cluster})
