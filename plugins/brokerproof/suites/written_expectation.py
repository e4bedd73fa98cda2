"""Reads an expectation from a suite's file.

An expectation's kind is one of Brokerproof's own, or a standard one, which Great Expectations defines. A standard
expectation is refused if it cannot be used, or if every table satisfies it, such as a range without a bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.errors import InputError, Mistakes, shorten
from brokerproof.experiment.yaml_models import check_fields, find_nearest, suggest_name, write_value
from brokerproof.run.tables import SCHEMAS
from brokerproof.suites.keyword_schemas import Schema, find_problem
from brokerproof.suites.query_rules import QUERY_KEYWORD, list_query_mistakes
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
        return _WALL_TIME in values or _WALL_TIME in self.query.lower()

    @property
    def query(self) -> str:
        """The SQL that selects the unexpected rows; empty if the expectation has no SQL."""
        return str(self.kwargs.get(QUERY_KEYWORD, ""))

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

    Raises InputError, with the path of each field inside the entry, if the entry cannot be used.
    """
    if not isinstance(entry, dict):
        raise InputError("is no expectation", remedy="give `type`, `kwargs` and `description`")
    kind = entry.get("type")
    return _read_own(kind, entry) if kind in list(_OWN_KINDS) else _read_standard(kind, entry)


def _read_own(kind: str, entry: Mapping[str, Any]) -> WrittenExpectation:
    schemas, mistakes = _OWN_KINDS[kind], Mistakes()
    about = next(iter(schemas))
    with mistakes.collect():
        check_fields(entry, _OWN_FIELDS, "", "")
    description = _read_description(entry, mistakes)
    kwargs = entry.get("kwargs")
    given: Mapping[str, Any] = kwargs if isinstance(kwargs, dict) else {}
    unknown = _check_keywords(given, schemas, mistakes)
    if not isinstance(given.get(about), str) and about not in unknown:
        mistakes.found.append(InputError(f"does not say its `{about}`", field="kwargs", remedy="add it"))
    mistakes.found += _list_value_mistakes({name: given[name] for name in given if name in schemas}, schemas)
    mistakes.raise_all()
    return WrittenExpectation(name=given[about], description=description, content=entry)


def _read_standard(kind: Any, entry: Mapping[str, Any]) -> WrittenExpectation:
    standard, mistakes = _find_standard(kind), Mistakes()
    with mistakes.collect():
        check_fields(entry, _STANDARD_FIELDS, "", "")
    if entry.get("severity") not in (None, "critical"):
        problem = f"is `{write_value(entry['severity'])}`, and every expectation counts in full"
        mistakes.found.append(InputError(problem, field="severity", remedy="leave it out"))
    description, table = _read_description(entry, mistakes), ""
    with mistakes.collect():
        table = _read_table(entry.get("meta"))
    kwargs = _read_kwargs(entry.get("kwargs"), standard, table, mistakes)
    mistakes.raise_all()
    columns = ", ".join(standard.list_columns(kwargs))
    place = f"{table}.{columns}" if columns and ", " not in columns else f"{table} ({columns})" if columns else table
    return WrittenExpectation(
        name=shorten(f"{kind} on {place}", _LONGEST_NAME),
        description=description,
        content={"type": kind, "kwargs": kwargs},
        standard=standard,
        table=table,
    )


def _read_description(entry: Mapping[str, Any], mistakes: Mistakes) -> str:
    description = entry.get("description")
    if not isinstance(description, str) or not description.strip():
        mistakes.found.append(InputError("is missing", field="description", remedy="say what must hold"))
    return str(description)


def _find_standard(kind: Any) -> StandardExpectation:
    if kind is None:
        raise InputError("is missing", field="type", remedy="name the kind of expectation")
    if kind in list(UNUSABLE_EXPECTATIONS):
        reason, remedy = UNUSABLE_EXPECTATIONS[kind]
        raise InputError(f"`{kind}` cannot be used: {reason}", field="type", remedy=remedy)
    if kind not in list(STANDARD_EXPECTATIONS):
        name = write_value(kind)
        remedy = suggest_name(name, [*_OWN_KINDS, *STANDARD_EXPECTATIONS])
        raise InputError(f"no kind of expectation is called `{name}`", field="type", remedy=remedy)
    return STANDARD_EXPECTATIONS[kind]


