"""The judgement of a run: a verdict for every suite, the counts and the measurements.

`verify` writes it. The outcome, the history, the command line and the figures read it.
"""

from __future__ import annotations

from typing import Any

from brokerproof.errors import RunError
from brokerproof.experiment.suite_name import SuiteName
from brokerproof.experiment.verdict import Verdict, merge_verdicts
from brokerproof.run.counts import Count, Counts
from brokerproof.run.directory import Run
from brokerproof.run.measurement import FiniteOrNone, Measurement
from brokerproof.run.records import Record, read_record
from brokerproof.run.strict_model import StrictModel


class Check(StrictModel):
    """One expectation of a suite, and the rows that it is about."""

    name: str
    description: str
    # The table that a standard expectation of Great Expectations is about; empty for Brokerproof's own kinds.
    table: str = ""
    verdict: Verdict
    # Why it does not apply to the run's messaging system; empty where it does.
    why: str = ""
    rows: Count
    # Rows that broke it, that nothing decides, and that only the guarantee or the scenario allows.
    unexpected: Count
    undecided: Count
    legal: Count
    # Some of the rows that broke it.
    samples: tuple[dict[str, Any], ...]


class SuiteJudgement(StrictModel):
    """A suite's verdict, and how many of the expectations that apply were written and evaluated."""

    verdict: Verdict
    why: str
    evaluated: Count
    written: Count
    expectations: tuple[Check, ...]
    # Where the suites' pages are, or why there are none.
    data_docs: str | None = None
    data_docs_error: str | None = None

    @property
    def worst(self) -> Verdict:
        """The suite's verdict, or that of one of its expectations where it is worse."""
        return merge_verdicts([self.verdict, *(check.verdict for check in self.expectations)])


class Judgement(Record):
    """The judgement of a run."""

    KIND = "judgement"

    verdict: Verdict
    why: str
    # What the evidence lacks, in sentences.
    problems: tuple[str, ...]
    # What a reader has to know of how it was judged.
    notes: tuple[str, ...] = ()
    # The five, and those of users.
    suites: dict[SuiteName, SuiteJudgement]
    counts: Counts
    # By fault and metric, from the measurements.
    recovery: dict[str, dict[str, FiniteOrNone]]
    measurements: tuple[Measurement, ...]
    # Wall time of each step of judging.
    seconds: dict[str, float]

    @property
    def inapplicable(self) -> dict[str, str]:
        """By anomaly and metric, why it does not apply to the run's messaging system."""
        checks = [check for suite in self.suites.values() for check in suite.expectations]
        return {check.name: check.why for check in checks if check.verdict is Verdict.NOT_APPLICABLE}

    @property
    def worst(self) -> Verdict:
        """The verdict, or that of one of its suites where it is worse."""
        return merge_verdicts([self.verdict, *(suite.worst for suite in self.suites.values())])


class JudgingFailure(Record):
    """Why a run could not be judged. It takes the place of an earlier judgement, which no longer counts."""

    KIND = "judgement"

    verdict: Verdict = Verdict.UNKNOWN
    why: str
    error: str


def read_judgement(run: Run) -> Judgement:
    """The judgement that `verify` left. Raises RunError where it is missing, damaged, another run's, or a failure."""
    try:
        judgement = read_record(run, Judgement)
    except RunError as error:
        raise RunError(_read_failure(run) or str(error)) from None
    if judgement is None:
        raise RunError("nothing was judged: `verify` left no judgement")
    others = {row.run_id for row in judgement.measurements} - {run.run_id}
    if others:
        raise RunError(f"the judgement is of another run: {', '.join(sorted(others))}")
    return judgement


def _read_failure(run: Run) -> str:
    """Why the run could not be judged; empty where there is no record of a failure."""
    try:
        failure = read_record(run, JudgingFailure)
    except RunError:
        return ""
    return failure.why if failure else ""
