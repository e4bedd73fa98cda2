"""Whether a run is worse than the comparable runs before it (comparability.py defines which runs are comparable).

A regression is a measurement or a verdict that got worse. If it is confirmed, it is a mark of the run, and otherwise a
suspicion.

**Measurements.** `RULE` is the rule in words. A single worse run may be an outlier, so a mark needs `CONFIRMING` worse
runs among the last `RECENT`. These are compared with the usual value (the median) and its spread in a window of the
runs before them. A few bad runs in this window change neither the median nor the spread much. After a lasting change,
runs are marked until more than a third of the window's runs are newer than the change, because such runs then widen
the spread.

**Which changes the rule finds** depends on the spread. These figures were measured on lognormal noise, with outliers in
3 to 5 of 100 runs and a window of 12 to 30 runs (tests/unit/results/test_regression_rule.py):

| usual spread / usual value | marks in 1,000 runs of noise | changes of `STEP` that are marked within 5, 6, 12 runs |
|---|---|---|
| 0.03, typical of an RTO | 0.0 | 100 %, 100 %, 100 % |
| 0.04 | 0.0 | 98 to 99 %, 99.8 to 100 %, 99.8 to 100 % |
| 0.06, typical of a gap in acks | 0.0 | 62 to 70 %, 86 to 89 %, 88 to 93 % |
| 0.12, typical of a median latency | 0.0 to 0.15 | 3 to 5 %, 8 to 12 %, 12 to 15 % |
| 0.25, typical of a 99th percentile of the latency | 0.05 to 0.25 | under 1 %, 1 %, 1 to 2 % |

If the spread is above `LARGEST_TELLING_SPREAD` of the usual value, most changes of `STEP` are never marked. A note then
states the smallest change that can be marked.

**Verdicts.** A run is as expected if it has the verdict, the anomalies and the failed suites that its scenario expects.
Otherwise, it is compared with the newest comparable run before it. Its verdict is marked if that run was as expected.
It is also marked if it is not the expected verdict and is more severe than that run's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median

from brokerproof.experiment.metrics import METRICS, MINIMUM_CHANGE, Worse
from brokerproof.experiment.numbers import format_value
from brokerproof.experiment.scenario import RegressionRule
from brokerproof.experiment.verdict import Verdict
from brokerproof.experiment.yaml_models import parse
from brokerproof.results.comparability import describe_differences, list_differences
from brokerproof.results.history_schema import RecordedMeasurement, RecordedRun

# A mark needs a worse value in CONFIRMING of the RECENT newest runs, including the run itself.
RECENT = 6
CONFIRMING = 5
# A mark needs a usual value from at least ENOUGH runs, and a suspicion from at least ENOUGH_TO_SUSPECT runs.
ENOUGH = 12
ENOUGH_TO_SUSPECT = 5
SPREADS = 3.0
DEFAULT_RULE = RegressionRule()
# A change by this share of the usual value matters to users.
STEP = 0.3
LARGEST_TELLING_SPREAD = STEP / SPREADS

# The spread is computed from the _NEAREST share of the values that is nearest to the median. For normally distributed
# values, their mean distance from the median times _MEAN_DISTANCE_TO_DEVIATION is the standard deviation. This estimate
# varies less than a median absolute deviation.
_NEAREST = 0.7
_MEAN_DISTANCE_TO_DEVIATION = 2.111
# In these units of exact counts, a value above 0 is no noise if all earlier values were 0.
_COUNTED_UNITS = ("messages", "segments")


def describe_rule(rule: RegressionRule = DEFAULT_RULE) -> str:
    """Return the rule for measurements as sentences, with the tolerance and the window of `rule`."""
    return (
        f"A measurement is marked if it and {CONFIRMING - 1} of the {RECENT - 1} comparable runs before it are worse "
        f"than the usual value, the median of the up to {rule.window} comparable runs before those, by at least "
        f"{rule.tolerance:.0%} of it, by {SPREADS:g} usual spreads (their standard deviation, from the "
        f"{_NEAREST:.0%} of them nearest to it) and by the smallest difference that counts in its unit. A count that "
        f"was 0 in each of at least {ENOUGH_TO_SUSPECT} runs is marked as soon as it is not. With fewer than {ENOUGH} "
        f"runs for the usual value, only such a count is marked. A run that is worse by the same margin, and not "
        f"confirmed by the runs before it, is only suspected, if at least {ENOUGH_TO_SUSPECT} runs came before it."
    )


RULE = describe_rule()


@dataclass(frozen=True, kw_only=True)
class Regression:
    """A measurement or a verdict that got worse, or is suspected to be worse.

    `value`, `usual` and `spread` are in `unit`, and None for a verdict. `reason` is a sentence.
    """

    metric: str
    subject: str
    value: float | None
    usual: float | None
    spread: float | None
    unit: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """A run compared with the runs before it.

    `marks` are the run's regressions. `suspicions` are regressions that are large enough for a mark, but that too few
    other runs confirm. `notes` are sentences about measurements that were not compared or that vary much.
    """

    run_id: str
    compared_with: tuple[str, ...]
    marks: tuple[Regression, ...]
    suspicions: tuple[Regression, ...]
    notes: tuple[str, ...]
    changed_versions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class UsualValue:
    """The values of a measurement in several runs, with their median and spread, all in the measurement's unit."""

    values: tuple[float, ...]
    median: float
    spread: float

    @classmethod
    def compute(cls, values: Sequence[float]) -> UsualValue:
        """Return the median and the spread of `values`. Raises StatisticsError if there are no values."""
        usual = median(values)
        distances = sorted(abs(value - usual) for value in values)
        nearest = distances[: math.ceil(_NEAREST * len(distances))]
        return cls(values=tuple(values), median=usual, spread=_MEAN_DISTANCE_TO_DEVIATION * mean(nearest))

    def describe(self, unit: str) -> str:
        """Return the median and the spread as text, such as `52 ± 1.06 s`."""
        return f"{format_value(self.median)} ± {format_value(self.spread, unit)}"


