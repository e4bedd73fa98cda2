"""Reads a run's report from the run's directory. The report's size does not depend on the number of messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from brokerproof.errors import BrokerproofError, RunError
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.numbers import format_bounds, format_value
from brokerproof.experiment.verdict import Verdict
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.results.story import DescribedFault, describe_faults
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Bounds, Check, Judgement, find_judgement
from brokerproof.run.measurement import Measurement
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import TablesDeletion, read_record
from brokerproof.run.series import RunSeries
from brokerproof.run.table_rows import iterate_rows

NO_SERIES = "The series of this run are missing. `brokerproof verify` makes them from its tables."


class DescribedMeasurement(NamedTuple):
    """A measurement in words: its subject, such as a fault, its value, and its bounds, which are empty if it has none.

    `why` is the reason if it was not measured, and else empty.
    """

    subject: str
    value: str
    bounds: str
    is_within: bool | None
    why: str


@dataclass(frozen=True, kw_only=True)
class ExpectationRow:
    """One expectation of a suite, with its result. If it checks a metric, `values` has the metric's measurements.

    `gap` is the result of `find_gap`.
    """

    suite: str
    check: Check
    values: tuple[DescribedMeasurement, ...]
    gap: str


@dataclass(frozen=True, kw_only=True)
class Segments:
    """How many log segments each node held at the time that `moment` names. `count` is the number of all segments."""

    moment: str
    holders: dict[str, int]
    count: int


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """The content of a run's report. A part that could not be read is None or empty, and `problems` has the reason."""

    run: Run
    outcome: Outcome
    judgement: Judgement | None
    faults: Sequence[DescribedFault]
    series: RunSeries | None
    segments: Sequence[Segments]
    versions: dict[str, str | None]
    problems: tuple[str, ...]

    @property
    def expectations(self) -> list[ExpectationRow]:
        """The expectations of all suites, with the most severe verdicts first."""
        rows = [
            ExpectationRow(
                suite=str(name),
                check=check,
                values=tuple(self._list_values(check)),
                gap=find_gap(self.judgement, check) if self.judgement else "",
            )
            for name, suite in (self.judgement.suites.items() if self.judgement else ())
            for check in suite.expectations
        ]
        return sorted(rows, key=lambda row: -row.check.verdict.severity)

    def _list_values(self, check: Check) -> Iterator[DescribedMeasurement]:
        for row in self.judgement.list_measured(check) if self.judgement else ():
            subject = f"after {row.subject}" if row.subject and METRICS[row.metric].is_per_fault else row.subject
            yield describe_measurement(row, check.find_bounds(row.minimum, row.maximum), subject)


NO_BOUND = "no bound"
NOT_MEASURED = "not measured"


def find_gap(judgement: Judgement, check: Check) -> str:
    """Return what an expectation about a metric lacks if it passed and judged nothing; empty for any other one.

    It lacks a bound (`NO_BOUND`), or the run has nothing that the metric measures (`NOT_MEASURED`).
    """
    if check.verdict is not Verdict.PASSED or check.name not in METRICS:
        return ""
    rows = judgement.list_measured(check)
    if not rows:
        return NOT_MEASURED
    is_bounded = any(check.find_bounds(row.minimum, row.maximum) != (None, None) for row in rows)
    return "" if is_bounded else NO_BOUND


def explain_unmeasured(check: Check) -> str:
    """Return why a run has no measurement of a metric."""
    return f"the run has no {METRICS[check.name].subject} to which it applies"


def describe_measurement(row: Measurement, bounds: Bounds, subject: str = "") -> DescribedMeasurement:
    return DescribedMeasurement(
        subject=subject,
        value=describe_value(row),
        bounds=" and ".join(format_bounds(*bounds, row.unit)),
        is_within=_is_within(row, *bounds),
        why=row.evidence if row.value is None else "",
    )


def describe_value(row: Measurement) -> str:
    """Return a measurement's value with its unit, such as `51 s`, `at least 61 s`, or `not measured`."""
    for words, value in (("", row.value), ("at least ", row.at_least), ("at most ", row.at_most)):
        if value is not None:
            return words + format_value(value, row.unit)
    return NOT_MEASURED


def _is_within(row: Measurement, minimum: float | None, maximum: float | None) -> bool | None:
    """Return whether a measurement is within its bounds; None if it has no bounds, or if this is not known."""
    if (minimum, maximum) == (None, None) or row.doubt is not None:
        return None
    is_exact = row.at_least is None and row.at_most is None
    least, most = (row.value, row.value) if is_exact else (row.at_least, row.at_most)
    if (maximum is not None and least is not None and least > maximum) or (
        minimum is not None and most is not None and most < minimum
    ):
        return False
    return None if row.value is None else True


def read_run_report(run: Run) -> RunReport:
    """Return the content of a run's report, with a sentence in `problems` for each file that cannot be read.

    Raises RunError or InputError if run.json cannot be used.
    """
    outcome = compose_outcome(run)
    judgement, problem = find_judgement(run)
    problems = [problem]
    faults: list[DescribedFault] = []
    segments: list[Segments] = []
    series: RunSeries | None = None
    try:
        faults, segments = describe_faults(run), list(_read_segments(run))
    except (BrokerproofError, OSError, ValueError) as error:
        problems.append(f"The faults or the places of the data cannot be read: {error}")
    try:
        deletion = read_record(run, TablesDeletion)
        if deletion is not None:
            problems.append(f"The messages of this run cannot be looked at any more: {deletion.sentence}.")
        series = read_record(run, RunSeries)
        if series is not None:
            problems.append(series.problem or "")
        elif deletion is None:
            problems.append(NO_SERIES)
    except RunError as error:
        problems.append(str(error))
    return RunReport(
        run=run,
        outcome=outcome,
        judgement=judgement,
        faults=faults,
        series=series,
        segments=segments,
        versions={**run.facts.versions, run.topology.system: run.scenario.version},
        problems=tuple(problem for problem in problems if problem),
    )


def _read_segments(run: Run) -> Iterator[Segments]:
    """Yield how many segments each node held at the first and at the last time in the run's table `copies`."""
    by_moment: dict[tuple[int, str], tuple[set[tuple[object, ...]], dict[str, set[tuple[object, ...]]]]] = {}
    for row in iterate_rows(run, "copies", filled=("at", "moment")):
        segments, holders = by_moment.setdefault((row["at"], row["moment"]), (set(), {}))
        segment = (row["cluster"], row["topic"], row["segment"])
        segments.add(segment)
        for node in row["holders"] or ():
            holders.setdefault(node, set()).add(segment)
    moments = sorted(by_moment)
    for at, moment in [*moments[:1], *(moments[-1:] if len(moments) > 1 else [])]:
        segments, holders = by_moment[at, moment]
        yield Segments(
            moment=moment, holders={node: len(held) for node, held in sorted(holders.items())}, count=len(segments)
        )
