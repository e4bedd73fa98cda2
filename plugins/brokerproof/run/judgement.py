"""The judgement of a run: a verdict for every suite of expectations, the counts and the measurements.

The step `verify` writes it. Only this module defines the names of the counts.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from brokerproof.errors import RunError, shorten
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.suite_name import SuiteName
from brokerproof.experiment.verdict import Verdict, merge_verdicts
from brokerproof.run.directory import Run
from brokerproof.run.measurement import FiniteOrNone, Measurement
from brokerproof.run.records import Record, read_record, remove_record, write_record
from brokerproof.run.strict_model import StrictModel

Count = Annotated[int, Field(ge=0)]
# The minimum and the maximum of a value; None for a bound that is not set.
Bounds = tuple[float | None, float | None]


class Totals(StrictModel):
    """All counts except `not_sent` and those of anomalies."""

    publishes: Count = Field(description="attempts to publish")
    messages: Count = Field(description="different messages that a producer tried to publish")
    acked: Count = Field(description="messages with an acknowledged attempt")
    failed: Count = Field(description="messages whose attempts all failed for certain")
    unknown: Count = Field(description="messages whose producer does not know whether they were written")
    recovered: Count = Field(description="unknown messages that were found in their home's log")
    stored: Count = Field(description="copies in the logs of all clusters")
    deliveries: Count = Field(description="deliveries to all subscriptions")


# The names of the totals, in the order of display.
TOTALS = tuple(Totals.model_fields)


class Counts(Totals):
    """The totals, `not_sent`, and how often each anomaly was found, legal and illegal; 0 for an absent anomaly."""

    # Not in `Totals`, because the history has a column for each total but not for this count.
    not_sent: Count | None = Field(
        None, description="messages that a full `max_pending` held back until the end; null if they were not recorded"
    )

    legal: dict[Anomaly, Count]
    illegal: dict[Anomaly, Count]

    def count_anomaly(self, anomaly: Anomaly) -> int:
        """Return how often `anomaly` was found, whether the scenario allows it (legal) or not."""
        return self.legal.get(anomaly, 0) + self.illegal.get(anomaly, 0)


class Check(StrictModel):
    """The result of one expectation of a suite. Its counts are numbers of rows."""

    name: str
    description: str
    # The table that a standard expectation of Great Expectations checks; empty for Brokerproof's own kinds.
    table: str = ""
    # The suite's own bounds of a metric, each in force for values for which the scenario sets no such bound.
    minimum: FiniteOrNone = None
    maximum: FiniteOrNone = None
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

    def find_bounds(self, minimum: float | None, maximum: float | None) -> Bounds:
        """Return the bounds in force for a value of this metric. `minimum` and `maximum` are those of the scenario."""
        metric = METRICS[self.name]
        return (
            _find_first(minimum, self.minimum, metric.minimum),
            _find_first(maximum, self.maximum, metric.maximum),
        )


def _find_first(*bounds: float | None) -> float | None:
    return next((bound for bound in bounds if bound is not None), None)


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

    def list_measured(self, check: Check) -> list[Measurement]:
        """Return the measurements that an expectation is about; none if it is not about a metric."""
        return [row for row in self.measurements if row.metric == check.name]

    def find_bounds(self, row: Measurement) -> Bounds:
        """Return the bounds in force for a measurement. If several suites have bounds, the tightest are returned."""
        checks = [check for suite in self.suites.values() for check in suite.expectations if check.name == row.metric]
        found = [check.find_bounds(row.minimum, row.maximum) for check in checks]
        minima, maxima = [lower for lower, _ in found], [upper for _, upper in found]
        return (
            max((bound for bound in minima if bound is not None), default=row.minimum),
            min((bound for bound in maxima if bound is not None), default=row.maximum),
        )

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
    """Write `judged` in place of an earlier judgement or failure. Raises MachineError if `judged` cannot be written."""
    write_record(run, judged)
    # If the process is killed here, both records exist. Readers prefer the failure, so they use no replaced judgement.
    remove_record(run, JudgingFailure if isinstance(judged, Judgement) else Judgement)


def read_judgement(run: Run) -> Judgement:
    """Return the judgement that `verify` wrote.

    Raises RunError if the judgement is missing, damaged, of another run or of another version, or if the run could not
    be judged.
    """
    if (failure := read_record(run, JudgingFailure)) is not None:
        raise RunError(failure.why)
    judgement = read_record(run, Judgement)
    if judgement is None:
        raise RunError("nothing was judged: `verify` left no judgement")
    others = {row.run_id for row in judgement.measurements} - {run.run_id}
    if others:
        raise RunError(f"the judgement is of another run: {shorten(', '.join(sorted(others)))}")
    unknown = {row.metric for row in judgement.measurements} - METRICS.keys()
    if unknown:
        names = shorten(", ".join(sorted(unknown)))
        raise RunError(f"the judgement names metrics that this Brokerproof has not: {names}")
    return judgement


def find_judgement(run: Run) -> tuple[Judgement | None, str]:
    """Return the judgement and an empty text, or None and the reason why there is no judgement."""
    try:
        return read_judgement(run), ""
    except RunError as error:
        return None, str(error)
