"""Reads an expectation from a suite's file.

An expectation's kind is one of Brokerproof's own, or a standard one, which Great Expectations defines. A standard
expectation is refused if it cannot be used, or if every table satisfies it, such as a range without a bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.errors import InputError, shorten
from brokerproof.experiment.yaml_models import check_fields, suggest_name
from brokerproof.run.tables import SCHEMAS
from brokerproof.suites.keyword_schemas import Schema, find_problem
from brokerproof.suites.standard_expectations import (
    CLOSED_KEYWORDS,
    STANDARD_EXPECTATIONS,
    UNUSABLE_EXPECTATIONS,
    Scope,
    StandardExpectation,
)

# Brokerproof's own kinds, each with its keywords; the first one names the anomaly or metric. Every other keyword is
# refused: with `row_condition`, `mostly` or `result_format`, a broken expectation can pass.
_OWN_KINDS: Mapping[str, Mapping[str, Schema]] = {
    "expect_no_illegal_anomaly": {"anomaly": {"type": "string"}},
    "expect_measurement_within_bounds": {
        "metric": {"type": "string"},
        "minimum": {"type": "number"},
        "maximum": {"type": "number"},
        "required": {"type": "boolean"},
    },
}
# The tables that standard expectations may evaluate.
_TABLES = ("publishes", "stored", "deliveries", "messages", "anomalies", "measurements")
_OWN_FIELDS = frozenset({"type", "kwargs", "description", "meta", "notes"})
# Great Expectations also writes an `id` and a `severity` into a file.
_STANDARD_FIELDS = _OWN_FIELDS | {"id", "severity"}
# In characters.
_LONGEST_NAME = 200
# The column of `stored` and `deliveries` that holds times of the wall clock.
_WALL_TIME = "published_at"


@dataclass(frozen=True, kw_only=True)
class WrittenExpectation:
    """An expectation in a suite's file.

    For Brokerproof's own kinds, `name` is the anomaly or metric. For Great Expectations' kinds, `name` consists of the
    type, the table and the columns. Only an expectation of Great Expectations' kinds has `standard` and `table`.
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
        return self.standard.list_columns(self.kwargs) if self.standard else ()

    @property
    def reads_wall_times(self) -> bool:
        """Whether the expectation reads times that the messaging system's client took from the wall clock."""
        values = self.columns if self.standard and self.standard.scope is not Scope.ROWS else ()
        return _WALL_TIME in values or _WALL_TIME in str(self.kwargs.get("unexpected_rows_query", "")).lower()

    @property
    def minimum(self) -> float | None:
        """The metric's lower bound if the scenario sets none; None if the expectation has no lower bound."""
        return self.kwargs.get("minimum")

    @property
    def maximum(self) -> float | None:
        """The metric's upper bound if the scenario sets none; None if the expectation has no upper bound."""
        return self.kwargs.get("maximum")

    @property
    def required(self) -> bool:
        """Whether the metric has to be measured even if no bound is set."""
        return bool(self.kwargs.get("required"))


def read_expectation(entry: Any) -> WrittenExpectation:
    """Return the expectation that an entry of a suite's file describes.

    Raises InputError, with the path of the field inside the entry, if the entry cannot be used.
    """
    if not isinstance(entry, dict):
        raise InputError("is no expectation", remedy="give `type`, `kwargs` and `description`")
    kind = str(entry.get("type"))
    return _read_own(kind, entry) if kind in _OWN_KINDS else _read_standard(kind, entry)


def _read_own(kind: str, entry: Mapping[str, Any]) -> WrittenExpectation:
    check_fields(entry, _OWN_FIELDS, "", "")
    schemas = _OWN_KINDS[kind]
    about = next(iter(schemas))
    kwargs = entry.get("kwargs")
    if not isinstance(kwargs, dict) or not isinstance(kwargs.get(about), str):
        raise InputError(f"does not say its `{about}`", field="kwargs", remedy="add it")
    check_fields(kwargs, frozenset(schemas), "", "kwargs")
    _check_values(kwargs, schemas)
    return WrittenExpectation(name=kwargs[about], description=_read_description(entry), content=entry)


