"""The expectation on the table `messages`: no row has a given kind of anomaly if the guarantee forbids it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from brokerproof.experiment.guarantees import Anomaly
from great_expectations.compatibility import pydantic
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from brokerproof_judging.suites.row_expectation import RowExpectation, make_sample
from brokerproof_judging.suites.tally import MOST_SAMPLES, Tally

_RESULTS = "brokerproof.message_results"


class MessageResultsMetric(TableMetricProvider):
    """Counts the rows of `messages` for one anomaly, from the groups of `read_message_groups`.

    Takes up to `MOST_SAMPLES` unexpected rows, or undecided ones if no row is unexpected.
    """

    metric_name = _RESULTS
    value_keys = ("anomaly",)

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805 (Great Expectations makes a class method of it)
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> tuple[Tally, list[dict[str, Any]]]:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        groups = frame.to_dict("records")
        found: dict[str, list[dict[str, Any]]] = {"": [], "unexpected": [], "undecided": [], "legal": []}
        for group in groups:
            found[judge_group(group, metric_value_kwargs["anomaly"])].append(group)
        counts = {name: sum(group["rows"] for group in each) for name, each in found.items()}
        samples = [sample for group in found["unexpected"] or found["undecided"] for sample in group["samples"]]
        samples.sort(key=lambda sample: sample[0])
        tally = Tally(
            rows=sum(counts.values()),
            unexpected=counts["unexpected"],
            undecided=counts["undecided"],
            legal=counts["legal"],
        )
        return tally, [make_sample(row) for _, row in samples[:MOST_SAMPLES]]


def judge_group(group: Mapping[str, Any], anomaly: str) -> str:
    """Return whether the rows of a group are `unexpected`, `undecided` or `legal`, as `Tally` defines these, or empty.

    An unproven message is legal under every guarantee, but leaves its row undecided.
    """
    found, illegal = (_contains(group[column], anomaly) for column in ("anomalies", "illegal"))
    if illegal:
        return "unexpected"
    if illegal is None or found is None or (found and anomaly == Anomaly.UNPROVEN):
        return "undecided"
    return "legal" if found else ""


def _contains(names: Sequence[str | None] | None, name: str) -> bool | None:
    """Return whether the list has the name; None if the list is null, or if a null in it may be the name."""
    if names is None:
        return None
    return True if name in names else (None if None in names else False)


class ExpectNoIllegalAnomaly(RowExpectation):
    """No row of `messages` has the anomaly if the guarantee forbids it.

    The anomaly `unproven` makes a row undecided, because the evidence about its message is not enough.
    """

    anomaly: str

    success_keys: ClassVar[tuple[str, ...]] = ("anomaly",)
    metric_dependencies: ClassVar[tuple[str, ...]] = (_RESULTS,)

    @pydantic.validator("anomaly")
    def _check_anomaly(cls, anomaly: str) -> str:  # noqa: N805
        if anomaly not in list(Anomaly):
            raise ValueError(f"no anomaly is called `{anomaly}`")
        return anomaly

    def read_tally(self, metrics: Mapping[str, Any]) -> tuple[Tally, list[dict[str, Any]]]:
        tally, samples = metrics[_RESULTS]
        return tally, samples
