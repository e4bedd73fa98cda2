"""The judgement of a run: a verdict for every suite, the counts and the measurements.

`verify` writes it. The outcome, the history, reports, the command line and tasks in Airflow read it.
"""

from __future__ import annotations

from typing import Any

from brokerproof.errors import RunError
from brokerproof.experiment.suite_name import SuiteName
from brokerproof.experiment.verdict import Verdict, merge_verdicts
from brokerproof.run.counts import Count, Counts
from brokerproof.run.directory import Run
from brokerproof.run.measurement import FiniteOrNone, Measurement
from brokerproof.run.records import Record, read_record, remove_record, write_record
from brokerproof.run.strict_model import StrictModel


class Check(StrictModel):
    """The result of one expectation of a suite, with numbers of rows."""

    name: str
    description: str
    # The table that a standard expectation of Great Expectations checks; empty for Brokerproof's own kinds.
    table: str = ""
    verdict: Verdict
    # Why it does not apply to the run's messaging system; empty if it applies.
    why: str = ""
    rows: Count
    # Rows that break it, rows that the evidence does not decide, and rows that would break it but are allowed by the
    # guarantee or the scenario.
    unexpected: Count
    undecided: Count
    legal: Count
    # Some of the rows that break it.
    samples: tuple[dict[str, Any], ...]


class SuiteJudgement(StrictModel):
    """A suite's verdict, and the results of its expectations.

    `written` is the number of expectations in the suite's file that apply to the run, and `evaluated` the number that
    were evaluated.
    """

    verdict: Verdict
    why: str
    evaluated: Count
    written: Count
    expectations: tuple[Check, ...]
    # The location of the suites' pages, or why there are none.
    data_docs: str | None = None
    data_docs_error: str | None = None

    @property
    def worst(self) -> Verdict:
        """The most severe of the suite's verdict and the verdicts of its expectations."""
        return merge_verdicts([self.verdict, *(check.verdict for check in self.expectations)])


class Judgement(Record):
    """The verdicts on a run and its suites, with the counts and the measurements."""

    verdict: Verdict
    why: str
    # A sentence for each gap in the evidence.
    problems: tuple[str, ...]
    # Sentences about how the run was judged, for the reader of the verdict.
    notes: tuple[str, ...] = ()
    # The five suites, and the users' own suites.
    suites: dict[SuiteName, SuiteJudgement]
    counts: Counts
    # By fault and metric, from the measurements.
    recovery: dict[str, dict[str, FiniteOrNone]]
    measurements: tuple[Measurement, ...]
    # Seconds of wall time of each step of judging.
    seconds: dict[str, float]

    @property
    def inapplicable(self) -> dict[str, str]:
        """{anomaly or metric: the reason why it does not apply to the run's messaging system}."""
        checks = [check for suite in self.suites.values() for check in suite.expectations]
        return {check.name: check.why for check in checks if check.verdict is Verdict.NOT_APPLICABLE}

    @property
    def worst(self) -> Verdict:
        """The most severe of the run's verdict and the verdicts of its suites and their expectations."""
        return merge_verdicts([self.verdict, *(suite.worst for suite in self.suites.values())])


class JudgingFailure(Record):
    """The reason why a run could not be judged. An earlier judgement no longer counts."""

    verdict: Verdict = Verdict.UNKNOWN
    why: str
    error: str


def write_judgement(run: Run, judged: Judgement | JudgingFailure) -> None:
    """Write a judgement or a failure in place of an earlier judgement or failure. Raises MachineError if that fails."""
    write_record(run, judged)
    # If the process is killed here, both records exist. Readers prefer the failure, so they use no replaced judgement.
    remove_record(run, JudgingFailure if isinstance(judged, Judgement) else Judgement)


def read_judgement(run: Run) -> Judgement:
    """Return the judgement that `verify` wrote.

    Raises RunError if the judgement is missing, damaged or of another run, or if the run could not be judged.
    """
    if (failure := read_record(run, JudgingFailure)) is not None:
        raise RunError(failure.why)
    judgement = read_record(run, Judgement)
    if judgement is None:
        raise RunError("nothing was judged: `verify` left no judgement")
    others = {row.run_id for row in judgement.measurements} - {run.run_id}
    if others:
        raise RunError(f"the judgement is of another run: {', '.join(sorted(others))}")
    return judgement


def find_judgement(run: Run) -> tuple[Judgement | None, str]:
    """Return the judgement and an empty text, or None and the reason why there is no judgement."""
    try:
        return read_judgement(run), ""
    except RunError as error:
        return None, str(error)
