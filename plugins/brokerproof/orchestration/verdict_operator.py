"""The operator that decides the state of the DAG run."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from brokerproof.errors import BrokerproofError
from brokerproof.orchestration.step import StepOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)


class VerdictOperator(StepOperator):
    """Succeed if the outcome of the run is what its scenario expects. No other task decides the DAG run's state."""

    def execute(self, context: Context) -> str:
        """Return one sentence with the verdict and its reason."""
        from brokerproof.results.run_outcome import compose_outcome

        try:
            outcome = compose_outcome(self.open_run())
        except BrokerproofError as error:
            raise AirflowFailException(str(error)) from None
        log.info(json.dumps(outcome.counts, indent=1))
        if not outcome.met:
            raise AirflowFailException(outcome.why)
        log.info(outcome.why)
        return outcome.why
