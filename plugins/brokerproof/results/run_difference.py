"""Two runs side by side: different settings, different results, and which of these results differ by more than noise.

Noise is estimated from earlier runs that are comparable with one of the two (comparability.py). Two numbers differ by
more than noise if they differ by at least the change that regressions.py allows. This change depends on the spread of
the earlier runs, which is multiplied by √2 here, because both runs have noise. Two words, such as verdicts, differ by
more than noise unless both occurred in comparable earlier runs. With fewer than `ENOUGH_TO_SUSPECT` such runs,
`larger_than_noise` is None. Illegal anomalies are proven one by one: if there are more of them, or none any more, this
is never noise. `RunDifference.rule` has the rule in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from brokerproof.experiment.metrics import METRICS, MINIMUM_CHANGE, Worse
from brokerproof.experiment.scenario import RegressionRule
from brokerproof.experiment.verdict import DECISIVE
from brokerproof.results.comparability import Difference, list_differences, list_parameter_differences
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.regressions import (
    DEFAULT_RULE,
    ENOUGH_TO_SUSPECT,
    SPREADS,
    UsualValue,
    compute_allowed_change,
    find_values,
    is_worse,
    read_rule,
)
from brokerproof.run.judgement import TOTALS
from brokerproof.run.strict_model import StrictModel

# Fields that only describe the scenario and do not affect a run.
_TEXTS = ("title", "description", "tags")


class WordDifference(StrictModel):
    """A verdict, a suite's verdict, or "as expected" (yes or no) that is not the same in both runs.

    `a` or `b` is None if that run has no such suite.
    """

    name: str
    a: str | None
    b: str | None
    larger_than_noise: bool | None
    # What the runs before tell about it, as a phrase; empty if the rule of the comparison is the whole reason.
    why: str


class NumberDifference(StrictModel):
    """A count or measurement that is not the same in both runs. All numbers except `relative` are in `unit`.

    `a` or `b` is None if that run has no value; then `difference` and `relative` are None too. `difference` is `b - a`,
    and `relative` is `difference / |a|`, None also if `a` is 0. `worse` says whether b is worse than a; None if neither
    higher nor lower values count as worse. `noise` is the smallest difference that is more than noise, None if it is
    not known.
    """

    name: str
    subject: str = ""
    unit: str
    a: float | None
    b: float | None
    difference: float | None
    relative: float | None
    worse: bool | None
    noise: float | None
    larger_than_noise: bool | None
    # What the runs before tell about it, as a phrase; empty if the rule of the comparison is the whole reason.
    why: str


class RunDifference(StrictModel):
    """All differences of the runs with the ids `a` and `b`. `comparable` is True if their parameters are comparable.

    `rule` says in sentences which differences are larger than noise, or why the noise is not known.
    """

    a: str
    b: str
    comparable: bool
    rule: str
    settings: tuple[Difference, ...]
    versions: tuple[Difference, ...]
    words: tuple[WordDifference, ...]
    counts: tuple[NumberDifference, ...]
    measurements: tuple[NumberDifference, ...]


def compare_two_runs(a: RecordedRun, b: RecordedRun, earlier: Iterable[RecordedRun]) -> RunDifference:
    """Return how run b differs from run a. Noise is estimated from `earlier`, runs before the newer of the two.

    Raises InputError if the regression rule in the parameters of b cannot be used.
    """
    others = [run for run in earlier if run.run_id not in (a.run_id, b.run_id)]
    groups = [
        [run for run in others if run.comparable == digest] for digest in dict.fromkeys((a.comparable, b.comparable))
    ]
    return RunDifference(
        a=a.run_id,
        b=b.run_id,
        comparable=a.comparable == b.comparable,
        rule=_describe_rule(groups, read_rule(b)),
        settings=tuple(list_parameter_differences(_drop_texts(a.parameters), _drop_texts(b.parameters))),
        versions=tuple(list_differences(a.versions, b.versions)),
        words=tuple(_list_words(a, b, groups)),
        counts=tuple(_compare_numbers(_list_counts(a, b), a, b, groups)),
        measurements=tuple(_compare_numbers(_list_measurements(a, b), a, b, groups)),
    )


def _drop_texts(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        source: {name: value for name, value in (fields or {}).items() if name not in _TEXTS}
        for source, fields in parameters.items()
    }


def _list_words(a: RecordedRun, b: RecordedRun, groups: Sequence[Sequence[RecordedRun]]) -> Iterator[WordDifference]:
    def read(run: RecordedRun) -> dict[str, str | None]:
        return {
            "verdict": run.verdict,
            "as expected": "yes" if run.met else "no",
            **{f"suite {suite}": verdict for suite, verdict in run.suites.items()},
        }

    words_a, words_b = read(a), read(b)
    for name in dict.fromkeys([*words_a, *words_b]):
        pair = words_a.get(name), words_b.get(name)
        if pair[0] == pair[1]:
            continue
        known = [[read(run).get(name) for run in group] for group in groups if len(group) >= ENOUGH_TO_SUSPECT]
        if not known:
            larger, why = None, ""
        elif mixed := next((values for values in known if set(pair) <= set(values)), None):
            larger, why = False, f"{len(mixed)} runs before had both results"
        else:
            larger, why = True, f"{max(map(len, known))} runs before did not have both results"
        yield WordDifference(name=name, a=pair[0], b=pair[1], larger_than_noise=larger, why=why)


class _Number(NamedTuple):
    """A count or measurement. `find` returns the number's values in the given runs, at most one for each run."""

    name: str
    subject: str
    unit: str
    worse: Worse | None
    tolerance: float
    is_illegal: bool
    find: Callable[[Sequence[RecordedRun]], Sequence[float | None]]


