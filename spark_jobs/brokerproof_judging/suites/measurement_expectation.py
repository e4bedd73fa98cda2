"""The expectation on `measurements`: every value of a metric is within its bounds.

The table has a few dozen rows. They are counted in memory, because Spark would plan a query for a second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from brokerproof.experiment.metrics import METRICS
from great_expectations.compatibility import pydantic
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from brokerproof_judging.suites.row_expectation import RowExpectation, make_sample
from brokerproof_judging.suites.tally import MOST_SAMPLES, Tally

_STANDINGS = "brokerproof.measurement_standings"


class Standing(StrEnum):
    """How one measurement stands to the bounds on it."""

    HELD = "held"
    UNEXPECTED = "unexpected"
    UNDECIDED = "undecided"
    LEGAL = "legal"


def find_standing(row: Mapping[str, Any], *, minimum: float | None, maximum: float | None, required: bool) -> Standing:
    """How a row of `measurements` stands to its own bounds and, where it has none, to the suite's.

    No bound is claimed of a value in doubt. NaN is no value and no bound: each comparison with it is false, so that it
    would be within every bound.
    """
    own = (row["minimum"], row["maximum"])
    in_force = tuple(
        default if bound is None else bound for bound, default in zip(own, (minimum, maximum), strict=True)
    )
    if any(bound is not None and math.isnan(bound) for bound in in_force):
        return Standing.UNDECIDED
    value = row["value"]
    if row["doubt"] is not None and in_force != (None, None):
        return Standing.UNDECIDED
    if value is None and row["cut_off_by"] is not None and in_force == (None, None):
        # The timeline left no time for it, and nobody asks for it.
        return Standing.HELD
    if value is None or math.isnan(value):
        return Standing.UNDECIDED if required or in_force != (None, None) else Standing.HELD
    if _is_outside(value, *in_force):
        return Standing.UNEXPECTED
    return Standing.LEGAL if _is_outside(value, minimum, maximum) else Standing.HELD


def _is_outside(value: float, minimum: float | None, maximum: float | None) -> bool:
    return (minimum is not None and value < minimum) or (maximum is not None and value > maximum)


class MeasurementStandings(TableMetricProvider):
    """The counts of one metric's measurements, and up to `MOST_SAMPLES` that are unexpected or undecided."""

    metric_name = _STANDINGS
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
        standings = [find_standing(row, minimum=minimum, maximum=maximum, required=required) for row in rows]
        shown = Standing.UNEXPECTED if Standing.UNEXPECTED in standings else Standing.UNDECIDED
        samples = [make_sample(row) for row, standing in zip(rows, standings, strict=True) if standing is shown]
        tally = Tally(
            rows=len(rows),
            unexpected=standings.count(Standing.UNEXPECTED),
            undecided=standings.count(Standing.UNDECIDED),
            legal=standings.count(Standing.LEGAL),
        )
        observed = [_describe_value(row, minimum, maximum) for row in rows[:MOST_SAMPLES]]
        return tally, samples[:MOST_SAMPLES], observed


def _describe_value(row: Mapping[str, Any], minimum: float | None, maximum: float | None) -> str:
    """A value with its subject and the bounds in force, as in `51 s of eu_destroyed (at most 90 s)`."""
    value = row["value"]
    text = "not measured" if value is None or math.isnan(value) else _format_value(value, row["unit"])
    subject = f" of {row['subject']}" if row["subject"] else ""
    bounds = [
        f"{words} {_format_value(bound, row['unit'])}"
        for words, own, default in (("at least", row["minimum"], minimum), ("at most", row["maximum"], maximum))
        if (bound := default if own is None else own) is not None and not math.isnan(bound)
    ]
    return f"{text}{subject} ({', '.join(bounds)})" if bounds else f"{text}{subject}"


def _format_value(value: float, unit: str) -> str:
    # Infinity is no whole number, and has a name of its own.
    return f"{value:,.0f} {unit}" if float(value).is_integer() or abs(value) >= 100 else f"{value:.3g} {unit}"


class ExpectMeasurementWithinBounds(RowExpectation):
    """Every value of the metric is within the bounds that the scenario sets, both ends included.

    `minimum` and `maximum` are in force where the scenario sets no such bound of its own; what only the scenario's
    bound allows is counted as legal. A missing value is undecided where a bound is in force, or where the metric is
    `required`, unless another fault of the timeline left no time to measure it.
    """

    metric: str
    minimum: float | None = None
    maximum: float | None = None
    required: bool = False

    success_keys: ClassVar[tuple[str, ...]] = ("metric", "minimum", "maximum", "required")
    metric_dependencies: ClassVar[tuple[str, ...]] = (_STANDINGS,)

    @pydantic.validator("metric")
    def _check_metric(cls, metric: str) -> str:  # noqa: N805
        if metric not in METRICS:
            raise ValueError(f"no metric is called `{metric}`")
        return metric

    def read_tally(self, metrics: Mapping[str, Any]) -> tuple[Tally, list[dict[str, Any]]]:
        """As the metric comes."""
        tally, samples, _ = metrics[_STANDINGS]
        return tally, samples

    def describe_observed(self, metrics: Mapping[str, Any], tally: Tally) -> str:
        """The values, each with its bounds; then how many are not shown."""
        _, _, observed = metrics[_STANDINGS]
        more = tally.rows - len(observed)
        return "; ".join([*observed, *([f"and {more} more"] if more else [])]) or "nothing was measured"
