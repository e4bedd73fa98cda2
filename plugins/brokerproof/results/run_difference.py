"""Two runs side by side: different settings, different results, and which of these results differ by more than noise.

Noise is estimated from the earlier runs that compare with one of the two (comparability.py). A number differs by more
than noise if the difference reaches the allowed change of regressions.py. Its spread is taken √2 times as large,
because each of the two runs has its own noise. A word, such as a verdict, differs by more than noise unless both words
occurred in comparable earlier runs. With fewer than `ENOUGH_TO_SUSPECT` such runs, `larger_than_noise` is None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from brokerproof.experiment.metrics import METRICS, MINIMUM_CHANGE, Worse
from brokerproof.experiment.verdict import DECISIVE
from brokerproof.results.comparability import Difference, list_differences, list_parameter_differences
from brokerproof.results.history_schema import RecordedMeasurement, RecordedRun
from brokerproof.results.regressions import (
    DEFAULT_RULE,
    ENOUGH_TO_SUSPECT,
    UsualValue,
    compute_allowed_change,
    find_values,
    is_worse,
    read_rule,
)
from brokerproof.run.counts import TOTALS
from brokerproof.run.strict_model import StrictModel

# Fields that only describe the scenario and do not affect a run.
_TEXTS = ("title", "description", "tags")
_COUNT_UNIT = "messages"


class WordDifference(StrictModel):
    """A result in words that differs: the verdict, whether the outcome is as expected, or a suite's verdict."""

    name: str
    a: str | None
    b: str | None
    larger_than_noise: bool | None
    # The reason for `larger_than_noise`, as a phrase.
    why: str


class NumberDifference(StrictModel):
    """A count or a measurement that differs, in its unit. `a` and `b` are None if the run has no value.

    `difference` is `b - a`, and `relative` is its share of `a`, None if `a` is 0. `worse` is None if neither direction
    is worse. `noise` is the smallest difference that is more than noise, None if it is not known.
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
    # The reason for `larger_than_noise`, as a phrase.
    why: str


class RunDifference(StrictModel):
    """All differences of the runs with the ids `a` and `b`. `comparable` tells whether the two compare."""

    a: str
    b: str
    comparable: bool
    settings: tuple[Difference, ...]
    versions: tuple[Difference, ...]
    words: tuple[WordDifference, ...]
    counts: tuple[NumberDifference, ...]
    measurements: tuple[NumberDifference, ...]


def compare_two_runs(a: RecordedRun, b: RecordedRun, earlier: Iterable[RecordedRun]) -> RunDifference:
    """Return the differences of b from a. `earlier` are runs before the newer one; they show what is noise.

    Those that compare with neither run are ignored. Raises InputError if the rule in the parameters of b cannot be
    used.
    """
    others = [run for run in earlier if run.run_id not in (a.run_id, b.run_id)]
    groups = [
        [run for run in others if run.comparable == digest] for digest in dict.fromkeys((a.comparable, b.comparable))
    ]
    return RunDifference(
        a=a.run_id,
        b=b.run_id,
        comparable=a.comparable == b.comparable,
        settings=tuple(list_parameter_differences(_drop_texts(a.parameters), _drop_texts(b.parameters))),
        versions=tuple(list_differences(a.versions, b.versions)),
        words=tuple(_list_words(a, b, groups)),
        counts=tuple(_list_counts(a, b, groups)),
        measurements=tuple(_list_measurements(a, b, groups)),
    )


def _drop_texts(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters without the fields that only describe the scenario and do not affect a run."""
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
            larger, why = None, _explain_too_few(groups)
        elif mixed := next((values for values in known if set(pair) <= set(values)), None):
            larger, why = False, f"{len(mixed)} comparable runs before came to both"
        else:
            larger, why = True, f"{max(map(len, known))} comparable runs before did not come to both"
        yield WordDifference(name=name, a=pair[0], b=pair[1], larger_than_noise=larger, why=why)


def _list_counts(a: RecordedRun, b: RecordedRun, groups: Sequence[Sequence[RecordedRun]]) -> Iterator[NumberDifference]:
    def read(run: RecordedRun) -> dict[str, int | None]:
        kinds = {(row.anomaly, row.legal) for other in (a, b) for row in other.anomaly_counts}
        found = {name: getattr(run, name) for name in TOTALS}
        for anomaly, legal in sorted(kinds):
            found[f"{anomaly} ({'legal' if legal else 'illegal'})"] = run.count_anomaly(anomaly, legal=legal)
        return found

    counts_a, counts_b = read(a), read(b)
    for name, count in counts_a.items():
        if count == counts_b[name]:
            continue
        before = [[read(run)[name] for run in group if run.verdict in DECISIVE] for group in groups]
        # More anomalies are worse. For the totals, neither direction is worse.
        worse = None if name in TOTALS else Worse.HIGHER
        yield _compare_numbers(
            name,
            "",
            _COUNT_UNIT,
            count,
            counts_b[name],
            worse,
            DEFAULT_RULE.tolerance,
            before,
            _explain_too_few(groups),
        )


def _list_measurements(
    a: RecordedRun, b: RecordedRun, groups: Sequence[Sequence[RecordedRun]]
) -> Iterator[NumberDifference]:
    rule = read_rule(b)
    rows: dict[tuple[str, str, str], RecordedMeasurement] = {
        (row.metric, row.subject, row.unit): row for run in (a, b) for row in run.measurements
    }
    for (name, subject, unit), row in rows.items():
        value_a, value_b = (next(iter(find_values([run], row)), None) for run in (a, b))
        if value_a == value_b:
            continue
        metric = METRICS.get(name)
        before = [find_values([run for run in group if run.verdict in DECISIVE], row) for group in groups]
        worse = metric.worse if metric else None
        yield _compare_numbers(
            name, subject, unit, value_a, value_b, worse, rule.find_tolerance(name), before, _explain_too_few(groups)
        )


def _compare_numbers(
    name: str,
    subject: str,
    unit: str,
    a: float | None,
    b: float | None,
    worse: Worse | None,
    tolerance: float,
    before: Sequence[Sequence[float | None]],
    too_few: str,
) -> NumberDifference:
    """Return the difference of two values. `before` lists the values of comparable earlier runs, by configuration."""
    difference = None if a is None or b is None else b - a
    known = [[value for value in values if value is not None] for values in before]
    usual = [UsualValue.compute(values) for values in known if len(values) >= ENOUGH_TO_SUSPECT]
    noise, larger, why = None, None, too_few
    if unit not in MINIMUM_CHANGE:
        why = f"no minimum change is set for the unit `{unit}`"
    elif usual:
        noise = max(
            # Each of the two runs has its own noise.
            compute_allowed_change(unit, replace(each, spread=math.sqrt(2) * each.spread), tolerance)
            for each in usual
        )
        widest = max(usual, key=lambda each: each.spread)
        why = f"{len(widest.values)} comparable runs before: {widest.describe(unit)}"
        # If a run has no value, that is more than noise unless an earlier run also had none.
        missing_before = any(None in values for values in before)
        larger = not missing_before if difference is None else abs(difference) >= noise
    return NumberDifference(
        name=name,
        subject=subject,
        unit=unit,
        a=a,
        b=b,
        difference=difference,
        relative=difference / abs(a) if difference is not None and a else None,
        worse=is_worse(worse, a, b),
        noise=noise,
        larger_than_noise=larger,
        why=why,
    )


def _explain_too_few(groups: Sequence[Sequence[RecordedRun]]) -> str:
    return f"the noise is not known: {max(map(len, groups))} comparable runs before, {ENOUGH_TO_SUSPECT} needed"
