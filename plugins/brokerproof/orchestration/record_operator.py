"""The operator that writes a run into the history."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException

from brokerproof.errors import BrokerproofError
from brokerproof.orchestration.step import StepOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

RESULTS = Asset(name="brokerproof_results", uri="brokerproof://results")

log = logging.getLogger(__name__)


class RecordOperator(StepOperator):
    """Write the run into the history, whatever happened, and send its outcome to the followers of the asset."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(outlets=[RESULTS], **kwargs)

    def execute(self, context: Context) -> None:
        """Record the run. Fails only where the history cannot be written."""
        from brokerproof.results.history import open_history
        from brokerproof.results.latency_picture import PICTURE, draw_picture
        from brokerproof.results.run_outcome import compose_outcome
        from brokerproof.run.records import write_record

        try:
            run = self.open_run()
            outcome = compose_outcome(run)
            # Next to the evidence, for a reader who has the run and not the history.
            write_record(run, outcome)
            if outcome.latency:
                run.write_text(PICTURE, draw_picture(outcome.latency, run.scenario.title))
            with open_history() as history:
                history.record(run)
        except BrokerproofError as error:
            raise AirflowFailException(str(error)) from None
        shown = outcome.model_dump(mode="json", include={"run_id", "scenario", "verdict", "met", "run_dir"})
        context["outlet_events"][RESULTS].extra = shown
        log.info("recorded: %s", outcome.why)
