"""Whether a run did worse than the runs before it.

**Which runs compare.** Earlier runs of the same scenario, on the same messaging system and runtime and on a machine
with the same processor architecture and number of processors (the nodes share it, so it decides every time measured),
with the same topology (nodes, placement, quorums and policies decide what a fault takes away), workload (rate, size,
keys, clients and subscriptions decide the load and how clients behave under failure), timeline (phases and faults),
system settings, longest settling time and expected owner. Versions need not be equal: an upgrade that makes something
worse is what this looks for, so the comparison names the versions that changed. What only judges (guarantee, bounds,
expectations) and what only describes (titles, tags) need not be equal either.

**When a measurement is marked.** Of the last `WINDOW` comparable runs that were judged (passed or failed), at least
`ENOUGH` must have the metric for the same subject. Their median is the usual value and 1.4826 times their median
absolute deviation (MAD) the usual spread, so that one bad run moves neither. The run is marked where it is worse than
the median by at least the largest of: `SPREADS` usual spreads; the minimum change of the unit, `MINIMUM_CHANGE`,
so that noise does not mark after identical runs; and `MINIMUM_SHARE` of the median. A value that usually exists and
could not be measured this time is marked too. With less history nothing is marked, and a note says so. After a change
that stays, marks end when half of the window is as the new runs are: they show where the line bends.

**When a verdict is marked.** Always when it got worse than that of the comparable run just before, whatever the amount
of history: it was what the scenario expects and is not any more, or it is not and is more severe than before. A control
that expects `failed` therefore regresses when it stops failing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.verdict import Verdict
from brokerproof.results.history_schema import RecordedRun

WINDOW = 10
ENOUGH = 5
SPREADS = 3.0
MINIMUM_CHANGE: Mapping[str, float] = {"s": 1.0, "ms": 5.0, "messages": 1.0, "ledgers": 1.0, "share": 0.05}
MINIMUM_SHARE = 0.1
LOWER_IS_WORSE = frozenset({"local_read_share", "owner_in_region", "rate_held"})
# How finely Brokerproof itself looked, and what its link took: nothing that the messaging system did.
NOT_COMPARED = frozenset({"sampling_gap_s", "link_added_p50_ms", "link_added_p99_ms"})

# Makes the MAD of normally distributed values their standard deviation.
_MAD_TO_DEVIATION = 1.4826
_SCENARIO = ("name", "workload", "phases", "faults", "settings", "settle_s", "owner", "runtime")
_TOPOLOGY = ("system", "clusters", "shared_metadata", "links", "settings")


@dataclass(frozen=True, kw_only=True)
class Regression:
    """One thing that got worse. `usual` and `spread` are in `unit`, None for a verdict; `reason` is a sentence."""

    metric: str
    subject: str
    value: float | None
    usual: float | None
    spread: float | None
    unit: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A run against those before it: what got worse, what could not be compared and why, which versions changed."""

    run_id: str
    compared_with: tuple[str, ...]
    marks: tuple[Regression, ...]
    notes: tuple[str, ...]
    changed_versions: tuple[str, ...]


