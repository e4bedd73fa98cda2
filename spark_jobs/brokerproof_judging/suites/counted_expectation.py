"""What both kinds of expectation have in common: they count rows, and hold where none is against them.

A row is *unexpected* where it breaks the rule, *undecided* where it cannot be said (a null where a value is needed),
and *legal* where it is an anomaly that the guarantee allows, or a value that only the scenario's own bound allows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.util import convert_to_json_serializable

# Rows that a result shows of those that it counts.
MOST_SAMPLES = 20


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Numbers of rows that an expectation is about, and a few that are unexpected or, where none is, undecided."""

    rows: int
    unexpected: int
    undecided: int
    legal: int
    samples: list[dict[str, Any]]


class CountedExpectation(BatchExpectation, ABC):
    """Holds where no row is unexpected and none is undecided."""

    @abstractmethod
    def read_counted(self, metrics: Mapping[str, Any]) -> Counted:
        """What its metrics came to."""

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        rows, unexpected, undecided, legal, samples = astuple(self.read_counted(metrics))
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


def make_sample(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a result shows it."""
    return {name: _make_json_value(value) for name, value in row.items()}


def _make_json_value(value: Any) -> Any:
    """A value as JSON can hold it: NaN and infinity become their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return convert_to_json_serializable(value)
