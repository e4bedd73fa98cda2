"""Says in words what pydantic found wrong with a user's file: the field, the value as YAML has it, and what to write.

No sentence contains words of Python or pydantic, such as the names of types.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from brokerproof.errors import InputError, shorten

# The pattern for the names of scenarios, faults, subscriptions and suites. They become names of files and subjects of
# measurements.
IDENTIFIER = r"^[a-z][a-z0-9_]*$"
# The pattern for the names of regions, racks and topics. They become parts of host names and addresses.
HYPHENATED = r"^[a-z][a-z0-9-]*$"
_NAMES: Mapping[str, str] = {
    IDENTIFIER: "use lower-case letters, digits and `_`, with a letter first",
    HYPHENATED: "use lower-case letters, digits and `-`, with a letter first",
}
_UNKNOWN, _MISSING = "extra_forbidden", "missing"
# pydantic has this part in a location if the mistake is in the key of a mapping.
_KEY = "[key]"
# The placeholder for a name or text in an example.
_ANY = "…"


def list_mistakes(model: type[BaseModel], error: ValidationError) -> list[InputError]:
    """Return an InputError for each mistake in a mapping that `model` refused, with the field's path in the mapping.

    A misspelt field that must be given is one mistake, although pydantic reports an unknown and a missing field.
    """
    errors = error.errors(include_url=False)
    meant = {(*each["loc"][:-1], _find_meant(model, each["loc"])) for each in errors if each["type"] == _UNKNOWN}
    mistakes: list[InputError] = []
    for each in errors:
        if each["type"] == _MISSING and each["loc"] in meant:
            continue
        location = tuple(part for part in each["loc"] if part != _KEY)
        field = ".".join(map(str, location))
        cause = each.get("ctx", {}).get("error")
        if isinstance(cause, InputError):
            mistakes += cause.locate(below=field).mistakes
        else:
            problem, remedy = _describe(model, each, location)
            mistakes.append(InputError(problem, field=field, remedy=remedy))
    return mistakes


# The largest number of known names in a remedy.
_MOST_NAMES = 30


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a remedy for an unknown name: the most similar known name, or known names if none is similar.

    Of more than `_MOST_NAMES` known names, those that are most like the unknown one are listed.
    """
    names = sorted(known)
    near = find_nearest(name, names)
    if near:
        return f"did you mean `{near}`?"
    listed = names
    if len(names) > _MOST_NAMES:
        listed = sorted(difflib.get_close_matches(name, names, n=_MOST_NAMES, cutoff=0))
    more = f", and {len(names) - len(listed)} more" if len(listed) < len(names) else ""
    return f"one of: {', '.join(map(shorten, listed)) or 'nothing is defined'}{more}"


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `name`, in which case does not count; None if none is similar."""
    names = {each.casefold(): each for each in sorted(known)}
    near = difflib.get_close_matches(name.casefold(), names, n=1, cutoff=0.6)
    return names[near[0]] if near else None


def write_value(value: Any) -> str:
    """Return a value in one line, as YAML writes it. A text has no quotes unless it is empty."""
    if isinstance(value, str):
        text = value.strip() or '""'
    else:
        try:
            text = yaml.safe_dump(value, default_flow_style=True, width=2**31, allow_unicode=True, sort_keys=False)
        except (yaml.YAMLError, ValueError):
            # The value is of no type that YAML has, or a number of more than 4,300 digits.
            text = _ANY if isinstance(value, int) else str(value)
    return shorten(" ".join(text.removesuffix("...\n").split()).replace("`", "'"))


def _describe(model: type[BaseModel], error: Mapping[str, Any], location: Sequence[Any]) -> tuple[str, str]:
    """Return the problem and the remedy."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == _UNKNOWN:
        return f"unknown field `{location[-1]}`", suggest_name(str(location[-1]), _list_fields(model, location[:-1]))
    if kind == _MISSING:
        unknown = set(map(str, value)) - set(_list_fields(model, location[:-1])) if isinstance(value, Mapping) else ()
        near = find_nearest(str(location[-1]), unknown)
        return "is missing", f"is `{near}` meant to be it?" if near else "add it"
    if kind in ("enum", "literal_error"):
        known = re.findall(r"'([^']*)'", context["expected"])
        return f"unknown value `{write_value(value)}`", suggest_name(write_value(value), known)
    if kind == "string_pattern_mismatch":
        meaning = _find_schema(model, location).get("description", "another name")
        return f"`{write_value(value)}` cannot be a name here", _NAMES.get(context["pattern"], f"write {meaning}")
    if kind in _LIMITS and value == value:  # NaN is not equal to itself.
        words, limit = _LIMITS[kind]
        return f"is `{write_value(value)}`, which is {words}", f"{limit} {context[_LIMIT_NAMES[kind]]:g}"
    if kind in ("too_short", "too_long"):
        is_short, key = kind == "too_short", "min_length" if kind == "too_short" else "max_length"
        return (
            f"has {context['actual_length'] or 'no'} {'entry' if context['actual_length'] == 1 else 'entries'}",
            f"give {'at least' if is_short else 'at most'} {context[key]}",
        )
    noun = next((noun for prefixes, noun in _NOUNS if kind.startswith(prefixes)), None)
    problem = (
        "has no value" if value is None else f"`{write_value(value)}` {f'is no {noun}' if noun else 'cannot be used'}"
    )
    return problem, _suggest_form(noun, value, lambda: _make_example(model, location))


