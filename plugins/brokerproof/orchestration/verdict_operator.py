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
    """Succeed if the outcome of the run is what its scenario expects. No other task decides the DAG run's state.

    It also uses the notifiers of the settings if the result is an occasion for one.
    """

    def execute(self, context: Context) -> str:
        """Return one sentence with the verdict and its reason; fail with it if the outcome is not the expected one."""
        from brokerproof.orchestration.result_notifier import tell_of_result
        from brokerproof.results.run_outcome import compose_outcome

        run = self.open_run()
        try:
            outcome = compose_outcome(run)
        except BrokerproofError as error:
            raise AirflowFailException(str(error)) from None
        # The story comes first in the log, before the counts and the verdict.
        log.info(outcome.story)
        log.info(json.dumps(outcome.counts, indent=1))
        tell_of_result(run, outcome, context)
        if not outcome.met:
            raise AirflowFailException(outcome.why)
        log.info(outcome.why)
        return outcome.why