def read_rule(run: RecordedRun) -> RegressionRule:
    """Return the rule that a run's scenario sets, or the default rule. Raises InputError if the rule cannot be used."""
    return parse(
        RegressionRule, run.parameters["scenario"].get("regression") or {}, file=f"the history of {run.run_id}"
    )


def count_needed_runs(rule: RegressionRule) -> int:
    """Return the number of earlier comparable runs that a comparison reads at most."""
    return rule.window + RECENT - 1


def compare_run(
    run: RecordedRun, *, baseline: Sequence[RecordedRun], previous: RecordedRun | None, incomparable: RecordedRun | None
) -> RunComparison:
    """Compare a run with the runs before it.

    `baseline` are the newest comparable runs that passed or failed, newest first, at most `count_needed_runs`.
    `previous` is the newest comparable run with any verdict. `incomparable` is the newest run of the scenario with
    other parameters; a note names it if there are too few comparable runs. Raises InputError if the rule in the run's
    parameters cannot be used.
    """
    marks = list(_compare_verdicts(run, previous)) if previous else []
    suspicions: list[Regression] = []
    notes: list[str] = []
    if len(baseline) < ENOUGH_TO_SUSPECT:
        notes.append(
            f"measurements are not compared: {len(baseline)} comparable judged runs before it, "
            f"{ENOUGH_TO_SUSPECT} needed"
        )
        if incomparable:
            different = describe_differences(incomparable.parameters, run.parameters)
            notes.append(f"run {incomparable.run_id} is not comparable: {'; '.join(different[:5])}")
    else:
        for regression, is_confirmed in _compare_measurements(run, baseline, notes):
            (marks if is_confirmed else suspicions).append(regression)
    last = previous or (baseline[0] if baseline else None)
    return RunComparison(
        run_id=run.run_id,
        compared_with=tuple(earlier.run_id for earlier in baseline),
        marks=tuple(marks),
        suspicions=tuple(suspicions),
        notes=tuple(notes),
        changed_versions=tuple(map(str, list_differences(last.versions, run.versions))) if last else (),
    )


def compute_allowed_change(unit: str, usual: UsualValue, tolerance: float) -> float:
    """Return the smallest difference from the median that is more than noise, in `unit`."""
    return max(MINIMUM_CHANGE[unit], tolerance * abs(usual.median), SPREADS * usual.spread)


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
    # A run with the expected verdict can still lack an expected anomaly or an expected failed suite.
    return " (not as expected)" if run.verdict == run.expected_verdict else f" (expected {run.expected_verdict})"


