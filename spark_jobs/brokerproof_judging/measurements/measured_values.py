"""Makes rows of the table `measurements` from measured values, or from the reasons why there are none."""

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

# The subjects of a value for the whole run, of a value for its end, and of a bound without a measured value.
RUN, END, NO_SUBJECT = "run", "end_of_run", "nothing"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A measured value and its evidence. `value` is None if nothing could be measured.

    If `at_least`, the real value may be higher: messages are unproven, or the measurement ended too early. `cut_off_by`
    is the fault that ended the measurement too early; None if no fault did. If `at_most`, the real value may be lower,
    because clients or the monitor may have added to it. `proven` is then the value without this addition.
    """

    value: float | None
    evidence: str
    at_least: bool = False
    at_most: bool = False
    proven: float = 0.0
    cut_off_by: str | None = None

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """The least and the greatest possible value. A limit that is not known is None.

        If the value is exact, both limits are equal to it.
        """
        if self.value is None:
            return None, None
        least = self.proven if self.at_most else self.value
        return float(least), None if self.at_least else float(self.value)


@dataclass(frozen=True, kw_only=True)
class MeasuredValue:
    metric: str
    subject: str
    estimate: Estimate


def make_measured_value(
    metric: str, subject: str, value: float | None, evidence: str, *, at_most: bool = False, proven: float = 0.0
) -> MeasuredValue:
    """Return a measured value and its evidence, from a measurement that no fault ended too early.

    `value` is None if nothing could be measured. `subject` is the fault, phase or other thing that was measured.
    """
    estimate = Estimate(value=value, evidence=evidence, at_most=at_most, proven=proven)
    return MeasuredValue(metric=metric, subject=subject, estimate=estimate)


def make_measurements(run: Run, values: Iterable[MeasuredValue]) -> list[Measurement]:
    """Return the rows of the table `measurements`. A bound without a measured value has a row with a null value.

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
    metric, estimate = METRICS[measured.metric], measured.estimate
    value, evidence = estimate.value, estimate.evidence
    # Some metrics of phases and of directions (`eu>us`) also have a value for a fault, such as `eu>us/FAULT`.
    doubt = next((doubts[part] for part in measured.subject.split("/") if part in doubts), None)
    if doubt is not None and bound is not None:
        measured_as = "" if value is None else f" {value:g} {metric.unit} was measured:"
        value, evidence = None, f"{doubt}, so no bound of this fault is claimed;{measured_as} {evidence}"
    least, most = (None, None) if doubt is not None and bound is not None else estimate.limits
    if metric.minimum_is_to_show and bound is not None and is_broken(least, most, bound.min, None):
        doubt = f"the run does not show what its scenario is about, at least {bound.min:g} {metric.unit}"
        evidence = f"{doubt}: {evidence}"
    is_exact = least == most
    if not is_exact and not _is_decided(least, most, bound):
        between = f"between {least:g} and {most:g}" if least is not None and most is not None else ""
        value, evidence = None, f"{between} {metric.unit}: {evidence}" if between else evidence
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
        at_least=None if is_exact else least,
        at_most=None if is_exact else most,
        cut_off_by=estimate.cut_off_by if value is None else None,
    )


def _is_decided(least: float | None, most: float | None, bound: Bound | None) -> bool:
    """Return whether a bound can be judged if only the limits `least` and `most` of a value are known.

    It can if all values between them break the bound, or if all hold it and `most` is not None.
    """
    lowest, highest = (None, None) if bound is None else (bound.min, bound.max)
    if is_broken(least, most, lowest, highest):
        return True
    return most is not None and is_held(least, most, lowest, highest)


def is_broken(least: float | None, most: float | None, lowest: float | None, highest: float | None) -> bool:
    """Return whether every value from `least` to `most` is outside the bounds `lowest` and `highest`.

    A limit `least` or `most` of None is not known, so values may be arbitrarily low or high. A bound of None is absent.
    """
    return (least is not None and highest is not None and least > highest) or (
        most is not None and lowest is not None and most < lowest
    )


def is_held(least: float | None, most: float | None, lowest: float | None, highest: float | None) -> bool:
    """Return whether every value from `least` to `most` is within the bounds `lowest` and `highest`.

    A limit `least` or `most` of None is not known, so values may be arbitrarily low or high. A bound of None is absent.
    """
    return (highest is None or (most is not None and most <= highest)) and (
        lowest is None or (least is not None and least >= lowest)
    )


def _find_bound(scenario: Scenario, measured: MeasuredValue) -> Bound | None:
    bound = scenario.bound(measured.metric, measured.subject)
    if bound is None and measured.metric == "owner_in_region":
        # A region under `owner` is already a demand, so it needs no line under `bounds`.
        return Bound(min=1.0)
    if bound is None and measured.metric == "lost_later_messages" and scenario.destroyed:
        # `rpo_messages` bounds the loss of messages sent before the destruction. No later message may be lost.
        return Bound(max=0.0)
    return bound
