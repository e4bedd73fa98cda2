"""Reads YAML files into pydantic models. The first mistake in a file raises InputError with file, field and remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from brokerproof.directories import Directories
from brokerproof.errors import InputError, shorten

# The pattern for the names of scenarios, faults, subscriptions and suites. They become names of files and subjects of
# measurements.
IDENTIFIER = r"^[a-z][a-z0-9_]*$"
# Texts that are nested deeper are not read by libyaml, whose loader could overflow the stack and end the process. Valid
# files are far below this depth.
_DEEPEST = 100


class FrozenModel(BaseModel):
    """Base of the models of users' files, and of messages to or from the link process.

    Instances are frozen. Unknown fields are refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


Model = TypeVar("Model", bound=FrozenModel)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raises InputError if the file cannot be read or its content is no mapping."""
    try:
        content = _load_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("no such file", file=str(path), remedy="check the name") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "cannot be read"
        raise InputError(f"not valid YAML: {problem}", file=str(path), field=line, remedy="mend the syntax") from None
    except RecursionError:
        raise InputError("lists and mappings are nested too deep", file=str(path), remedy="mend the syntax") from None
    except (OSError, ValueError) as error:
        # A ValueError means that the file is not UTF-8, or has a number of more than 4,300 digits.
        raise InputError(f"cannot be read: {error}", file=str(path), remedy="mend the file") from None
    if not isinstance(content, dict):
        raise InputError("holds no mapping", file=str(path), remedy="start with fields like `title: …`")
    return content


def _load_yaml(text: str) -> Any:
    """Return the content of a YAML text. Raises YAMLError, ValueError or RecursionError."""
    if yaml.__with_libyaml__:
        # After an error the loader in Python reads the text again: it is ten times slower but names the right line.
        with suppress(yaml.YAMLError):
            if _measure_depth(text) <= _DEEPEST:
                return yaml.load(text, Loader=yaml.CSafeLoader)
    return yaml.safe_load(text)


def _measure_depth(text: str) -> int:
    """Return how deep lists and mappings are nested in a YAML text. Counting stops above `_DEEPEST`."""
    depth = deepest = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            deepest = max(deepest, depth)
            if deepest > _DEEPEST:
                break
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return deepest


def parse(model: type[Model], content: Mapping[str, Any], *, file: str) -> Model:
    """Return `content` as an instance of the class `model`.

    For the first mistake in `content`, raises InputError, which names `file` and the field.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        # A misspelt field causes two errors: an unknown field, and a missing one. The unknown name helps the user more.
        unknown = (each for each in errors if each["type"] == "extra_forbidden")
        first: Mapping[str, Any] = dict(next(unknown, errors[0]))
        field = ".".join(str(part) for part in first["loc"])
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, InputError):
            field = ".".join(part for part in (field, cause.field) if part)
            raise InputError(cause.problem, file=file, field=field, remedy=cause.remedy) from None
        problem, remedy = _describe_problem(first), _suggest_remedy(model, first)
        raise InputError(problem, file=file, field=field, remedy=remedy) from None


def apply_overrides(content: Mapping[str, Any], overrides: Mapping[str, Any], *, source: str) -> dict[str, Any]:
    """Return a copy of `content` in which `overrides`, such as `{"workload.rate": 2000}`, replace values.

    A dotted path leads through mappings and, by index, through lists. It may add a key to a mapping, but not an item to
    a list. An unusable path raises InputError, which names `source` as the file.
    """
    result = _copy(content)
    for path, value in overrides.items():
        *parents, last = path.split(".")
        container: Any = result
        try:
            for name in parents:
                container = _step_into(container, name)
            _replace_item(container, last, value)
        except InputError as error:
            raise InputError(error.problem, file=source, field=path, remedy=error.remedy) from None
    return result


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a remedy for an unknown name: the most similar known name, or all known names if none is similar."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else f"one of: {', '.join(map(shorten, names)) or 'nothing is defined'}"


def suggest_file(name: str, directories: Directories, further: Iterable[str] = ()) -> str:
    """Return a remedy for a file that was not found: a similar name, or how to include a file that the product ships.

    A shipped file is not found if an environment variable sets other directories instead of the shipped one. The
    similar name may also be one of `further`.
    """
    if directories.has_left_out(name):
        return f"it is a shipped one: let {directories.variable} end with `:`"
    return suggest_name(name, {*directories.list_files(), *further})


def _copy(value: Any) -> Any:
    """Return a deep copy. A value that a YAML anchor and its aliases share becomes separate values in the copy."""
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _step_into(container: Any, name: str) -> Any:
    """Return the value in `container` at `name`, a key or an index. For a missing key, first add an empty mapping.

    Raises InputError if `container` is a plain value, or if it is a list without this index.
    """
    if isinstance(container, dict):
        if container.get(name) is None:
            container[name] = {}
        return container[name]
    return container[_find_index(container, name)]


def _replace_item(container: Any, name: str, value: Any) -> None:
    if isinstance(container, dict):
        container[name] = value
    else:
        container[_find_index(container, name)] = value


def _find_index(container: Any, name: str) -> int:
    if not isinstance(container, list):
        raise InputError(f"`{name}` would be inside a plain value", remedy="give the dotted path of a field")
    if name not in map(str, range(len(container))):
        raise InputError(f"`{name}` names no item of the list", remedy="use an index from 0 on")
    return int(name)


def _describe_problem(error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return f"unknown field `{error['loc'][-1]}`"
    if error["type"] == "missing":
        return "is missing"
    return f"{error['msg'][0].lower()}{error['msg'][1:]}, not {shorten(repr(error.get('input')))}"


def _suggest_remedy(model: type[FrozenModel], error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return suggest_name(str(error["loc"][-1]), _field_names(model, error["loc"][:-1]))
    if error["type"] == "missing":
        return "add it"
    return "correct the value"


def _field_names(model: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    """Return the names of the fields at `location`, a path of keys and indexes inside `model`.

    The result is empty if the fields there are not known.
    """
    schema: dict[str, Any] = model.model_json_schema()
    definitions = schema.get("$defs", {})

    def resolve(node: dict[str, Any]) -> dict[str, Any]:
        for option in [node, *node.get("anyOf", [])]:
            if "$ref" in option:
                return definitions[option["$ref"].rsplit("/", 1)[1]]
            if option.get("type") in ("object", "array"):
                node = option
        return node

    nested = schema
    for part in location:
        inner = nested.get("items") if isinstance(part, int) else nested.get("properties", {}).get(part)
        nested = resolve(inner or nested.get("additionalProperties") or {})
    return list(nested.get("properties", {}))


def check_fields(fields: Iterable[str], known: frozenset[str], path: str, field: str) -> None:
    """Raises InputError for the first name in `fields` that is not in `known`.

    `fields` are the names directly below the dotted path `field` in the file `path`.
    """
    for name in fields:
        if name not in known:
            where = ".".join(part for part in (field, name) if part)
            raise InputError(f"unknown field `{name}`", file=path, field=where, remedy=suggest_name(name, known))
