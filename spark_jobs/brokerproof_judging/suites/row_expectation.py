"""The base class of Brokerproof's own kinds of expectation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.util import convert_to_json_serializable

from brokerproof_judging.suites.tally import Tally, order_columns


class RowExpectation(BatchExpectation, ABC):
    """An expectation that counts rows, and holds if no row is unexpected or undecided."""

    @abstractmethod
    def read_tally(self, metrics: Mapping[str, Any]) -> tuple[Tally, list[dict[str, Any]]]:
        """Return the numbers of rows, and a few unexpected rows. If no row is unexpected, return undecided rows."""

    def describe_observed(self, metrics: Mapping[str, Any], tally: Tally) -> str:
        """Return the text that Data Docs show as the observed value."""
        return f"{tally.unexpected} of {tally.rows} against it, {tally.undecided} undecided, {tally.legal} legal"

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: dict[str, Any] | None = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        tally, samples = self.read_tally(metrics)
        return {
            "success": tally.unexpected == 0 and tally.undecided == 0,
            "result": {
                "observed_value": self.describe_observed(metrics, tally),
                "rows": tally.rows,
                "unexpected_count": tally.unexpected,
                "unexpected_percent": 100 * tally.unexpected / tally.rows if tally.rows else 0.0,
                "element_count": tally.rows,
                "undecided": tally.undecided,
                "legal": tally.legal,
                # Data Docs look for a table of samples under this key.
                "partial_unexpected_list": [_describe_row(row) for row in samples],
                "details": {"samples": samples},
            },
        }


def _describe_row(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if value not in (None, []) and name != "run_id")


def make_sample(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with values that JSON can hold. The columns that name a message come first."""
    return {name: _make_json_value(value) for name, value in order_columns(row).items()}


def _make_json_value(value: Any) -> Any:
    """Return a value as JSON can hold it: NaN and infinity become their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return convert_to_json_serializable(value)
