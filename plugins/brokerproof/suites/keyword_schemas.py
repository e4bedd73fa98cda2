"""The JSON schemas for the keyword arguments of Great Expectations' own expectations, and the check of a value.

The library ships a schema for nearly every kind of expectation. The schemas are read as files, because importing the
library takes 7 to 10 s, and importing `jsonschema` over 1 s. This module has the missing schemas. It also has stricter
schemas for some keywords, because the library allows values with which an expectation always holds or cannot be
evaluated.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from brokerproof.errors import InputError, shorten
from brokerproof.suites.query_rules import QUERY_KEYWORD

Schema = Mapping[str, Any]

# The properties in a schema of the library that are no keywords.
_NO_KEYWORDS = frozenset(
    {"id", "meta", "notes", "description", "rendered_content", "severity", "metadata", "library_metadata"}
)
_WITHOUT_SCHEMA: Mapping[str, Schema] = MappingProxyType(
    {
        "expect_column_values_to_be_json_parseable": {"properties": {"column": {"type": "string"}}},
        "expect_column_values_to_match_json_schema": {
            "properties": {"column": {"type": "string"}, "json_schema": {"type": "object"}},
            "required": ["json_schema"],
        },
    }
)
_TEXTS = {"type": "array", "items": {"type": "string"}}
_NUMBER = {"type": "number"}
_COUNT = {"type": "integer"}
# By keyword, for all kinds. The types `value` and `pair` are those of `_TYPES`.
_STRICTER_FOR_ALL: Mapping[str, Schema] = MappingProxyType(
    {
        "value_set": {"type": "array", "items": {"type": "value"}, "uniqueItems": True},
        "value_pairs_set": {"type": "array", "items": {"type": "pair"}},
        "column_list": _TEXTS,
        "column_set": _TEXTS,
        QUERY_KEYWORD: {"type": "string", "format": "query"},
    }
)
# By kind and keyword.
_STRICTER: Mapping[str, Mapping[str, Schema]] = MappingProxyType(
    {
        "expect_column_mean_to_be_between": {"min_value": _NUMBER, "max_value": _NUMBER},
        "expect_column_sum_to_be_between": {"min_value": _NUMBER, "max_value": _NUMBER},
        "expect_column_value_lengths_to_equal": {"value": _COUNT},
        "expect_table_column_count_to_be_between": {"min_value": _COUNT, "max_value": _COUNT},
        "expect_table_row_count_to_be_between": {"min_value": _COUNT, "max_value": _COUNT},
        "expect_select_column_values_to_be_unique_within_record": {
            "ignore_row_if": {"enum": ["all_values_are_missing", "any_value_is_missing", "never"]}
        },
    }
)
# The library does not require these keywords. Without one of them, the expectation always holds.
_ALSO_REQUIRED = frozenset({"regex", "type_list", "column_list", "column_set"})


def list_keyword_schemas(kind: str) -> dict[str, Schema]:
    """Return the schema of each keyword of a kind of standard expectation.

    Raises InputError if Great Expectations is not installed or has no schema for this kind.
    """
    stricter = {**_STRICTER_FOR_ALL, **_STRICTER.get(kind, {})}
    properties = _read_schema(kind)["properties"]
    return {name: stricter.get(name, schema) for name, schema in properties.items() if name not in _NO_KEYWORDS}


def list_required_keywords(kind: str) -> frozenset[str]:
    schema = _read_schema(kind)
    return _ALSO_REQUIRED.intersection(schema["properties"]).union(schema.get("required", ()))


@cache
def _read_schema(kind: str) -> Schema:
    if kind in _WITHOUT_SCHEMA:
        return _WITHOUT_SCHEMA[kind]
    library = find_spec("great_expectations")
    for place in (library and library.submodule_search_locations) or ():
        file = Path(place, "expectations", "core", "schemas", f"{kind.title().replace('_', '')}.json")
        if file.exists():
            schema: Schema = json.loads(file.read_bytes())
            return schema
    problem = f"Great Expectations is not installed, or its version has no schema of `{kind}`"
    raise InputError(problem, remedy="install the version that requirements.txt names")


def find_problem(schema: Schema, value: Any) -> str | None:
    """Return what is wrong with the value of a keyword, as a phrase; None if the value fits the schema."""
    # The library also allows an object, which names a parameter that is filled in later. No suite has parameters.
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "object"] or [schema]
    first = options[0]
    if "enum" in first:
        listed = " or ".join(f"`{name}`" for name in first["enum"])
        return None if value in first["enum"] else f"is not {listed}: `{_write_json(value)}`"
    if first["type"] == "array":
        return _find_item_problem(first, value)
    types = [_TYPES[name] for name in dict.fromkeys(option["type"] for option in options)]
    if not any(is_of_type(value) for _, is_of_type in types):
        return f"is {' and '.join(phrase for phrase, _ in types)}: `{_write_json(value)}`"
    return _find_reference_problem(value) if first["type"] == "object" else None


def _write_json(value: Any) -> str:
    """Return a value in one line, as the suite's file has it."""
    return shorten(json.dumps(value, ensure_ascii=False).replace("`", "'"))


def _find_item_problem(schema: Schema, value: Any) -> str | None:
    if not isinstance(value, list) or not value:
        return "is no list with a value in it"
    phrase, is_of_type = _TYPES[schema["items"]["type"]]
    for item in value:
        if not is_of_type(item):
            return f"holds `{_write_json(item)}`, which is {phrase}"
    is_repeated = schema.get("uniqueItems") and len({repr(item) for item in value}) < len(value)
    return "holds a value twice" if is_repeated else None


def _find_reference_problem(value: Any) -> str | None:
    """Return what is wrong with the references of a JSON schema.

    The library `jsonschema` would read a reference to another document from a file or from the network.
    """
    if isinstance(value, list | dict):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            is_reference = key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(item, str)
            if is_reference and not item.startswith("#"):
                return f"refers to another document, `{_write_json(item)}`; a reference begins with `#`"
            if problem := _find_reference_problem(item):
                return problem
    return None


def _is_number(value: Any) -> bool:
    """Whether the value is a number that a float can hold.

    Python's JSON reader also accepts NaN, Infinity and integers of any size.
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value) and value >= 0


def _is_plain(value: Any) -> bool:
    """Whether the value is neither null nor a list or mapping.

    With a null in an expectation's set of allowed values, a wrong row would pass. In Spark, `2 IN (1, NULL)` is null,
    which Great Expectations counts as true.
    """
    return value is not None and not isinstance(value, list | dict)


# By type: the phrase for a value that is not of the type, and the check.
_TYPES: Mapping[str, tuple[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "number": ("no number", _is_number),
        "integer": ("no whole number from 0 on", _is_count),
        "boolean": ("not true or false", lambda value: isinstance(value, bool)),
        # A blank text as a pattern would match everything.
        "string": ("no text", lambda value: isinstance(value, str) and bool(value.strip())),
        "object": ("no mapping with a key in it", lambda value: isinstance(value, dict) and bool(value)),
        "value": ("no text, number or boolean", _is_plain),
        "pair": (
            "no pair of texts, numbers or booleans",
            lambda value: isinstance(value, list) and len(value) == 2 and all(map(_is_plain, value)),
        ),
    }
)
