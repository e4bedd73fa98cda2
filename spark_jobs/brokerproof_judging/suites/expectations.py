"""The kinds of expectation that the suite files are written in, and the metrics behind them.

Importing this module imports Great Expectations (7 to 10 s) and registers the kinds: Great Expectations drops an
expectation of an unknown kind from a suite that it loads, with a log line only.

A row is *unexpected* where it breaks the rule, *undecided* where it cannot be said (a null where a value is needed),
and *legal* where it is an anomaly that the guarantee allows. All expectations of a suite are counted in one Spark
job, because Great Expectations puts aggregates over the same rows into one; its own UnexpectedRowsExpectation takes
two jobs each.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.metrics import METRICS
from great_expectations.compatibility import pydantic
from great_expectations.compatibility.pyspark import functions as F
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_partial, metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.expectations.registry import get_metric_kwargs
from great_expectations.util import convert_to_json_serializable
from great_expectations.validator.metric_configuration import MetricConfiguration

MOST_SAMPLES = 20

_COUNTS = "brokerproof.row_counts"
_SAMPLES = "brokerproof.row_samples"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What an expectation looks for, as Spark SQL conditions on one row.

    `concerned` says which rows the expectation is about. A condition that comes to null counts as undecided, never as
    held. `order` names the columns that make the samples the same in every evaluation.
    """

    concerned: str
    unexpected: str
    undecided: str
    legal: str
    order: tuple[str, ...]


def _make_conditions(rule: dict[str, Any]) -> dict[str, str]:
    """The rule's four conditions, none of which comes to null.

    As text and not as columns, because every call on a column is a round trip to the JVM: 60 of them for a rule.
    """
    concerned = f"coalesce({rule['concerned']}, true)"
    unexpected = f"coalesce({rule['unexpected']}, false)"
    in_doubt = f"(coalesce({rule['undecided']}, true) OR ({rule['unexpected']}) IS NULL)"
    return {
        "rows": concerned,
        "unexpected": f"{concerned} AND {unexpected}",
        "undecided": f"{concerned} AND {in_doubt} AND NOT {unexpected}",
        "legal": f"{concerned} AND coalesce({rule['legal']}, false)",
    }


_RULE_KEYS = ("concerned", "unexpected", "undecided", "legal", "order")


