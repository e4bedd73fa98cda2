"""The operators of a campaign: the plan before its runs, the verdict after them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from brokerproof.errors import BrokerproofError, InputError, RunError
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.orchestration.campaign_summary import summarize_outcomes, tabulate_outcomes
from brokerproof.orchestration.run_id import make_run_id
from brokerproof.orchestration.step import fail_with_sentence
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.outcome import BriefOutcome, make_unknown_outcome
from brokerproof.settings import from_environment

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)


class PlanOperator(BaseOperator):
    """Return the campaign's runs, in order, as arguments of TriggerDagRunOperator."""

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return `trigger_dag_id` and `trigger_run_id` for each chosen scenario; fail if a name is unknown."""
        known = [file.stem for file in from_environment().scenario_files()]
        chosen = list(dict.fromkeys(context["params"]["scenarios"]))
        with fail_with_sentence(context):
            for name in chosen:
                if name not in known:
                    raise InputError(
                        f"no scenario is called `{name}`", field="scenarios", remedy=suggest_name(name, known)
                    )
        started = context["ti"].start_date
        return [{"trigger_dag_id": name, "trigger_run_id": make_run_id(name, started, "campaign")} for name in chosen]


class CampaignVerdictOperator(BaseOperator):
    """Log a line for each run, and succeed if the outcome of every run is the expected one."""

    template_fields: Sequence[str] = ("planned",)

    def __init__(self, *, planned: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned = planned

    def execute(self, context: Context) -> str:
        """Return one sentence about all runs; fail with it if there is no run or an unexpected outcome."""
        runs = from_environment().runs
        outcomes = [_read_outcome(one["trigger_dag_id"], runs / one["trigger_run_id"]) for one in self.planned or []]
        for line in tabulate_outcomes(outcomes).splitlines():
            log.info(line)
        sentence = summarize_outcomes(outcomes)
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