def _read_standard(kind: str, entry: Mapping[str, Any]) -> WrittenExpectation:
    standard = _find_standard(kind)
    check_fields(entry, _STANDARD_FIELDS, "", "")
    if entry.get("severity") not in (None, "critical"):
        severity = shorten(str(entry["severity"]))
        raise InputError(
            f"is `{severity}`, and every expectation counts in full", field="severity", remedy="leave it out"
        )
    table = _read_table(entry.get("meta"))
    kwargs = _read_kwargs(entry.get("kwargs"), standard, table)
    columns = ", ".join(standard.list_columns(kwargs))
    place = f"{table}.{columns}" if columns and ", " not in columns else f"{table} ({columns})" if columns else table
    return WrittenExpectation(
        name=shorten(f"{kind} on {place}", _LONGEST_NAME),
        description=_read_description(entry),
        content={"type": kind, "kwargs": kwargs},
        standard=standard,
        table=table,
    )


def _read_description(entry: Mapping[str, Any]) -> str:
    description = entry.get("description")
    if not isinstance(description, str) or not description.strip():
        raise InputError("is missing", field="description", remedy="say what must hold")
    return description


def _find_standard(kind: str) -> StandardExpectation:
    if kind in UNUSABLE_EXPECTATIONS:
        reason, remedy = UNUSABLE_EXPECTATIONS[kind]
        raise InputError(f"`{kind}` cannot be used: {reason}", field="type", remedy=remedy)
    if kind not in STANDARD_EXPECTATIONS:
        remedy = suggest_name(kind, [*_OWN_KINDS, *STANDARD_EXPECTATIONS])
        raise InputError(f"no kind of expectation is called `{kind}`", field="type", remedy=remedy)
    return STANDARD_EXPECTATIONS[kind]


def _read_table(meta: Any) -> str:
    table = meta.get("table") if isinstance(meta, dict) else None
    if table is None:
        remedy = f"one of: {', '.join(sorted(_TABLES))}"
        raise InputError("does not say which table it is about", field="meta.table", remedy=remedy)
    if table not in _TABLES:
        name = shorten(str(table))
        raise InputError(f"no table is called `{name}`", field="meta.table", remedy=suggest_name(name, _TABLES))
    return str(table)


def _read_kwargs(given: Any, standard: StandardExpectation, table: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InputError("is no mapping", field="kwargs", remedy="write the expectation's keywords")
    for name in given:
        if name in CLOSED_KEYWORDS:
            reason, remedy = CLOSED_KEYWORDS[name]
            raise InputError(f"`{name}` {reason}", field=f"kwargs.{name}", remedy=remedy)
    check_fields(given, frozenset(standard.keywords), "", "kwargs")
    # Great Expectations treats null like a keyword that is not given.
    kwargs = {name: value for name, value in given.items() if value is not None}
    for name in (*standard.column_keywords, *sorted(standard.required)):
        if name not in kwargs:
            raise InputError(f"does not say its `{name}`", field="kwargs", remedy="add it")
    for name in standard.column_keywords:
        _check_columns(kwargs[name], standard, table, f"kwargs.{name}")
    _check_values(kwargs, standard.keywords)
    if standard.any_of and not any(name in kwargs for name in standard.any_of):
        names = " or ".join(f"`{name}`" for name in standard.any_of)
        raise InputError("has no bound, so it always holds", field="kwargs", remedy=f"give {names}")
    return kwargs


def _check_values(kwargs: Mapping[str, Any], schemas: Mapping[str, Schema]) -> None:
    for name, value in kwargs.items():
        if problem := find_problem(schemas[name], value):
            raise InputError(problem, field=f"kwargs.{name}", remedy="correct the value")


def _check_columns(value: Any, standard: StandardExpectation, table: str, field: str) -> None:
    several = standard.scope is Scope.RECORDS
    columns: Sequence[Any] = value if isinstance(value, list) and several else [value]
    for column in columns:
        if column not in SCHEMAS[table].names:
            name = shorten(str(column))
            remedy = suggest_name(name, SCHEMAS[table].names)
            raise InputError(f"`{table}` has no column `{name}`", field=field, remedy=remedy)
    if several and len(set(columns)) < max(2, len(columns)):
        raise InputError("does not name two columns or more, each once", field=field, remedy="name what is compared")
