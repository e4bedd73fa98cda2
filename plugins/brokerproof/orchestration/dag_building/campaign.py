"""The DAG of a campaign and its operators. A campaign runs many scenarios one after the other."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
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
from brokerproof.orchestration.dag_run import CLUSTER, SETTINGS, make_run_id
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.outcome import BriefOutcome, Outcome, make_unknown_outcome
from brokerproof.settings import from_environment

if TYPE_CHECKING:
    from airflow.sdk import Context

    from brokerproof.results.history_schema import RecordedRun

# By default (`run_immediately=False`), a DAG that is unpaused within 2.4 hours after 01:00 would run at once.
_NIGHTLY = CronTriggerTimetable("0 1 * * *", timezone="UTC", run_immediately=timedelta(0))
_POLL_S = 5
_KEEP, _VERSIONS, _REPEAT = "keep_clusters", "versions", "repeat"
_MOST_REPEATS = 1000

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
            _VERSIONS: Param(
                [],
                type="array",
                items={"type": "string"},
                title="Versions",
                description="Run each scenario with each of these versions of its system; empty for its own version.",
            ),
            _REPEAT: Param(
                1,
                type="integer",
                minimum=1,
                maximum=_MOST_REPEATS,
                title="Repeat",
                description="How often everything runs, in turns. A scenario that draws its faults has other ones in "
                "each run.",
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
        """Return the arguments of TriggerDagRunOperator for each planned run; fail if a name is unknown."""
        settings = from_environment()
        files = {file.stem: file for file in settings.scenario_files()}
        chosen = list(dict.fromkeys(context["params"]["scenarios"]))
        with fail_with_sentence(context):
            for name in chosen:
                if name not in files:
                    raise InputError(
                        f"no scenario is called `{name}`", field="scenarios", remedy=suggest_name(name, files)
                    )
        params = context["params"]
        versions = [{"version": version} for version in params[_VERSIONS]] or [{}]
        # In turns, so that a machine that becomes slower harms all alike.
        planned = [(name, version) for name in chosen for version in versions] * params[_REPEAT]
        choices = [(each, ClusterChoice.NEW) for each in planned]
        if params[_KEEP]:
            choices = _share_clusters(planned, files, settings.topologies)
        started, runs = context["ti"].start_date, Counter[str]()
        arguments = []
        for (name, version), choice in choices:
            runs[name] += 1
            suffix = "campaign" if runs[name] == 1 else f"campaign_{runs[name]}"
            arguments.append(
                {
                    "trigger_dag_id": name,
                    "trigger_run_id": make_run_id(name, started, suffix),
                    "conf": {CLUSTER: str(choice), **({SETTINGS: version} if version else {})},
                }
            )
        return arguments


# A scenario's name, and the values that are changed for the run.
_PlannedRun = tuple[str, dict[str, str]]


def _share_clusters(
    planned: Sequence[_PlannedRun], files: Mapping[str, Path], topologies: Directories
) -> list[tuple[_PlannedRun, ClusterChoice]]:
    """Return the choice of each run, in an order in which runs share clusters. Those that cannot be used come last."""
    usable, unusable = [], []
    for name, version in planned:
        try:
            usable.append((*load_scenario(files[name], topologies, version), version))
        except InputError as error:
            # The run of this scenario fails with the error, and does not stop the other runs.
            log.warning("%s", error)
            unusable.append(((name, version), ClusterChoice.NEW))
    ordered = order_for_keeping(usable)
    choices = choose_clusters([(scenario, topology) for scenario, topology, _ in ordered], keep=True)
    return [
        *(((scenario.name, version), choice) for (scenario, _, version), choice in zip(ordered, choices, strict=True)),
        *unusable,
    ]


class CampaignVerdictOperator(BaseOperator):
    """The task `verdict` of a campaign: it succeeds if the outcome of every run is what the run's scenario expects."""

    template_fields: Sequence[str] = ("planned",)

    def __init__(self, *, planned: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned = planned

    def execute(self, context: Context) -> str:
        """Log a line for each run, and return one sentence about all runs.

        The task fails with this sentence if the campaign has no run, if a run has an unexpected outcome, or if the runs
        of a scenario that draws its faults never reached a state that is worth reaching.
        """
        runs = from_environment().runs
        outcomes = [_read_outcome(one["trigger_dag_id"], runs / one["trigger_run_id"]) for one in self.planned or []]
        for line in _tabulate_outcomes(outcomes):
            log.info(line)
        vacuous = _find_vacuous(self.planned or [])
        sentence = "; ".join([_summarize_outcomes(outcomes), *vacuous])
        if not outcomes or vacuous or not all(each.met for each in outcomes):
            with fail_with_sentence(context):
                raise RunError(sentence)
        log.info(sentence)
        return sentence


def _find_vacuous(planned: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each scenario that draws its faults, ran several times, and never reached some state."""
    # Airflow parses this file often, and these imports take long.
    from brokerproof.results.history import open_recorded_history
    from brokerproof.results.state_search import count_states, explain_vacuous

    runs: dict[str, list[RecordedRun]] = {}
    history = open_recorded_history()
    if history is None:
        return []
    with history:
        for each in planned:
            recorded = history.find_run(each["trigger_run_id"])
            if recorded is not None and recorded.parameters["scenario"].get("draw"):
                runs.setdefault(each["trigger_dag_id"], []).append(recorded)
    found = {name: explain_vacuous(count_states(mine)) for name, mine in runs.items() if len(mine) > 1}
    return [f"{name}: {why}" for name, why in found.items() if why]


def _read_outcome(scenario: str, directory: Path) -> BriefOutcome:
    try:
        return compose_outcome(Run(str(directory)))
    except BrokerproofError as error:
        return make_unknown_outcome(directory.name, scenario, directory, str(error))


def _summarize_outcomes(outcomes: Sequence[BriefOutcome]) -> str:
    """Return one sentence with the number of expected outcomes and the reason for each unexpected outcome."""
    unmet = [outcome for outcome in outcomes if not outcome.met]
    parts = [f"{len(outcomes) - len(unmet)} of {len(outcomes)} runs have the expected outcome"]
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