def _compare_measurements(
    run: RecordedRun, baseline: Sequence[RecordedRun], notes: list[str]
) -> Iterator[tuple[Regression, bool]]:
    """Yield (regression, whether enough runs confirm it) for each measurement of the run that got worse.

    Add a sentence to `notes` for each measurement that has too little history or a large spread, or whose unit is not
    in `MINIMUM_CHANGE`.
    """
    rule = read_rule(run)
    recent, before = baseline[: RECENT - 1], baseline[RECENT - 1 :][: rule.window]
    if len(before) < ENOUGH:
        # There are too few runs for a mark, so all of them serve as history for a suspicion.
        recent, before = (), baseline
    for row in run.measurements:
        metric = METRICS.get(row.metric)
        if metric is None or not metric.compared:
            continue
        name = f"{row.metric} of {row.subject}" if row.subject else row.metric
        if row.unit not in MINIMUM_CHANGE:
            notes.append(f"{name} is not compared: no minimum change is set for the unit `{row.unit}`")
            continue
        values = [value for value in find_values(before, row) if value is not None]
        if len(values) < ENOUGH_TO_SUSPECT:
            notes.append(
                f"{name} is not compared: measured in {len(values)} comparable runs, {ENOUGH_TO_SUSPECT} needed"
            )
            continue
        usual = UsualValue.compute(values)
        allowed = compute_allowed_change(row.unit, usual, rule.find_tolerance(row.metric))
        if usual.spread > LARGEST_TELLING_SPREAD * abs(usual.median) and allowed > MINIMUM_CHANGE[row.unit]:
            notes.append(
                f"{name} varies by {format_value(usual.spread, row.unit)}: a change of under "
                f"{format_value(allowed, row.unit)} cannot be told from its noise"
            )
        if not is_worse(metric.worse, usual.median, row.value, by=allowed):
            continue
        alike = 1 + sum(
            is_worse(metric.worse, usual.median, value, by=allowed) is True for value in find_values(recent, row)
        )
        was_always_0 = row.unit in _COUNTED_UNITS and not any(values) and not any(find_values(recent, row))
        is_confirmed = len(values) >= ENOUGH and alike >= CONFIRMING
        if was_always_0 and row.value is not None:
            is_confirmed = True
        yield (
            _make_regression(row, name, usual, "" if is_confirmed else _explain_suspicion(values, alike)),
            is_confirmed,
        )


def _explain_suspicion(values: Sequence[float], alike: int) -> str:
    if len(values) < ENOUGH:
        return f"; a mark needs {ENOUGH + RECENT - 1} comparable runs before it"
    return f"; {alike} of the last {RECENT} runs like this, {CONFIRMING} needed for a mark"


def find_values(runs: Sequence[RecordedRun], row: RecordedMeasurement) -> list[float | None]:
    """Return each run's value for the metric, subject and unit of `row`. A run without this measurement is left out."""
    return [
        other.value
        for run in runs
        for other in run.measurements
        if (other.metric, other.subject, other.unit) == (row.metric, row.subject, row.unit)
    ]


def is_worse(worse: Worse | None, usual: float | None, value: float | None, *, by: float = 0) -> bool | None:
    """Return whether `value` is worse than `usual` by at least `by`. A missing value is worse than any other value.

    `worse` is the direction in which the metric gets worse. If it is None, the result is None.
    """
    if worse is None:
        return None
    if usual is None or value is None:
        return value is None
    change = usual - value if worse is Worse.LOWER else value - usual
    return change > 0 and change >= by


def _make_regression(row: RecordedMeasurement, name: str, usual: UsualValue, reservation: str) -> Regression:
    found = "could not be measured" if row.value is None else f"is {format_value(row.value, row.unit)}"
    reason = (
        f"{name} {found}, usually {usual.describe(row.unit)} "
        f"(median of {len(usual.values)} comparable runs){reservation}"
    )
    return Regression(
        metric=row.metric,
        subject=row.subject,
        value=row.value,
        usual=usual.median,
        spread=usual.spread,
        unit=row.unit,
        reason=reason,
    )
