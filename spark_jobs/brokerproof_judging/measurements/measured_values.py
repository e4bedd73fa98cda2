"""A measured value, or the reason why there is none, and the rows of the table `measurements` made from such values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import Bound, Scenario
from brokerproof.faults.targets import read_doubts_about_targets
from brokerproof.run.directory import Run
from brokerproof.run.measurement import Measurement
from brokerproof.systems.registry import list_abilities

from brokerproof_judging.applicability import find_lacking

# The subjects of a value for the whole run, of one for its end, and of a bound without any measured value.
RUN, END, NO_SUBJECT = "run", "end_of_run", "nothing"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A value and its evidence; `at_least` where the real value is higher, because the wait for it was cut off.

    `cut_off_by` is the fault that did so, None where the load's end did.
    """

    value: float | None
    evidence: str
    at_least: bool = False
    cut_off_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class MeasuredValue:
    """A reading of a metric, of one subject."""

    metric: str
    subject: str
    reading: Reading


def make_measured_value(metric: str, subject: str, value: float | None, evidence: str) -> MeasuredValue:
    """A value that was not cut off."""
    return MeasuredValue(metric=metric, subject=subject, reading=Reading(value=value, evidence=evidence))


def make_measurements(run: Run, values: Iterable[MeasuredValue]) -> list[Measurement]:
    """Rows of the table `measurements`, with those that the scenario bounds and nobody measured.

    Metrics that do not apply to the run's messaging system are left out.
    """
    abilities, doubts = list_abilities(run), read_doubts_about_targets(run)
    found = list(values)
    subjects = {(each.metric, each.subject) for each in found}
    metrics = {each.metric for each in found}
    for key in run.scenario.bounds:
        metric, _, subject = key.partition("/")
        if (subject and (metric, subject) not in subjects) or (not subject and metric not in metrics):
            found.append(make_measured_value(metric, subject or NO_SUBJECT, None, f"nothing was measured of `{key}`"))
    return [_make_measurement(run, each, doubts) for each in found if find_lacking(each.metric, abilities) is None]


def _make_measurement(run: Run, measured: MeasuredValue, doubts: Mapping[str, str]) -> Measurement:
    bound = _find_bound(run.scenario, measured)
    metric, reading = METRICS[measured.metric], measured.reading
    value, evidence = reading.value, reading.evidence
    # Some metrics of phases and ways have a value for a fault too, such as `eu>us/FAULT`.
    doubt = next((doubts[part] for part in measured.subject.split("/") if part in doubts), None)
    if doubt is not None and bound is not None:
        measured_as = "" if value is None else f" {value:g} {metric.unit} was measured:"
        value, evidence = None, f"{doubt}, so no bound of this fault is claimed;{measured_as} {evidence}"
    if reading.at_least and value is not None and (bound is None or bound.max is None or value <= bound.max):
        # A wait that was cut off proves nothing, unless it already lasted longer than the bound allows.
        value = None
    return Measurement(
        run_id=run.run_id,
        suite=metric.suite,
        metric=measured.metric,
        subject=measured.subject,
        value=None if value is None else float(value),
        unit=metric.unit,
        minimum=bound.min if bound else None,
        maximum=bound.max if bound else None,
        evidence=evidence,
        doubt=doubt,
        cut_off_by=reading.cut_off_by if value is None else None,
    )


def _find_bound(scenario: Scenario, measured: MeasuredValue) -> Bound | None:
    bound = scenario.bound(measured.metric, measured.subject)
    if bound is None and measured.metric == "owner_in_region":
        # Naming the region under `owner` is the expectation; it needs no second line under `bounds`.
        return Bound(min=1.0)
    if bound is None and measured.metric == "lost_later_messages" and scenario.destroyed:
        # `rpo_messages` bounds what a destroyed cluster took with it; a message that was acked later must not be lost.
        return Bound(max=0.0)
    return bound
