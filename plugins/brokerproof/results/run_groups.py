"""The runs of one scenario in groups by version, settings, system or runtime, each compared with the largest group.

Two groups differ in a measurement if their medians differ by more than noise. The standard error of a median of n runs
is the spread of one run times √(π/2) / √n (asymptotic, for normally distributed values). The error of a difference is
the root of the sum of both squares, with the larger spread of the two groups. The difference must be at least `SPREADS`
of these errors, the tolerance of regressions.py, and the smallest change that counts in the unit.

If one of the groups has fewer than `ENOUGH_TO_SUSPECT` runs, `larger_than_noise` is None. At most 1 in 100 differences
by noise alone is taken for more. This was measured on lognormal noise with a spread of 3 to 25 % and groups of 5 to 30
runs (tests/unit/results/test_run_groups.py).
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

# The number of last runs that are grouped by default.
GROUPED_RUNS = 200
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
GROUP_RULE = (
    "Two groups differ in a measurement if their medians are further apart than the tolerance of the scenario (usually "
    f"10 %), than {SPREADS:g} standard errors of the difference of two such medians, and than the smallest difference "
    f"that counts in its unit. With under {ENOUGH_TO_SUSPECT} judged runs in one of them, nobody knows."
)


class GroupBy(StrEnum):
    """The property that the runs of a group have in common."""

    VERSION = "version"
    SETTINGS = "settings"
    SYSTEM = "system"
    RUNTIME = "runtime"


class GroupedMeasurement(StrictModel):
    """A measurement in the judged runs of a group: the number of values `n`, and their median, least and greatest.

    The other fields compare it with the largest group and are None in that one. `difference` is the group's median
    minus that of the largest group. `why` is a phrase that gives the reason for `larger_than_noise`.
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
    """Runs of one scenario with a common property.

    Groups by settings are named by numbers, and 1 is the largest. `differences` are those of their parameters from it.
    """

    name: str
    differences: tuple[str, ...] = ()
    run_ids: tuple[str, ...]
    # The number of runs by verdict.
    verdicts: dict[str, int]
    measurements: tuple[GroupedMeasurement, ...]


_Name = tuple[str, str, str]


def group_runs(runs: Sequence[RecordedRun], by: GroupBy) -> list[RunGroup]:
    """Return the runs of one scenario in groups, the largest first.

    Raises InputError if the runs are of several scenarios, or if the rule in the parameters of the newest run cannot be
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
    """Return a measurement of a group. `reference` are its values in the largest group; None for that group itself."""
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
    """Return the smallest difference of the two medians that is more than noise, in the unit."""
    usual = UsualValue.compute(reference)
    spread = max(usual.spread, UsualValue.compute(values).spread)
    error = spread * _MEDIAN_ERROR * math.sqrt(1 / len(values) + 1 / len(reference))
    return compute_allowed_change(unit, UsualValue(values=usual.values, median=usual.median, spread=error), tolerance)


def _is_worse(worse: Worse | None, difference: float) -> bool | None:
    if worse is None or difference == 0:
        return None
    return difference < 0 if worse is Worse.LOWER else difference > 0