class RowCounts(TableMetricProvider):
    """Numbers of rows concerned, unexpected, undecided and legal."""

    metric_name = _COUNTS
    value_keys = _RULE_KEYS

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(
        cls,  # noqa: N805 (Great Expectations makes a class method of it)
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> Any:
        counts = ", ".join(f"count_if({condition})" for condition in _make_conditions(metric_value_kwargs).values())
        return F.expr(f"array({counts})"), metric_domain_kwargs, {}


class RowSamples(TableMetricProvider):
    """Up to `MOST_SAMPLES` rows that are unexpected or undecided; costs a Spark job only where there are any."""

    metric_name = _SAMPLES
    value_keys = _RULE_KEYS

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(
        cls,  # noqa: N805
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> list[dict[str, Any]]:
        _, unexpected, undecided, _ = metrics[_COUNTS]
        if not unexpected and not undecided:
            return []
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        conditions = _make_conditions(metric_value_kwargs)
        rows = (
            frame.where(conditions["unexpected"] if unexpected else conditions["undecided"])
            .orderBy(*metric_value_kwargs["order"])
            .limit(MOST_SAMPLES)
            .collect()
        )
        return [{name: _make_json_value(value) for name, value in row.asDict(recursive=True).items()} for row in rows]

    @classmethod
    def _get_evaluation_dependencies(cls, metric: MetricConfiguration, **_: Any) -> dict[str, MetricConfiguration]:
        return {
            _COUNTS: MetricConfiguration(
                metric_name=_COUNTS,
                metric_domain_kwargs=metric.metric_domain_kwargs,
                metric_value_kwargs=metric.metric_value_kwargs,
            )
        }


def _make_json_value(value: Any) -> Any:
    """A value as JSON can hold it: NaN and infinity become their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return convert_to_json_serializable(value)


class _RowsExpectation(BatchExpectation, ABC):
    """Holds where no row is unexpected and none is undecided."""

    @abstractmethod
    def rule(self) -> Rule:
        """What to look for."""

    def get_validation_dependencies(self, execution_engine: Any = None, runtime_configuration: Any = None) -> Any:
        """The two metrics, asked with the rule; both are about the same rows.

        They are not named in `metric_dependencies`, of which the base class would make metrics with the fields
        themselves. Every look at the configuration builds it anew, and each of four was a hundredth of a second.
        """
        dependencies = super().get_validation_dependencies(execution_engine, runtime_configuration)
        domain = get_metric_kwargs(_COUNTS, self.configuration, runtime_configuration)["metric_domain_kwargs"]
        rule = asdict(self.rule())
        for name in (_COUNTS, _SAMPLES):
            dependencies.set_metric_configuration(
                metric_name=name,
                metric_configuration=MetricConfiguration(
                    metric_name=name, metric_domain_kwargs=domain, metric_value_kwargs=rule
                ),
            )
        return dependencies

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        rows, unexpected, undecided, legal = metrics[_COUNTS]
        samples = metrics[_SAMPLES]
        return {
            "success": unexpected == 0 and undecided == 0,
            "result": {
                "observed_value": f"{unexpected} of {rows} against it, {undecided} undecided, {legal} legal",
                "rows": rows,
                "unexpected_count": unexpected,
                "unexpected_percent": 100 * unexpected / rows if rows else 0.0,
                "element_count": rows,
                "undecided": undecided,
                "legal": legal,
                # The key under which Data Docs look for a table of samples.
                "partial_unexpected_list": [_describe_row(row) for row in samples],
                "details": {"samples": samples},
            },
        }


def _describe_row(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if value not in (None, []) and name != "run_id")


class ExpectNoIllegalAnomaly(_RowsExpectation):
    """No row of `messages` has the anomaly where the guarantee forbids it.

    Finding `unproven` leaves the row undecided: it says that the evidence is not enough.
    """

    anomaly: str

    success_keys: ClassVar[tuple[str, ...]] = ("anomaly",)

    @pydantic.validator("anomaly")
    def _check_anomaly(cls, anomaly: str) -> str:  # noqa: N805
        if anomaly not in list(Anomaly):
            raise ValueError(f"no anomaly is called `{anomaly}`")
        return anomaly

    def rule(self) -> Rule:
        """Reads the columns `anomalies` and `illegal`; a null in either is no proof of anything."""
        name = self.anomaly
        legal = f"array_contains(anomalies, '{name}') AND NOT array_contains(illegal, '{name}')"
        # An unproven message is legal under every guarantee and decides nothing.
        proves_nothing = name == Anomaly.UNPROVEN
        return Rule(
            concerned="true",
            unexpected=f"array_contains(illegal, '{name}')",
            undecided=legal if proves_nothing else f"array_contains(anomalies, '{name}') IS NULL",
            legal="false" if proves_nothing else legal,
            order=("cluster", "subscription", "producer", "seq"),
        )


class ExpectMeasurementWithinBounds(_RowsExpectation):
    """Every value of the metric is within the bounds that the scenario sets, both ends included.

    `minimum` and `maximum` are in force where the scenario sets no such bound of its own; what only the scenario's
    bound allows is counted as legal. A missing value is undecided where a bound is in force, or where the metric is
    `required`.
    """

    metric: str
    minimum: float | None = None
    maximum: float | None = None
    required: bool = False

    success_keys: ClassVar[tuple[str, ...]] = ("metric", "minimum", "maximum", "required")

    @pydantic.validator("metric")
    def _check_metric(cls, metric: str) -> str:  # noqa: N805
        if metric not in METRICS:
            raise ValueError(f"no metric is called `{metric}`")
        return metric

    def rule(self) -> Rule:
        """NaN is no value: Spark holds it greater than every number, so a minimum alone would let it through."""
        lower = "double('-Infinity')" if self.minimum is None else f"{float(self.minimum)!r}D"
        upper = "double('Infinity')" if self.maximum is None else f"{float(self.maximum)!r}D"
        needed = "true" if self.required or (self.minimum, self.maximum) != (None, None) else "false"
        return Rule(
            concerned=f"metric = '{self.metric}'",
            unexpected=f"""
                value IS NOT NULL AND NOT isnan(value)
                AND NOT isnan(coalesce(minimum, 0D)) AND NOT isnan(coalesce(maximum, 0D))
                AND (value < coalesce(minimum, {lower}) OR value > coalesce(maximum, {upper}))
            """,
            undecided=f"""
                ((value IS NULL OR isnan(value)) AND ({needed} OR minimum IS NOT NULL OR maximum IS NOT NULL))
                OR isnan(coalesce(minimum, 0D)) OR isnan(coalesce(maximum, 0D))
            """,
            legal=f"""
                value IS NOT NULL AND NOT isnan(value)
                AND NOT isnan(coalesce(minimum, 0D)) AND NOT isnan(coalesce(maximum, 0D))
                AND (value < {lower} OR value > {upper})
                AND value >= coalesce(minimum, {lower}) AND value <= coalesce(maximum, {upper})
            """,
            order=("metric", "subject"),
        )
