"""An expectation as it is written in a suite's file: one of Brokerproof's own kinds, or a standard one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brokerproof.suites.standard_expectations import Scope, StandardExpectation

# The column, of `stored` and `deliveries`, whose times are of wall clocks.
_WALL_TIME = "published_at"


@dataclass(frozen=True, kw_only=True)
class WrittenExpectation:
    """An expectation of a file.

    `name` is the anomaly or the metric that it is about. That of a standard expectation is made of its type, its table
    and its columns; `standard` and `table` are set only for these.
    """

    name: str
    description: str
    content: Mapping[str, Any]
    standard: StandardExpectation | None = None
    table: str = ""

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """Its keywords."""
        kwargs: Mapping[str, Any] = self.content["kwargs"]
        return kwargs

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a standard expectation names."""
        return list_columns(self.standard, self.kwargs) if self.standard else ()

    @property
    def reads_wall_times(self) -> bool:
        """Whether a standard expectation reads a time that the system's client took from the wall clock."""
        values = self.columns if self.standard and self.standard.scope is not Scope.ROWS else ()
        return _WALL_TIME in values or _WALL_TIME in str(self.kwargs.get("unexpected_rows_query", "")).lower()

    @property
    def minimum(self) -> float | None:
        """The bound from below that is in force where the scenario sets none."""
        return self.kwargs.get("minimum")

    @property
    def maximum(self) -> float | None:
        """The bound from above that is in force where the scenario sets none."""
        return self.kwargs.get("maximum")

    @property
    def required(self) -> bool:
        """Whether it has to be measured even where nothing bounds it."""
        return bool(self.kwargs.get("required"))


def list_columns(standard: StandardExpectation, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns in the keywords of a standard expectation."""
    named = [kwargs[keyword] for keyword in standard.column_keywords]
    return tuple(column for each in named for column in (each if isinstance(each, list) else [each]))