def _list_counts(a: RecordedRun, b: RecordedRun) -> Iterator[_Number]:
    for name in TOTALS:
        # For the totals, neither direction is worse.
        yield _Number(name, "", "messages", None, DEFAULT_RULE.tolerance, False, partial(_read_totals, name=name))
    for anomaly, legal in sorted({(row.anomaly, row.legal) for run in (a, b) for row in run.anomaly_counts}):
        title, find = f"{anomaly} ({'legal' if legal else 'illegal'})", partial(_count, anomaly=anomaly, legal=legal)
        yield _Number(title, "", "messages", Worse.HIGHER, DEFAULT_RULE.tolerance, not legal, find)


def _read_totals(runs: Sequence[RecordedRun], *, name: str) -> list[float | None]:
    return [getattr(run, name) for run in runs]


def _count(runs: Sequence[RecordedRun], *, anomaly: str, legal: bool) -> list[int | None]:
    return [run.count_anomaly(anomaly, legal=legal) for run in runs]


def _list_measurements(a: RecordedRun, b: RecordedRun) -> Iterator[_Number]:
    rule = read_rule(b)
    rows = {(row.metric, row.subject, row.unit): row for run in (a, b) for row in run.measurements}
    for (name, subject, unit), row in rows.items():
        worse = METRICS[name].worse if name in METRICS else None
        yield _Number(name, subject, unit, worse, rule.find_tolerance(name), False, partial(find_values, row=row))


def _compare_numbers(
    numbers: Iterable[_Number], a: RecordedRun, b: RecordedRun, groups: Sequence[Sequence[RecordedRun]]
) -> Iterator[NumberDifference]:
    """Yield the numbers that differ. Each of `groups` has earlier runs that are comparable with each other."""
    for name, subject, unit, worse, tolerance, is_illegal, find in numbers:
        value_a, value_b = (next(iter(find([run])), None) for run in (a, b))
        if value_a == value_b:
            continue
        difference = None if value_a is None or value_b is None else value_b - value_a
        before = [find([run for run in group if run.verdict in DECISIVE]) for group in groups]
        known = [[value for value in values if value is not None] for values in before]
        usual = [UsualValue.compute(values) for values in known if len(values) >= ENOUGH_TO_SUSPECT]
        noise, larger, why = None, None, ""
        if unit not in MINIMUM_CHANGE:
            why = f"no minimum change is set for the unit `{unit}`"
        elif usual:
            noise = max(
                compute_allowed_change(unit, replace(each, spread=math.sqrt(2) * each.spread), tolerance)
                for each in usual
            )
            widest = max(usual, key=lambda each: each.spread)
            why = f"usually {widest.describe(unit)} in {len(widest.values)} runs"
            # If a run has no value, that is more than noise unless an earlier run also had none.
            missing_before = any(None in values for values in before)
            larger = not missing_before if difference is None else abs(difference) >= noise
        elif any(len(group) >= ENOUGH_TO_SUSPECT for group in groups):
            why = f"measured in {max(map(len, known))} judged runs before, {ENOUGH_TO_SUSPECT} needed"
        if is_illegal and difference is not None and (difference > 0 or value_b == 0):
            larger = True
        yield NumberDifference(
            name=name,
            subject=subject,
            unit=unit,
            a=value_a,
            b=value_b,
            difference=difference,
            relative=difference / abs(value_a) if difference is not None and value_a else None,
            # Illegal anomalies are not fewer than those of a run that was not judged.
            worse=None if is_illegal and value_a is None else is_worse(worse, value_a, value_b),
            noise=noise,
            larger_than_noise=larger,
            why=why,
        )


def _describe_rule(groups: Sequence[Sequence[RecordedRun]], rule: RegressionRule) -> str:
    illegal = (
        "An illegal anomaly that is found more often is always worse, and one that is not found any more is better."
    )
    most = max(map(len, groups))
    if most < ENOUGH_TO_SUSPECT:
        return f"The noise is not known: {most} comparable runs before, {ENOUGH_TO_SUSPECT} needed. {illegal}"
    return (
        f"A number differs by more than noise if it changes by at least {rule.tolerance:.0%} of its usual value, by "
        f"{SPREADS:g} × √2 spreads of the comparable runs before, and by the smallest difference that counts in its "
        f"unit. A verdict differs by more than noise unless these runs had both verdicts. {illegal}"
    )