def comparable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a run's parameters (`scenario`, `topology`, `machine`) that must be equal for runs to compare.

    Without what says nothing (null, false, empty), so that runs recorded before a field existed compare with those
    after: a new field has to mean what was before it where it is null, false or empty.
    """
    scenario, topology = parameters["scenario"], parameters["topology"]
    return {
        "scenario": _said({name: scenario.get(name) for name in _SCENARIO}),
        "topology": _said({name: topology.get(name) for name in _TOPOLOGY}),
        "machine": parameters.get("machine"),
    }


def _said(value: Any) -> Any:
    """A plain value without the fields that say nothing, at any depth; 0 says something."""
    if isinstance(value, Mapping):
        said = {name: _said(each) for name, each in value.items()}
        return {name: each for name, each in said.items() if each or (each == 0 and each is not False)}
    return [_said(each) for each in value] if isinstance(value, list) else value


def digest(parameters: Mapping[str, Any]) -> str:
    """Equal for two runs exactly if their comparable parameters are."""
    return hashlib.sha256(json.dumps(comparable(parameters), sort_keys=True, default=str).encode()).hexdigest()


def compare(
    run: RecordedRun, *, judged: Sequence[RecordedRun], before: RecordedRun | None, other: RecordedRun | None
) -> Comparison:
    """The run against the comparable ones before it.

    `judged` are those with a verdict of passed or failed, newest first, no more than WINDOW; `before` is the newest
    whatever its verdict; `other` is the newest run of the scenario with other parameters, for the note that explains
    why history is short.
    """
    marks = list(_verdict(run, before)) if before else []
    notes: list[str] = []
    if len(judged) < ENOUGH:
        notes.append(f"measurements are not compared: {len(judged)} comparable judged runs before it, {ENOUGH} needed")
        if other:
            different = differences(comparable(other.parameters), comparable(run.parameters))
            notes.append(f"run {other.run_id} is not comparable: {'; '.join(different[:5])}")
    else:
        marks += _measurements(run, judged, notes)
    last = before or (judged[0] if judged else None)
    return Comparison(
        run_id=run.run_id,
        compared_with=tuple(earlier.run_id for earlier in judged),
        marks=tuple(marks),
        notes=tuple(notes),
        changed_versions=tuple(differences(last.versions, run.versions)) if last else (),
    )


def smallest_change(unit: str, usual: float) -> float:
    """How far a value has to be from the usual one to count, in its unit, where usual values have no spread."""
    return max(MINIMUM_CHANGE[unit], MINIMUM_SHARE * abs(usual))


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """What differs between two plain values, as `path before → after`."""
    if all(value is None or isinstance(value, Mapping) for value in (before, after)):
        # Where nothing is said, none of the fields is.
        before, after = before or {}, after or {}
        return [
            line
            for name in dict.fromkeys([*before, *after])
            for line in differences(before.get(name), after.get(name), f"{path}.{name}" if path else str(name))
        ]
    return [] if before == after else [f"{path} {_short(before)} → {_short(after)}"]


def _verdict(run: RecordedRun, before: RecordedRun) -> Iterable[Regression]:
    more_severe = Verdict(run.verdict).severity > Verdict(before.verdict).severity
    if not run.met and (before.met or (more_severe and run.verdict != run.expected_verdict)):
        yield Regression(
            metric="verdict",
            subject="",
            value=None,
            usual=None,
            spread=None,
            unit="",
            reason=f"the verdict is {run.verdict}{_as_expected(run)} and was "
            f"{before.verdict}{_as_expected(before)} in {before.run_id}",
        )


def _as_expected(run: RecordedRun) -> str:
    if run.met:
        return " (as expected)"
    # The verdict can be the expected one without the anomalies or failed suites that were expected too.
    return " (not as expected)" if run.verdict == run.expected_verdict else f" (expected {run.expected_verdict})"


def _measurements(run: RecordedRun, judged: Sequence[RecordedRun], notes: list[str]) -> Iterable[Regression]:
    """Marks for the run's measurements; adds a note for each that has too little history."""
    for row in run.measurements:
        if row.metric not in METRICS or row.metric in NOT_COMPARED:
            continue
        name = f"{row.metric} of {row.subject}" if row.subject else row.metric
        if row.unit not in MINIMUM_CHANGE:
            notes.append(f"{name} is not compared: no minimum change is set for the unit `{row.unit}`")
            continue
        values = [
            earlier.value
            for other in judged
            for earlier in other.measurements
            if (earlier.metric, earlier.subject, earlier.unit) == (row.metric, row.subject, row.unit)
            and earlier.value is not None
        ]
        if len(values) < ENOUGH:
            notes.append(f"{name} is not compared: measured in {len(values)} comparable runs, {ENOUGH} needed")
            continue
        usual = median(values)
        spread = _MAD_TO_DEVIATION * median(abs(value - usual) for value in values)
        against = f"usually {_number(usual)} ± {_number(spread)} {row.unit} (median of {len(values)} comparable runs)"
        if row.value is None:
            reason = f"{name} could not be measured, {against}"
        else:
            worse_by = usual - row.value if row.metric in LOWER_IS_WORSE else row.value - usual
            allowed = max(SPREADS * spread, smallest_change(row.unit, usual))
            if worse_by < allowed:
                continue
            reason = f"{name} is {_number(row.value)} {row.unit}, {against}"
        yield Regression(
            metric=row.metric,
            subject=row.subject,
            value=row.value,
            usual=usual,
            spread=spread,
            unit=row.unit,
            reason=reason,
        )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _short(value: Any) -> str:
    if value is None:
        return "unset"
    text = json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
