"""The operator that shows in Airflow whether one suite passed."""

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
    """Succeed if the suite with the task's name is `passed`. If the suite does not apply, the task is skipped."""

    def execute(self, context: Context) -> str:
        """Return one sentence from the suite's part of the judgement that `verify` left. This does not need Spark."""
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
        # In the log, this sentence comes before Airflow's own lines about a failed task.
        log.info(sentence)
        if suite.worst is Verdict.NOT_APPLICABLE:
            raise AirflowSkipException(sentence)
        if suite.worst is not Verdict.PASSED:
            raise AirflowFailException(sentence)
        return sentence
