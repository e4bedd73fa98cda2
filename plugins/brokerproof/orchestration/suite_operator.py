"""The operator that shows in Airflow whether one suite held."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from brokerproof.errors import BrokerproofError
from brokerproof.experiment.verdict import Verdict
from brokerproof.orchestration.step import StepOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)


class SuiteOperator(StepOperator):
    """Succeed if the suite with the name of the task is `passed`; a suite that does not apply is skipped."""

    def execute(self, context: Context) -> str:
        """Read the suite's part of the judgement that `verify` left: that takes neither Spark nor time."""
        from brokerproof.run.judgement import read_judgement

        try:
            judgement = read_judgement(self.open_run())
        except BrokerproofError as error:
            raise AirflowFailException(str(error)) from None
        suite = next((judged for name, judged in judgement.suites.items() if name == self.task_id), None)
        if suite is None:
            raise AirflowFailException(f"unknown: suite {self.task_id} was not judged")
        if suite.evaluated != suite.written:
            raise AirflowFailException(
                f"unknown: {suite.evaluated} of its {suite.written} expectations were evaluated; {suite.why}"
            )
        sentence = f"{suite.worst}: {suite.why or f'{suite.evaluated} of {suite.written} expectations were evaluated'}"
        # Whoever opens the log reads it first; what Airflow says of a task that failed comes after it.
        log.info(sentence)
        if suite.worst is Verdict.NOT_APPLICABLE:
            raise AirflowSkipException(sentence)
        if suite.worst is not Verdict.PASSED:
            raise AirflowFailException(sentence)
        return sentence
