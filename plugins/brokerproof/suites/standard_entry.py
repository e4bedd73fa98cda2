"""Reads a standard expectation of Great Expectations from a suite's file.

An expectation is refused if it cannot be used or would pass for every table, such as a range without a bound.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from brokerproof.errors import InputError, shorten
from brokerproof.experiment.yaml_models import check_fields, suggest_name
from brokerproof.run.tables import SCHEMAS
from brokerproof.suites.standard_expectations import (
    CLOSED_KEYWORDS,
    STANDARD_EXPECTATIONS,
    UNUSABLE_EXPECTATIONS,
    Scope,
    StandardExpectation,
)
from brokerproof.suites.written_expectation import WrittenExpectation, list_columns

# The tables that standard expectations may evaluate.
TABLES = ("publishes", "stored", "deliveries", "messages", "anomalies", "measurements")

# In characters.
_LONGEST_NAME = 200
# Great Expectations also writes an `id` and a `severity` into a file.
_FIELDS = frozenset({"type", "kwargs", "description", "meta", "notes", "id", "severity"})


def read_standard_entry(
    entry: Mapping[str, Any], path: str, field: str, own_kinds: Collection[str]
) -> WrittenExpectation:
    """Return the standard expectation `entry`. Raises InputError, with `path` and `field`, if it cannot be used.

    `own_kinds` are Brokerproof's own kinds of expectation, which the remedy for a misspelt type may suggest.
    """
    kind = str(entry.get("type"))
    standard = _find_standard(kind, path, f"{field}.type", own_kinds)
    check_fields(entry, _FIELDS, path, field)
    if entry.get("severity") not in (None, "critical"):
        severity = shorten(str(entry["severity"]))
        raise InputError(
            f"is `{severity}`, and every expectation counts in full",
            file=path,
            field=f"{field}.severity",
            remedy="leave it out",
        )
    table = _read_table(entry, path, f"{field}.meta")
    kwargs = _read_kwargs(entry, standard, table, path, f"{field}.kwargs")
    columns = ", ".join(list_columns(standard, kwargs))
    place = f"{table}.{columns}" if columns and ", " not in columns else f"{table} ({columns})" if columns else table
    return WrittenExpectation(
        name=shorten(f"{kind} on {place}", _LONGEST_NAME),
        description=read_description(entry, path, field),
        content={"type": kind, "kwargs": kwargs},
        standard=standard,
        table=table,
    )


def read_description(entry: Mapping[str, Any], path: str, field: str) -> str:
    """Return the description of an entry: a sentence that must hold. Raises InputError if it is missing."""
    description = entry.get("description")
    if not isinstance(description, str) or not description.strip():
        raise InputError("is missing", file=path, field=f"{field}.description", remedy="say what must hold")
    return description


def _find_standard(kind: str, path: str, field: str, own_kinds: Collection[str]) -> StandardExpectation:
    if kind in UNUSABLE_EXPECTATIONS:
        reason, remedy = UNUSABLE_EXPECTATIONS[kind]
        raise InputError(f"`{kind}` cannot be used: {reason}", file=path, field=field, remedy=remedy)
    if kind not in STANDARD_EXPECTATIONS:
        raise InputError(
            f"no kind of expectation is called `{kind}`",
            file=path,
            field=field,
            remedy=suggest_name(kind, [*own_kinds, *STANDARD_EXPECTATIONS]),
        )
    return STANDARD_EXPECTATIONS[kind]


def _read_table(entry: Mapping[str, Any], path: str, field: str) -> str:
    meta = entry.get("meta")
    table = meta.get("table") if isinstance(meta, dict) else None
    if table is None:
        raise InputError(
            "does not say which table it is about",
            file=path,
            field=f"{field}.table",
            remedy=f"one of: {_list_tables()}",
        )
    if table not in TABLES:
        name = shorten(str(table))
        raise InputError(
            f"no table is called `{name}`", file=path, field=f"{field}.table", remedy=suggest_name(name, TABLES)
        )
    return str(table)


def _list_tables() -> str:
    return ", ".join(sorted(TABLES))


def _read_kwargs(
    entry: Mapping[str, Any], standard: StandardExpectation, table: str, path: str, field: str
) -> dict[str, Any]:
    given = entry.get("kwargs")
    if not isinstance(given, dict):
        raise InputError("is no mapping", file=path, field=field, remedy="write the expectation's keywords")
    for name in given:
        if name in CLOSED_KEYWORDS:
            reason, remedy = CLOSED_KEYWORDS[name]
            raise InputError(f"`{name}` {reason}", file=path, field=f"{field}.{name}", remedy=remedy)
    check_fields(given, standard.known_keywords, path, field)
    # Great Expectations treats null like a keyword that is not given.
    kwargs = {name: value for name, value in given.items() if value is not None}
    for name in (*standard.column_keywords, *sorted(standard.required)):
        if name not in kwargs:
            raise InputError(f"does not say its `{name}`", file=path, field=field, remedy="add it")
    for name in standard.column_keywords:
        _check_columns(kwargs[name], standard, table, path, f"{field}.{name}")
    for name, value in kwargs.items():
        if name in standard.keywords and (problem := standard.keywords[name](value)):
            raise InputError(problem, file=path, field=f"{field}.{name}", remedy="correct the value")
    if standard.any_of and not any(name in kwargs for name in standard.any_of):
        names = " or ".join(f"`{name}`" for name in standard.any_of)
        raise InputError("has no bound, so it always holds", file=path, field=field, remedy=f"give {names}")
    return kwargs


def _check_columns(value: Any, standard: StandardExpectation, table: str, path: str, field: str) -> None:
    several = standard.scope is Scope.RECORDS
    columns: Sequence[Any] = value if isinstance(value, list) and several else [value]
    for column in columns:
        if column not in SCHEMAS[table].names:
            name = shorten(str(column))
            raise InputError(
                f"`{table}` has no column `{name}`",
                file=path,
                field=field,
                remedy=suggest_name(name, SCHEMAS[table].names),
            )
    if several and len(set(columns)) < max(2, len(columns)):
        raise InputError(
            "does not name two columns or more, each once", file=path, field=field, remedy="name what is compared"
        )