_NOUNS = (
    (("int_",), "whole number"),
    (("float_",), "number"),
    # A limit is broken by NaN, too.
    (("finite_number", "greater_than", "less_than"), "finite number"),
    (("bool_",), "`true` or `false`"),
    (("string_",), "text"),
    (("list_",), "list"),
    (("dict_", "model_", "mapping_"), "mapping"),
)
# By pydantic's type of a mistake, what is wrong with the number, and the words before the limit.
_LIMITS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("too small", "write a number above"),
    "greater_than_equal": ("too small", "write at least"),
    "less_than": ("too large", "write a number below"),
    "less_than_equal": ("too large", "write at most"),
}
_LIMIT_NAMES = {"greater_than": "gt", "greater_than_equal": "ge", "less_than": "lt", "less_than_equal": "le"}


def _suggest_form(noun: str | None, value: Any, make_example: Callable[[], Any]) -> str:
    """Return a remedy for a value of the wrong kind: how to write a value of the right kind."""
    if noun == "text":
        is_plain = isinstance(value, bool | int | float | date)
        return f'put it in quotes: `"{write_value(value)}"`' if is_plain else "write a text"
    if noun == "`true` or `false`":
        return "write `true` or `false`"
    if noun and noun.endswith("number"):
        # A number with a unit, such as `800/s`, shows which number is meant.
        own = re.search(r"\d+" if noun == "whole number" else r"\d+(\.\d+)?", value) if isinstance(value, str) else None
        return f"write a {noun}, as in {own[0] if own and len(own[0]) < 12 else write_value(make_example())}"
    if noun == "list" and isinstance(value, Mapping):
        return "begin each entry with `- `"
    if noun == "list" and value is not None:
        return f"write `[{write_value(value)}]`"
    return f"write `{write_value(make_example())}`"


def _list_fields(model: type[BaseModel], location: Sequence[Any]) -> list[str]:
    """Return the names of the fields at `location`, a path of keys and indexes inside `model`.

    The result is empty if the fields there are not known.
    """
    return list(_find_schema(model, location).get("properties", {}))


def _find_meant(model: type[BaseModel], location: Sequence[Any]) -> str | None:
    return find_nearest(str(location[-1]), _list_fields(model, location[:-1]))


@cache
def _make_schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _find_schema(model: type[BaseModel], location: Sequence[Any]) -> dict[str, Any]:
    """Return the JSON schema at `location`, empty if it is not known."""
    schema = _make_schema(model)
    nested = schema
    for part in location:
        inner = nested.get("items") if isinstance(part, int) else nested.get("properties", {}).get(part)
        other = nested.get("additionalProperties")
        nested = _resolve(inner or (other if isinstance(other, dict) else {}), schema.get("$defs", {}))
    return nested


def _resolve(node: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with that of the model or type that it names. For a field that may be null, null is left out."""
    for option in [node, *node.get("anyOf", [])]:
        if "$ref" in option:
            return {**definitions[option["$ref"].rsplit("/", 1)[1]], **node}
        if option.get("type") not in (None, "null"):
            return {**option, **node}
    return node


def _make_example(model: type[BaseModel], location: Sequence[Any]) -> Any:
    definitions = _make_schema(model).get("$defs", {})

    def make(node: dict[str, Any]) -> Any:
        schema = _resolve(node, definitions)
        if examples := schema.get("examples"):
            return examples[0]
        if "properties" in schema:
            names = schema.get("required") or list(schema["properties"])[:1]
            return {name: make(schema["properties"][name]) for name in names}
        if schema.get("default"):
            return schema["default"]
        if "enum" in schema:
            return schema["enum"][0]
        match schema.get("type"):
            case "object":
                inner = schema.get("additionalProperties")
                return {"NAME": make(inner) if isinstance(inner, dict) else _ANY}
            case "array":
                return [make(schema.get("items", {}))] * schema.get("minItems", 1)
            case "integer" | "number":
                return max(schema.get("minimum", 10), 10)
            case "boolean":
                return True
        return _ANY

    return make(_find_schema(model, location))
