"""The steps that say what a run came to: one task a suite, the record in the history, the verdict."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from brokerproof.errors import BrokerproofError
from brokerproof.experiment.verdict import Verdict
from brokerproof.orchestration.step import RUN_DIRECTORY, Step

if TYPE_CHECKING:
    from airflow.sdk import Context

RESULTS = Asset(name="brokerproof_results", uri="brokerproof://results")

log = logging.getLogger(__name__)


class _RunOperator(Step, BaseOperator):
    template_fields: Sequence[str] = ("run_directory",)

    def __init__(self, *, run_directory: str = RUN_DIRECTORY, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_directory = run_directory


class SuiteOperator(_RunOperator):
    """Say whether the suite named like the task held; anything but `passed` fails the task."""

    def execute(self, context: Context) -> str:
        """Read what `verify` left. It is cheap, so that the grid costs nothing."""
        from brokerproof.results.outcome import read_judgement

        try:
            judgement = read_judgement(self.run_at())
        except BrokerproofError as error:
            raise AirflowFailException(str(error)) from None
        suite = next((found for name, found in judgement.suites.items() if name == self.task_id), None)
        if suite is None:
            raise AirflowFailException(f"unknown: suite {self.task_id} was not judged")
        if suite.evaluated != suite.written:
            raise AirflowFailException(f"unknown: {suite.evaluated} of its {suite.written} expectations were evaluated")
        sentence = f"{suite.worst}: {suite.why or f'{suite.evaluated} of {suite.written} expectations were evaluated'}"
        if suite.worst is not Verdict.PASSED:
            raise AirflowFailException(sentence)
        log.info(sentence)
        return sentence


class RecordOperator(_RunOperator):
    """Write the run into the history, whatever happened; tells the asset's followers what it came to."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(outlets=[RESULTS], **kwargs)

    def execute(self, context: Context) -> None:
        """Record. Fails only where the history cannot be written."""
        from brokerproof.results.history import open_history
        from brokerproof.results.outcome import outcome
        from brokerproof.results.publish_latencies import PICTURE, draw

        try:
            run = self.run_at()
            result = outcome(run)
            # Next to the evidence, for whoever reads the run without the history.
            run.leave_state("outcome", result)
            if result["latency"]:
                run.write_text(PICTURE, draw(result["latency"], run.scenario.title))
            with open_history() as history:
                history.record(run)
        except BrokerproofError as error:
            raise AirflowFailException(str(error)) from None
        context["outlet_events"][RESULTS].extra = {
            key: result[key] for key in ("run_id", "scenario", "verdict", "met", "run_dir")
        }
        log.info("recorded: %s", result["why"])


class VerdictOperator(_RunOperator):
    """Succeed where the run came to what its scenario expects; it alone decides the DAG run's state."""

    def execute(self, context: Context) -> str:
        """Say in one sentence what the run came to and why."""
        from brokerproof.results.outcome import outcome

        try:
            result = outcome(self.run_at())
        except BrokerproofError as error:
            raise AirflowFailException(str(error)) from None
        log.info(json.dumps(result["counts"], indent=1))
        if not result["met"]:
            raise AirflowFailException(result["why"])
        log.info(result["why"])
        return str(result["why"])
