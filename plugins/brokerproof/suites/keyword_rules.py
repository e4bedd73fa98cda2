"""The rules for the values of an expectation's keywords. A rule returns the problem of a value as a phrase, or None."""

from __future__ import annotations

import math
from collections.abc import Callable
from string import Formatter
from typing import Any

from brokerproof.errors import shorten

Rule = Callable[[Any], str | None]


def check_number(value: Any) -> str | None:
    """Allow a finite number. Python's JSON reader also accepts NaN and Infinity."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return None if is_number else f"is no number: {shorten(repr(value))}"


def check_whole_number(value: Any) -> str | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return None if is_count else f"is no whole number from 0 on: {shorten(repr(value))}"


def check_bound(value: Any) -> str | None:
    """Allow a finite number, or a text that is not blank, such as a time."""
    return check_number(value) and check_text(value) and f"is no number and no text: {shorten(repr(value))}"


def check_flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"is not true or false: {shorten(repr(value))}"


def check_text(value: Any) -> str | None:
    """Allow a text that is not blank. A blank text as a pattern would match everything."""
    return None if isinstance(value, str) and value.strip() else f"is no text: {shorten(repr(value))}"


def check_texts(value: Any) -> str | None:
    if not isinstance(value, list) or not value:
        return "is no list with a text in it"
    return next((problem for problem in map(check_text, value) if problem), None)


def check_values(value: Any) -> str | None:
    """Allow a non-empty list of different plain values: no null, list or mapping.

    With a null in the list, a wrong row would pass: in Spark, `2 IN (1, NULL)` is null, and Great Expectations counts
    null as true.
    """
    if not isinstance(value, list) or not value:
        return "is no list with a value in it"
    if any(item is None or isinstance(item, list | dict) for item in value):
        return "holds null, a list or a mapping"
    return "holds a value twice" if len({repr(item) for item in value}) < len(value) else None


def check_value_pairs(value: Any) -> str | None:
    if not isinstance(value, list) or not value:
        return "is no list with a pair in it"
    pairs_are_whole = all(isinstance(pair, list) and len(pair) == 2 and check_pair(pair) for pair in value)
    return None if pairs_are_whole else "holds something else than pairs of values"


def check_pair(pair: list[Any]) -> bool:
    """Return whether both values are plain: no null, list or mapping."""
    return not any(item is None or isinstance(item, list | dict) for item in pair)


def check_mapping(value: Any) -> str | None:
    return None if isinstance(value, dict) and value else "is no mapping with a key in it"


def check_query(value: Any) -> str | None:
    """Allow an SQL query that names its table by the placeholder `{batch}`, and has no other placeholder."""
    if problem := check_text(value):
        return problem
    try:
        fields = {field for _, field, _, _ in Formatter().parse(value) if field is not None}
    except ValueError as error:
        return f"has a brace that is no `{{batch}}` ({error}); a brace of SQL is written twice"
    if others := sorted(fields - {"batch"}):
        return f"has the placeholder `{{{others[0]}}}`; only `{{batch}}` is filled in, and a brace of SQL is doubled"
    return None if fields else "does not ask the table, which is called `{batch}` in it"


def choose_from(*names: str) -> Rule:
    """Return the rule that allows only `names`."""
    listed = " or ".join(f"`{name}`" for name in names)
    return lambda value: None if value in names else f"is not {listed}: {shorten(repr(value))}"
