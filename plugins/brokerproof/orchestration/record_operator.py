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

    from brokerproof.run.directory import Run

RESULTS = Asset(name="brokerproof_results", uri="brokerproof://results")

log = logging.getLogger(__name__)


class RecordOperator(StepOperator):
    """Record the run, even if a step failed, add the outcome to the asset's event, and write the report."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(outlets=[RESULTS], **kwargs)

    def execute(self, context: Context) -> None:
        """Record the run. The task fails if the history or the report cannot be written; no verdict depends on it."""
        from brokerproof.results.recording import record_outcome

        run = self.open_run()
        try:
            outcome = record_outcome(run)
        except BrokerproofError as error:
            raise AirflowFailException(str(error)) from None
        shown = outcome.model_dump(mode="json", include={"run_id", "scenario", "verdict", "met", "run_dir"})
        context["outlet_events"][RESULTS].extra = shown
        log.info("recorded: %s", outcome.why)
        self._write_report(run)

    def _write_report(self, run: Run) -> None:
        """Raises AirflowFailException if the report cannot be written. The run is already recorded then."""
        from brokerproof.reports.exports import write_run_file

        try:
            log.info("report: %s", write_run_file(run))
        except Exception as error:
            log.exception("the report could not be written")
            raise AirflowFailException(f"The run is recorded, but its report could not be written: {error}") from None
