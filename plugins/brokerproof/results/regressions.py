"""Whether a run is worse than the comparable runs before it (comparability.py says which runs compare).

**When a measurement is marked.** Of the last `WINDOW` comparable runs that passed or failed, at least `ENOUGH` must
have the metric for the same subject. Their median is the usual value. The usual spread is 1.4826 times their median
absolute deviation (MAD), so that one bad run moves neither of the two. The run is marked if it is worse than the
median by at least the largest of: `SPREADS` usual spreads; `MINIMUM_CHANGE` of the unit (metrics.py), so that noise
after identical runs is not marked; and `MINIMUM_SHARE` of the median. A value that usually exists and could not
be measured this time is marked too. With less history nothing is marked, and a note says so. After a change that
stays, the marks end when half of the window consists of new runs: they show where the line bends.

**When a verdict is marked.** A verdict is marked if it is worse than that of the comparable run just before, whatever
the amount of history: the verdict before was the expected one and this one is not, or this one is not expected and is
more severe. So a control that expects `failed` regresses when it stops failing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from brokerproof.experiment.metrics import METRICS, MINIMUM_CHANGE, Worse
from brokerproof.experiment.verdict import Verdict
from brokerproof.results.comparability import list_differences, select_comparable
from brokerproof.results.history_schema import RecordedRun

WINDOW = 10
ENOUGH = 5
SPREADS = 3.0
MINIMUM_SHARE = 0.1

# With this factor the MAD of normally distributed values is their standard deviation.
_MAD_TO_DEVIATION = 1.4826


@dataclass(frozen=True, kw_only=True)
class Regression:
    """One thing that got worse. `usual` and `spread` are in `unit`, and None for a verdict; `reason` is a sentence."""

    metric: str
    subject: str
    value: float | None
    usual: float | None
    spread: float | None
    unit: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """A run against the runs before it: its regressions, notes on what was not compared, and the changed versions."""

    run_id: str
    compared_with: tuple[str, ...]
    marks: tuple[Regression, ...]
    notes: tuple[str, ...]
    changed_versions: tuple[str, ...]


def compare_run(
    run: RecordedRun,
    *,
    baseline: Sequence[RecordedRun],
    previous: RecordedRun | None,
    incomparable: RecordedRun | None,
) -> RunComparison:
    """Compare a run with the runs before it.

    `baseline` are the comparable runs that passed or failed, newest first, at most WINDOW. `previous` is the newest
    comparable run, whatever its verdict. `incomparable` is the newest run of the scenario with other parameters, for
    the note that explains why there is little history.
    """
    marks = list(_compare_verdicts(run, previous)) if previous else []
    notes: list[str] = []
    if len(baseline) < ENOUGH:
        notes.append(
            f"measurements are not compared: {len(baseline)} comparable judged runs before it, {ENOUGH} needed"
        )
        if incomparable:
            different = list_differences(select_comparable(incomparable.parameters), select_comparable(run.parameters))
            notes.append(f"run {incomparable.run_id} is not comparable: {'; '.join(different[:5])}")
    else:
        marks += _compare_measurements(run, baseline, notes)
    last = previous or (baseline[0] if baseline else None)
    return RunComparison(
        run_id=run.run_id,
        compared_with=tuple(earlier.run_id for earlier in baseline),
        marks=tuple(marks),
        notes=tuple(notes),
        changed_versions=tuple(list_differences(last.versions, run.versions)) if last else (),
    )


def compute_smallest_change(unit: str, usual: float) -> float:
    """The smallest difference from the usual value that counts, in its unit, where the usual values have no spread."""
    return max(MINIMUM_CHANGE[unit], MINIMUM_SHARE * abs(usual))


def _compare_verdicts(run: RecordedRun, previous: RecordedRun) -> Iterable[Regression]:
    more_severe = Verdict(run.verdict).severity > Verdict(previous.verdict).severity
    if not run.met and (previous.met or (more_severe and run.verdict != run.expected_verdict)):
        yield Regression(
            metric="verdict",
            subject="",
            value=None,
            usual=None,
            spread=None,
            unit="",
            reason=f"the verdict is {run.verdict}{_describe_expectation(run)} and was "
            f"{previous.verdict}{_describe_expectation(previous)} in {previous.run_id}",
        )


def _describe_expectation(run: RecordedRun) -> str:
    if run.met:
        return " (as expected)"
    # The verdict can be the expected one while an expected anomaly or an expected failed suite is missing.
    return " (not as expected)" if run.verdict == run.expected_verdict else f" (expected {run.expected_verdict})"


def _compare_measurements(run: RecordedRun, baseline: Sequence[RecordedRun], notes: list[str]) -> Iterable[Regression]:
    """The regressions of the run's measurements. Adds a note for each measurement that has too little history."""
    for row in run.measurements:
        metric = METRICS.get(row.metric)
        if metric is None or not metric.compared:
            continue
        name = f"{row.metric} of {row.subject}" if row.subject else row.metric
        if row.unit not in MINIMUM_CHANGE:
            notes.append(f"{name} is not compared: no minimum change is set for the unit `{row.unit}`")
            continue
        values = [
            earlier.value
            for other in baseline
            for earlier in other.measurements
            if (earlier.metric, earlier.subject, earlier.unit) == (row.metric, row.subject, row.unit)
            and earlier.value is not None
        ]
        if len(values) < ENOUGH:
            notes.append(f"{name} is not compared: measured in {len(values)} comparable runs, {ENOUGH} needed")
            continue
        usual = median(values)
        spread = _MAD_TO_DEVIATION * median(abs(value - usual) for value in values)
        against = (
            f"usually {_format_value(usual)} ± {_format_value(spread)} {row.unit} "
            f"(median of {len(values)} comparable runs)"
        )
        if row.value is None:
            reason = f"{name} could not be measured, {against}"
        else:
            worse_by = usual - row.value if metric.worse is Worse.LOWER else row.value - usual
            allowed = max(SPREADS * spread, compute_smallest_change(row.unit, usual))
            if worse_by < allowed:
                continue
            reason = f"{name} is {_format_value(row.value)} {row.unit}, {against}"
        yield Regression(
            metric=row.metric,
            subject=row.subject,
            value=row.value,
            usual=usual,
            spread=spread,
            unit=row.unit,
            reason=reason,
        )


def _format_value(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
