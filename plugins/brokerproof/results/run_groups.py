"""The runs of one scenario in groups: over versions, settings, systems or runtimes, each against the largest of them.

Two groups differ in a measurement if their medians are further apart than noise moves them. The noise of a median of n
runs is the usual spread of one run times √(π/2) / √n (the asymptotic standard error of the median of normally
distributed values), that of a difference the root of the sum of the squares; the spread is the larger of those of the
groups that have enough runs to know it. The difference also has to be at least the tolerance of regressions.py and the
smallest one that counts in its unit. Where one of the groups has under `ENOUGH_TO_SUSPECT` runs, nobody knows. On
lognormal noise of a spread of 3 to 25 %, with groups of 5 to 30 runs, up to 1 of 100 differences of nothing but noise
is told as more (tests/unit/results/test_run_groups.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from statistics import median

from brokerproof.errors import InputError
from brokerproof.experiment.metrics import METRICS, MINIMUM_CHANGE, Worse
from brokerproof.experiment.scenario import RegressionRule
from brokerproof.experiment.verdict import DECISIVE
from brokerproof.results.comparability import list_differences, select_comparable
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.regressions import (
    ENOUGH_TO_SUSPECT,
    SPREADS,
    UsualValue,
    compute_allowed_change,
    read_rule,
)
from brokerproof.run.strict_model import StrictModel

# How many of the last runs are grouped, unless more are asked for.
GROUPED_RUNS = 200
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
GROUP_RULE = (
    "Two groups differ in a measurement if their medians are further apart than the tolerance of the scenario (usually "
    f"10 %), than {SPREADS:g} standard errors of the difference of two such medians, and than the smallest difference "
    f"that counts in its unit. With under {ENOUGH_TO_SUSPECT} judged runs in one of them, nobody knows."
)


class GroupBy(StrEnum):
    """What the runs of a group have in common."""

    VERSION = "version"
    SETTINGS = "settings"
    SYSTEM = "system"
    RUNTIME = "runtime"


class GroupedMeasurement(StrictModel):
    """A measurement in the runs of a group that passed or failed: how many have it, and their median and range.

    The rest is against the largest group, and None in that one: `difference` of the medians in the unit, and whether it
    is more than noise and for the worse; `why` is a sentence.
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
    """Runs of one scenario that have something in common.

    Groups by settings are numbered from 1, the largest, on; `differences` say how their parameters differ from its.
    """

    name: str
    differences: tuple[str, ...] = ()
    run_ids: tuple[str, ...]
    # The number of runs of each verdict.
    verdicts: dict[str, int]
    measurements: tuple[GroupedMeasurement, ...]


_Name = tuple[str, str, str]


def group_runs(runs: Sequence[RecordedRun], by: GroupBy) -> list[RunGroup]:
    """The runs of one scenario in groups, the largest first.

    Raises InputError for runs of several scenarios, and where the rule in the parameters of the newest run cannot be
    used.
    """
    if len(scenarios := sorted({run.scenario for run in runs})) > 1:
        raise InputError(
            f"the runs are of several scenarios: {', '.join(scenarios)}", remedy="group the runs of one of them"
        )
    members: dict[str, list[RecordedRun]] = {}
    for run in runs:
        members.setdefault(_find_group(run, by), []).append(run)
    ordered = sorted(members.items(), key=lambda item: -len(item[1]))
    if not ordered:
        return []
    rule = read_rule(max(runs, key=lambda run: run.started_at))
    largest = ordered[0][1]
    reference = _collect_values(largest)
    return [
        RunGroup(
            name=str(number) if by is GroupBy.SETTINGS else key,
            differences=tuple(_list_parameter_differences(largest[0], group[0])) if by is GroupBy.SETTINGS else (),
            run_ids=tuple(run.run_id for run in group),
            verdicts={
                verdict: sum(run.verdict == verdict for run in group) for verdict in sorted({r.verdict for r in group})
            },
            measurements=tuple(
                _summarize(name, values, None if group is largest else reference.get(name, []), rule)
                for name, values in _collect_values(group).items()
            ),
        )
        for number, (key, group) in enumerate(ordered, 1)
    ]


def _find_group(run: RecordedRun, by: GroupBy) -> str:
    if by is GroupBy.VERSION:
        return f"{run.system} {run.system_version}"
    return {GroupBy.SETTINGS: run.comparable, GroupBy.SYSTEM: run.system, GroupBy.RUNTIME: run.runtime}[by]


def _list_parameter_differences(first: RecordedRun, other: RecordedRun) -> list[str]:
    return list_differences(select_comparable(first.parameters), select_comparable(other.parameters))


def _collect_values(group: Sequence[RecordedRun]) -> dict[_Name, list[float]]:
    values: dict[_Name, list[float]] = {}
    for run in group:
        for row in run.measurements if run.verdict in DECISIVE else ():
            if row.value is not None:
                values.setdefault((row.metric, row.subject, row.unit), []).append(row.value)
    return values


def _summarize(
    name: _Name, values: Sequence[float], reference: Sequence[float] | None, rule: RegressionRule
) -> GroupedMeasurement:
    """A measurement of a group; `reference` are its values in the largest group, None in that one itself."""
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
        return summary.model_copy(update={"why": "the largest group has no value"})
    difference = summary.median - median(reference)
    known = METRICS.get(metric)
    found = {"difference": difference, "worse": _is_worse(known.worse if known else None, difference)}
    fewest = min(len(values), len(reference))
    if fewest < ENOUGH_TO_SUSPECT:
        why = f"the noise is not known: {fewest} judged runs in one group, {ENOUGH_TO_SUSPECT} needed"
        return summary.model_copy(update=found | {"why": why})
    if unit not in MINIMUM_CHANGE:
        return summary.model_copy(update=found | {"why": f"no minimum change is set for the unit `{unit}`"})
    noise = _compute_noise(unit, values, reference, rule.find_tolerance(metric))
    larger = abs(difference) >= noise
    why = f"{len(reference)} and {len(values)} judged runs tell differences from {noise:.3g} {unit} on"
    return summary.model_copy(update=found | {"larger_than_noise": larger, "why": why})


def _compute_noise(unit: str, values: Sequence[float], reference: Sequence[float], tolerance: float) -> float:
    """The smallest difference of the two medians that is no noise, in the unit."""
    usual = UsualValue.compute(reference)
    spread = max(usual.spread, UsualValue.compute(values).spread)
    error = spread * _MEDIAN_ERROR * math.sqrt(1 / len(values) + 1 / len(reference))
    return compute_allowed_change(unit, UsualValue(values=usual.values, median=usual.median, spread=error), tolerance)


def _is_worse(worse: Worse | None, difference: float) -> bool | None:
    if worse is None or difference == 0:
        return None
    return difference < 0 if worse is Worse.LOWER else difference > 0
