"""An expectation of a suite's file: of one of Brokerproof's own kinds, or a standard one of Great Expectations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brokerproof.suites.standard_expectations import Scope, StandardExpectation

# The column of `stored` and `deliveries` that holds times of the wall clock.
_WALL_TIME = "published_at"


@dataclass(frozen=True, kw_only=True)
class WrittenExpectation:
    """An expectation in a suite's file.

    If the expectation is of Brokerproof's own kinds, `name` is the anomaly or metric. For a standard expectation of
    Great Expectations, `name` consists of the type, the table and the columns. Only a standard expectation has
    `standard` and `table`.
    """

    name: str
    description: str
    content: Mapping[str, Any]
    standard: StandardExpectation | None = None
    table: str = ""

    @property
    def kwargs(self) -> Mapping[str, Any]:
        kwargs: Mapping[str, Any] = self.content["kwargs"]
        return kwargs

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a standard expectation names; empty for Brokerproof's own kinds."""
        return list_columns(self.standard, self.kwargs) if self.standard else ()

    @property
    def reads_wall_times(self) -> bool:
        """Whether the expectation reads a column with times that the system's client took from the wall clock."""
        values = self.columns if self.standard and self.standard.scope is not Scope.ROWS else ()
        return _WALL_TIME in values or _WALL_TIME in str(self.kwargs.get("unexpected_rows_query", "")).lower()

    @property
    def minimum(self) -> float | None:
        """The lower bound that is in force if the scenario sets none; None if there is no such bound."""
        return self.kwargs.get("minimum")

    @property
    def maximum(self) -> float | None:
        """The upper bound that is in force if the scenario sets none; None if there is no such bound."""
        return self.kwargs.get("maximum")

    @property
    def required(self) -> bool:
        """Whether the metric has to be measured even if no bound is set."""
        return bool(self.kwargs.get("required"))


def list_columns(standard: StandardExpectation, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that the keywords of a standard expectation name."""
    named = [kwargs[keyword] for keyword in standard.column_keywords]
    return tuple(column for each in named for column in (each if isinstance(each, list) else [each]))
