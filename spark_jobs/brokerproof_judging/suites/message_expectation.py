"""The expectation on the table `messages`: no row has a given kind of anomaly if the guarantee forbids it.

All expectations of a suite take one Spark job, because Great Expectations joins aggregates over the same rows. Its own
UnexpectedRowsExpectation would take two Spark jobs for each expectation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, ClassVar

from brokerproof.experiment.guarantees import Anomaly
from great_expectations.compatibility import pydantic
from great_expectations.compatibility.pyspark import functions as F
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.metrics.metric_provider import metric_partial, metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.validator.metric_configuration import MetricConfiguration

from brokerproof_judging.suites.row_expectation import RowExpectation, make_sample
from brokerproof_judging.suites.tally import MOST_SAMPLES, Tally

_COUNTS = "brokerproof.message_counts"
_SAMPLES = "brokerproof.message_samples"


@dataclass(frozen=True, kw_only=True)
class MessageConditions:
    """Conditions in Spark SQL: whether a row of `messages` is unexpected, undecided or legal, as `Tally` defines these.

    At most one condition holds for a row. A condition that is null does not hold. The conditions are text, because each
    call on a Spark column is a round trip to the JVM.
    """

    unexpected: str
    undecided: str
    legal: str

    @classmethod
    def for_anomaly(cls, anomaly: str) -> MessageConditions:
        """Return the conditions for `anomaly`, on the columns `anomalies` and `illegal` (the forbidden anomalies)."""
        found, illegal = (f"array_contains({column}, '{anomaly}')" for column in ("anomalies", "illegal"))
        # An unproven message is legal under every guarantee, but leaves its row undecided.
        proves_nothing = anomaly == Anomaly.UNPROVEN
        in_doubt = f"coalesce({found}, true)" if proves_nothing else f"{found} IS NULL"
        return cls(
            unexpected=illegal,
            undecided=f"{illegal} IS NULL OR (NOT {illegal} AND {in_doubt})",
            legal="false" if proves_nothing else f"{found} AND NOT {illegal}",
        )


class MessageCountsMetric(TableMetricProvider):
    """Counts the rows of `messages` for one anomaly: all, unexpected, undecided and legal rows."""

    metric_name = _COUNTS
    value_keys = ("anomaly",)

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
        conditions = astuple(MessageConditions.for_anomaly(metric_value_kwargs["anomaly"]))
        counts = ", ".join(f"count_if({condition})" for condition in conditions)
        return F.expr(f"array(count(*), {counts})"), metric_domain_kwargs, {}


class MessageSamplesMetric(TableMetricProvider):
    """Takes up to `MOST_SAMPLES` unexpected rows, or undecided ones if no row is unexpected."""

    metric_name = _SAMPLES
    value_keys = ("anomaly",)

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
        conditions = MessageConditions.for_anomaly(metric_value_kwargs["anomaly"])
        rows = (
            frame.where(conditions.unexpected if unexpected else conditions.undecided)
            # Sorted, so that every evaluation shows the same rows.
            .orderBy("cluster", "subscription", "producer", "seq")
            .limit(MOST_SAMPLES)
            .collect()
        )
        return [make_sample(row.asDict(recursive=True)) for row in rows]

    @classmethod
    def _get_evaluation_dependencies(cls, metric: MetricConfiguration, **_: Any) -> dict[str, MetricConfiguration]:
        return {
            _COUNTS: MetricConfiguration(
                metric_name=_COUNTS,
                metric_domain_kwargs=metric.metric_domain_kwargs,
                metric_value_kwargs=metric.metric_value_kwargs,
            )
        }


class ExpectNoIllegalAnomaly(RowExpectation):
    """No row of `messages` has the anomaly if the guarantee forbids it.

    The anomaly `unproven` makes a row undecided, because the evidence about its message is not enough.
    """

    anomaly: str

    success_keys: ClassVar[tuple[str, ...]] = ("anomaly",)
    metric_dependencies: ClassVar[tuple[str, ...]] = (_COUNTS, _SAMPLES)

    @pydantic.validator("anomaly")
    def _check_anomaly(cls, anomaly: str) -> str:  # noqa: N805
        if anomaly not in list(Anomaly):
            raise ValueError(f"no anomaly is called `{anomaly}`")
        return anomaly

    def read_tally(self, metrics: Mapping[str, Any]) -> tuple[Tally, list[dict[str, Any]]]:
        rows, unexpected, undecided, legal = metrics[_COUNTS]
        return Tally(rows=rows, unexpected=unexpected, undecided=undecided, legal=legal), metrics[_SAMPLES]
