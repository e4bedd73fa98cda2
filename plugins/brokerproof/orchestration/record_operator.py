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
        from brokerproof.results.outcome import outcome

        try:
            run = self.open_run()
            result = outcome(run)
            # Next to the evidence, for a reader who has the run and not the history.
            run.leave_state("outcome", result)
            if result["latency"]:
                run.write_text(PICTURE, draw_picture(result["latency"], run.scenario.title))
            with open_history() as history:
                history.record(run)
        except BrokerproofError as error:
            raise AirflowFailException(str(error)) from None
        context["outlet_events"][RESULTS].extra = {
            key: result[key] for key in ("run_id", "scenario", "verdict", "met", "run_dir")
        }
        log.info("recorded: %s", result["why"])
