"""The expectation on `measurements`: every value of a metric is within its bounds.

The table has a few dozen rows. They are counted in memory, because Spark takes a second to plan a query.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.numbers import format_bounds, format_value
from great_expectations.compatibility import pydantic
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from brokerproof_judging.measurements.measured_values import is_broken, is_held
from brokerproof_judging.suites.row_expectation import RowExpectation, make_sample
from brokerproof_judging.suites.tally import MOST_SAMPLES, Tally

_BOUND_RESULTS = "brokerproof.bound_results"


class BoundResult(StrEnum):
    """The result of comparing one measurement with its bounds."""

    HELD = "held"
    UNEXPECTED = "unexpected"
    UNDECIDED = "undecided"
    LEGAL = "legal"


def find_bound_result(
    row: Mapping[str, Any], *, minimum: float | None, maximum: float | None, required: bool
) -> BoundResult:
    """Return how a row of `measurements` compares with its bounds.

    `minimum` and `maximum` are the suite's bounds. Each is in force if the row has no such bound of its own. A row with
    bounds and a `doubt` is undecided. If only the limits `at_least` and `at_most` of a value are known, the row is
    undecided unless all values between the limits break a bound, or all are within the bounds. Comparisons with NaN are
    always false. So a value that is NaN counts as missing, and a bound that is NaN makes the row undecided.
    """
    own = (row["minimum"], row["maximum"])
    in_force = tuple(
        default if bound is None else bound for bound, default in zip(own, (minimum, maximum), strict=True)
    )
    if any(bound is not None and math.isnan(bound) for bound in in_force):
        return BoundResult.UNDECIDED
    value, at_least, at_most = (_drop_nan(row[name]) for name in ("value", "at_least", "at_most"))
    if in_force == (None, None):
        # A value that another fault left no time to measure is not missing.
        is_missing = value is None and row["cut_off_by"] is None
        return BoundResult.UNDECIDED if required and is_missing else BoundResult.HELD
    if row["doubt"] is not None:
        return BoundResult.UNDECIDED
    least, most = (value, value) if at_least is None and at_most is None else (at_least, at_most)
    if is_broken(least, most, *in_force):
        return BoundResult.UNEXPECTED
    if not is_held(least, most, *in_force):
        return BoundResult.UNDECIDED
    return BoundResult.LEGAL if is_broken(least, most, minimum, maximum) else BoundResult.HELD


def _drop_nan(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


class MeasurementResultsMetric(TableMetricProvider):
    """Counts the measurements of one metric by `BoundResult`, and shows up to `MOST_SAMPLES` unexpected ones.

    If none is unexpected, the metric shows undecided measurements instead.
    """

    metric_name = _BOUND_RESULTS
    value_keys = ("metric", "minimum", "maximum", "required")

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805 (Great Expectations makes a class method of it)
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> tuple[Tally, list[dict[str, Any]], list[str]]:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        metric, *bounds = (metric_value_kwargs[key] for key in cls.value_keys)
        minimum, maximum, required = bounds
        rows = sorted(
            (row for row in frame.to_dict("records") if row["metric"] == metric), key=lambda row: row["subject"] or ""
        )
        results = [find_bound_result(row, minimum=minimum, maximum=maximum, required=required) for row in rows]
        shown = BoundResult.UNEXPECTED if BoundResult.UNEXPECTED in results else BoundResult.UNDECIDED
        samples = [make_sample(row) for row, result in zip(rows, results, strict=True) if result is shown]
        tally = Tally(
            rows=len(rows),
            unexpected=results.count(BoundResult.UNEXPECTED),
            undecided=results.count(BoundResult.UNDECIDED),
            legal=results.count(BoundResult.LEGAL),
        )
        observed = [_describe_value(row, minimum, maximum) for row in rows[:MOST_SAMPLES]]
        return tally, samples[:MOST_SAMPLES], observed


def _describe_value(row: Mapping[str, Any], minimum: float | None, maximum: float | None) -> str:
    """Return a measured value with its subject and its bounds, such as `51 s of eu_destroyed (at most 90 s)`."""
    text = describe_value(row)
    subject = f" of {row['subject']}" if row["subject"] else ""
    least, greatest = (
        _drop_nan(default if own is None else own)
        for own, default in ((row["minimum"], minimum), (row["maximum"], maximum))
    )
    bounds = format_bounds(least, greatest, row["unit"])
    return f"{text}{subject} ({', '.join(bounds)})" if bounds else f"{text}{subject}"


def describe_value(row: Mapping[str, Any]) -> str:
    """Return a row's value with its unit, such as `51 s`, `at least 61 s`, or `not measured`."""
    found = [
        f"{words}{format_value(row[name], row['unit'])}"
        for name, words in (("value", ""), ("at_least", "at least "), ("at_most", "at most "))
        if _drop_nan(row[name]) is not None
    ]
    return found[0] if found else "not measured"


class ExpectMeasurementWithinBounds(RowExpectation):
    """Every value of the metric is within the bounds that the scenario sets, both ends included.

    `minimum` and `maximum` are the suite's bounds. Each is in force only if the scenario sets no such bound. A value
    that only the scenario's bound allows counts as legal. A missing value is undecided if a bound is in force. If no
    bound is, a missing value of a `required` metric is undecided, unless another fault left no time to measure it.
    """

    metric: str
    minimum: float | None = None
    maximum: float | None = None
    required: bool = False

    success_keys: ClassVar[tuple[str, ...]] = ("metric", "minimum", "maximum", "required")
    metric_dependencies: ClassVar[tuple[str, ...]] = (_BOUND_RESULTS,)

    @pydantic.validator("metric")
    def _check_metric(cls, metric: str) -> str:  # noqa: N805
        if metric not in METRICS:
            raise ValueError(f"no metric is called `{metric}`")
        return metric

    def read_tally(self, metrics: Mapping[str, Any]) -> tuple[Tally, list[dict[str, Any]]]:
        tally, samples, _ = metrics[_BOUND_RESULTS]
        return tally, samples

    def describe_observed(self, metrics: Mapping[str, Any], tally: Tally) -> str:
        """Return the first values, each with its bounds, and the number of values that are not shown."""
        _, _, observed = metrics[_BOUND_RESULTS]
        more = tally.rows - len(observed)
        return "; ".join([*observed, *([f"and {more} more"] if more else [])]) or "nothing was measured"