def _read_table(meta: Any) -> str:
    table = meta.get("table") if isinstance(meta, dict) else None
    if table is None:
        remedy = f"one of: {', '.join(sorted(_TABLES))}"
        raise InputError("does not say which table it is about", field="meta.table", remedy=remedy)
    if table not in _TABLES:
        name = write_value(table)
        raise InputError(f"no table is called `{name}`", field="meta.table", remedy=suggest_name(name, _TABLES))
    return str(table)


def _read_kwargs(given: Any, standard: StandardExpectation, table: str, mistakes: Mistakes) -> dict[str, Any]:
    """Return the keyword arguments. Every mistake in them is added to `mistakes`.

    If `table` is empty, the columns are not checked.
    """
    if not isinstance(given, dict):
        problem = InputError("is no mapping", field="kwargs", remedy="write the expectation's keywords")
        mistakes.found.append(problem)
        return {}
    for name in given:
        if name in CLOSED_KEYWORDS:
            reason, remedy = CLOSED_KEYWORDS[name]
            mistakes.found.append(InputError(f"`{name}` {reason}", field=f"kwargs.{name}", remedy=remedy))
    meant = _check_keywords(
        {name: given[name] for name in given if name not in CLOSED_KEYWORDS}, standard.keywords, mistakes
    )
    # Great Expectations treats null like a keyword that is not given.
    kwargs = {name: value for name, value in given.items() if value is not None and name in standard.keywords}
    for name in (*standard.column_keywords, *sorted(standard.required)):
        if name not in kwargs and name not in meant:
            mistakes.found.append(InputError(f"does not say its `{name}`", field="kwargs", remedy="add it"))
    for name in standard.column_keywords if table else ():
        if name in kwargs:
            mistakes.found += _list_column_mistakes(kwargs[name], standard, table, f"kwargs.{name}")
    others = {name: value for name, value in kwargs.items() if name not in standard.column_keywords}
    mistakes.found += _list_value_mistakes(others, standard.keywords)
    if standard.any_of and not any(name in kwargs or name in meant for name in standard.any_of):
        names = " or ".join(f"`{name}`" for name in standard.any_of)
        problem = InputError("has no bound, so it always holds", field="kwargs", remedy=f"give {names}")
        mistakes.found.append(problem)
    return kwargs


def _check_keywords(given: Collection[str], known: Mapping[str, Schema], mistakes: Mistakes) -> set[str | None]:
    """Add unknown keywords to `mistakes`, and return the known keywords that they are probably meant to be."""
    with mistakes.collect():
        check_fields(given, frozenset(known), "", "kwargs")
    return {find_nearest(name, known) for name in given if name not in known}


def _list_value_mistakes(kwargs: Mapping[str, Any], schemas: Mapping[str, Schema]) -> Iterator[InputError]:
    for name, value in kwargs.items():
        if problem := find_problem(schemas[name], value):
            yield InputError(problem, field=f"kwargs.{name}", remedy="correct the value")
        elif schemas[name].get("format") == "query":
            yield from (mistake.locate(below=f"kwargs.{name}") for mistake in list_query_mistakes(value))


def _list_column_mistakes(value: Any, standard: StandardExpectation, table: str, field: str) -> Iterator[InputError]:
    several = standard.scope is Scope.RECORDS
    columns: Sequence[Any] = value if isinstance(value, list) and several else [value]
    unknown = [column for column in columns if column not in SCHEMAS[table].names]
    for column in unknown:
        name = write_value(column)
        yield InputError(
            f"`{table}` has no column `{name}`", field=field, remedy=suggest_name(name, SCHEMAS[table].names)
        )
    if several and not unknown and len(set(columns)) < max(2, len(columns)):
        yield InputError("does not name two columns or more, each once", field=field, remedy="name what is compared")
