"""Runs in groups, such as those of one version. Each group is compared with the first, usually the largest.

Two groups differ in a measurement if the difference of their medians is more than noise. For this, it must reach
`SPREADS` times its standard error, the tolerance of the scenario's regression rule, and the smallest change that counts
in the unit. The standard error is s × √(π/2) × √(1/n + 1/m), asymptotic for normally distributed values. Here s is the
larger spread of the two groups, and n and m are their numbers of runs.

If one of the groups has fewer than `ENOUGH_TO_SUSPECT` runs, `larger_than_noise` is None. At most 1 in 100 differences
that are only noise counts as larger. This was measured on lognormal noise with a spread of 3 to 25 % and groups of 5 to
30 runs (tests/unit/results/test_run_groups.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from statistics import median

from brokerproof.experiment.metrics import METRICS, MINIMUM_CHANGE
from brokerproof.experiment.numbers import format_value
from brokerproof.experiment.scenario import RegressionRule
from brokerproof.experiment.verdict import DECISIVE
from brokerproof.results.comparability import describe_differences
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.rates import RateRow, list_rates
from brokerproof.results.regressions import (
    ENOUGH_TO_SUSPECT,
    SPREADS,
    UsualValue,
    compute_allowed_change,
    is_worse,
    read_rule,
)
from brokerproof.run.strict_model import StrictModel

# The number of last runs that are grouped by default.
GROUPED_RUNS = 200
# The number of groups that get a column. Further groups are only named.
MOST_COLUMNS = 6
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
GROUP_RULE = (
    "Two groups differ in a measurement if their medians are further apart than the tolerance of the scenario (usually "
    f"10 %), than {SPREADS:g} standard errors of the difference of two such medians, and than the smallest difference "
    f"that counts in its unit. With under {ENOUGH_TO_SUSPECT} judged runs in one of them, the difference is not known."
)


class GroupBy(StrEnum):
    """The property that is equal in all runs of a group."""

    VERSION = "version"
    SETTINGS = "settings"
    SYSTEM = "system"
    RUNTIME = "runtime"
    # The case of a scenario's matrix.
    CASE = "case"


class GroupedMeasurement(StrictModel):
    """A measurement in those runs of a group that passed or failed: `n` values, with their median, least and greatest.

    `difference` and the fields after it compare the group with the first group; in the first group, they are not set.
    `difference` is the group's median minus the first group's. `why` is the reason for `larger_than_noise`.
    """

    metric: str
    subject: str
    unit: str
    n: int
    median: float
    least: float
    greatest: float
    difference: float | None = None
    larger_than_noise: bool | None = None
    worse: bool | None = None
    why: str = ""


class RunGroup(StrictModel):
    """The runs with the same value of one property, such as the version. This value is the group's name.

    Groups by settings are named 1, 2, …; `differences` are the settings in which the group differs from group 1.
    """

    name: str
    differences: tuple[str, ...] = ()
    run_ids: tuple[str, ...]
    # The number of runs by verdict.
    verdicts: dict[str, int]
    # How often a judged run failed, and whether this differs from the first group.
    rate: RateRow
    measurements: tuple[GroupedMeasurement, ...]


# The metric, subject and unit of a measurement.
MeasurementName = tuple[str, str, str]


def group_runs(runs: Sequence[RecordedRun], by: GroupBy, *, scenario: str = "") -> list[RunGroup]:
    """Return runs in groups, the largest first. If `scenario` is given, the groups of this scenario come before others.

    `runs` may be of several scenarios only if `by` is the settings, because then each group has runs of one scenario.
    All groups use the tolerances of the newest run's regression rule. Raises InputError if this rule cannot be used.
    """
    members: dict[str, list[RecordedRun]] = {}
    for run in runs:
        members.setdefault(_find_group(run, by), []).append(run)
    ordered = sorted(members.items(), key=lambda item: (scenario not in ("", item[1][0].scenario), -len(item[1])))
    if not ordered:
        return []
    rule = read_rule(max(runs, key=lambda run: run.started_at))
    first = ordered[0][1]
    reference = _collect_values(first)
    is_by_settings = by is GroupBy.SETTINGS
    rates = list_rates((key, run.verdict) for key, group in ordered for run in group)
    return [
        RunGroup(
            name=str(number) if is_by_settings else key,
            differences=tuple(describe_differences(first[0].parameters, group[0].parameters)) if is_by_settings else (),
            run_ids=tuple(run.run_id for run in group),
            verdicts={
                verdict: sum(run.verdict == verdict for run in group) for verdict in sorted({r.verdict for r in group})
            },
            rate=rates[number - 1],
            measurements=tuple(
                _summarize(name, values, None if group is first else reference.get(name, []), rule)
                for name, values in _collect_values(group).items()
            ),
        )
        for number, (key, group) in enumerate(ordered, 1)
    ]


def list_rows(groups: Sequence[RunGroup]) -> list[tuple[MeasurementName, list[GroupedMeasurement | None]]]:
    """Return each measurement with one item for each group. The item is None if the group has no value.

    Measurements that differ by more than noise in a group come first.
    """
    found = [{(one.metric, one.subject, one.unit): one for one in group.measurements} for group in groups]
    rows = [(name, [one.get(name) for one in found]) for name in dict.fromkeys(name for one in found for name in one)]
    return sorted(rows, key=lambda row: not any(cell and cell.larger_than_noise for cell in row[1]))


def _find_group(run: RecordedRun, by: GroupBy) -> str:
    if by is GroupBy.VERSION:
        return f"{run.system} {run.system_version}"
    if by is GroupBy.CASE:
        return run.parameters["scenario"].get("case") or "no case"
    return {GroupBy.SETTINGS: run.comparable, GroupBy.SYSTEM: run.system, GroupBy.RUNTIME: run.runtime}[by]


def _collect_values(group: Sequence[RecordedRun]) -> dict[MeasurementName, list[float]]:
    values: dict[MeasurementName, list[float]] = {}
    for run in group:
        for row in run.measurements if run.verdict in DECISIVE else ():
            if row.value is not None:
                values.setdefault((row.metric, row.subject, row.unit), []).append(row.value)
    return values


def _summarize(
    name: MeasurementName, values: Sequence[float], reference: Sequence[float] | None, rule: RegressionRule
) -> GroupedMeasurement:
    """Return a measurement of a group. `reference` has the first group's values, or is None for the first group."""
    metric, subject, unit = name
    summary = GroupedMeasurement(
        metric=metric,
        subject=subject,
        unit=unit,
        n=len(values),
        median=median(values),
        least=min(values),
        greatest=max(values),
    )
    if reference is None:
        return summary
    if not reference:
        return summary.model_copy(update={"why": "the first group has no value"})
    usual = median(reference)
    difference = summary.median - usual
    direction = METRICS[metric].worse if metric in METRICS and difference else None
    found = {"difference": difference, "worse": is_worse(direction, usual, summary.median)}
    fewest = min(len(values), len(reference))
    if fewest < ENOUGH_TO_SUSPECT:
        why = f"the noise is not known: {fewest} judged runs in one group, {ENOUGH_TO_SUSPECT} needed"
        return summary.model_copy(update=found | {"why": why})
    if unit not in MINIMUM_CHANGE:
        return summary.model_copy(update=found | {"why": f"no minimum change is set for the unit `{unit}`"})
    noise = _compute_noise(unit, values, reference, rule.find_tolerance(metric))
    larger = abs(difference) >= noise
    why = f"with {len(reference)} and {len(values)} judged runs, {format_value(noise, unit)} or more is not noise"
    return summary.model_copy(update=found | {"larger_than_noise": larger, "why": why})


def _compute_noise(unit: str, values: Sequence[float], reference: Sequence[float], tolerance: float) -> float:
    """Return the smallest difference of the two groups' medians that is more than noise, in `unit`."""
    usual = UsualValue.compute(reference)
    spread = max(usual.spread, UsualValue.compute(values).spread)
    error = spread * _MEDIAN_ERROR * math.sqrt(1 / len(values) + 1 / len(reference))
    return compute_allowed_change(unit, replace(usual, spread=error), tolerance)
