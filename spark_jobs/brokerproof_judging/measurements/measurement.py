"""A measurement: a value, or the reason why there is none, with the bounds that the scenario sets on it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import Bound, Scenario
from brokerproof.run.directory import Run

# Subject of what there is one of per run, and of a bound on something of which nothing was measured.
RUN, END, NOTHING = "run", "end_of_run", "nothing"


# (value, evidence, whether it is at least that)
Answer = tuple[float | None, str, bool]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One value; `at_least` where the real one is higher, because what was waited for had not come by then."""

    metric: str
    subject: str
    value: float | None
    evidence: str
    at_least: bool = False


def rows(run: Run, measured: Iterable[Measured]) -> list[dict[str, Any]]:
    """Rows of the table `measurements`, with those that the scenario bounds and nobody measured."""
    found = list(measured)
    subjects = {(each.metric, each.subject) for each in found}
    metrics = {each.metric for each in found}
    for key in run.scenario.bounds:
        metric, _, subject = key.partition("/")
        if (subject and (metric, subject) not in subjects) or (not subject and metric not in metrics):
            why = f"nothing was measured of `{key}`"
            found.append(Measured(metric=metric, subject=subject or NOTHING, value=None, evidence=why))
    return [_row(run, each) for each in found]


def _row(run: Run, measured: Measured) -> dict[str, Any]:
    bound = _bound(run.scenario, measured)
    value = measured.value
    if measured.at_least and value is not None and (bound is None or bound.max is None or value <= bound.max):
        # Too short a look proves nothing, unless it was already longer than what is allowed.
        value = None
    return {
        "run_id": run.run_id,
        "suite": str(METRICS[measured.metric].suite),
        "metric": measured.metric,
        "subject": measured.subject,
        "value": None if value is None or not math.isfinite(value) else float(value),
        "unit": METRICS[measured.metric].unit,
        "minimum": bound.min if bound else None,
        "maximum": bound.max if bound else None,
        "evidence": measured.evidence,
    }


def _bound(scenario: Scenario, measured: Measured) -> Bound | None:
    bound = scenario.bound(measured.metric, measured.subject)
    if bound is None and measured.metric == "owner_in_region":
        # Naming the region under `owner` is the expectation; it needs no second line under `bounds`.
        return Bound(min=1.0)
    if bound is None and measured.metric == "lost_later_messages" and scenario.destroyed:
        # What a destroyed cluster took with it is bounded by `rpo_messages`; nothing excuses what was acked later.
        return Bound(max=0.0)
    return bound
