"""Reads a YAML file into a pydantic model; whatever is wrong with it becomes one InputError."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from brokerproof.errors import InputError, shorten


class Document(BaseModel):
    """Base of everything that is read from a file: frozen, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Model = TypeVar("Model", bound=Document)


def list_yaml(directory: Path) -> dict[str, Path]:
    """The YAML files of a directory, by their names without the ending."""
    return {path.stem: path for path in sorted(directory.glob("*.yaml"))}


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("no such file", file=str(path), remedy="check the name") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "cannot be read"
        raise InputError(f"not valid YAML: {problem}", file=str(path), field=line, remedy="mend the syntax") from None
    except (OSError, ValueError, RecursionError) as error:
        # Not UTF-8, a number of more than 4,300 digits, a thousand brackets.
        raise InputError(f"cannot be read: {error}", file=str(path), remedy="mend the file") from None
    if not isinstance(content, dict):
        raise InputError("holds no mapping", file=str(path), remedy="start with fields like `title: …`")
    return content


def parse(model: type[Model], content: Mapping[str, Any], *, file: str) -> Model:
    """`content` as `model`; the first problem becomes an InputError that names file, field and remedy."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, InputError):
            field = ".".join(str(part) for part in (*first["loc"], *filter(None, [cause.field])))
            raise InputError(cause.problem, file=file, field=field, remedy=cause.remedy) from None
        field = ".".join(str(part) for part in first["loc"])
        raise InputError(_problem(dict(first)), file=file, field=field, remedy=_remedy(model, dict(first))) from None


def apply_overrides(content: Mapping[str, Any], overrides: Mapping[str, Any], *, source: str) -> dict[str, Any]:
    """`content` with values replaced by dotted paths, as in `{"workload.rate": 2000}`.

    A path may add a key to a mapping but not pass through a list or a plain value. `source` names where the overrides
    came from in the error.
    """
    result = _copy(content)
    for path, value in overrides.items():
        *parents, last = path.split(".")
        at = result
        for depth, name in enumerate(parents):
            if isinstance(at, list) and name.isdigit() and int(name) < len(at):
                at = at[int(name)]
                continue
            if not isinstance(at, dict):
                raise InputError("does not lead to a field", file=source, field=path, remedy="give a dotted path")
            if at.get(name) is None:
                at[name] = {}
            at = at[name]
            if not isinstance(at, dict | list):
                raise InputError(
                    f"{'.'.join(parents[: depth + 1])} is a plain value",
                    file=source,
                    field=path,
                    remedy="give a dotted path",
                )
        if isinstance(at, list):
            if not last.isdigit() or int(last) >= len(at):
                raise InputError("names no item of the list", file=source, field=path, remedy="use an index from 0 on")
            at[int(last)] = value
        else:
            at[last] = value
    return result


def closest(name: str, known: Iterable[str]) -> str:
    """A remedy that offers the nearest known name, or all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else f"one of: {', '.join(map(shorten, names)) or 'nothing is defined'}"


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _problem(error: dict[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return f"unknown field `{error['loc'][-1]}`"
    if error["type"] == "missing":
        return "is missing"
    return f"{error['msg'][0].lower()}{error['msg'][1:]}, not {shorten(repr(error.get('input')))}"


def _remedy(model: type[Document], error: dict[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return closest(str(error["loc"][-1]), _fields_at(model, error["loc"][:-1]))
    if error["type"] == "missing":
        return "add it"
    return "correct the value"


def _fields_at(model: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    """Names of the fields of the model nested at `location`."""
    schema: dict[str, Any] = model.model_json_schema()
    definitions = schema.get("$defs", {})

    def resolve(node: dict[str, Any]) -> dict[str, Any]:
        for option in [node, *node.get("anyOf", [])]:
            if "$ref" in option:
                return definitions[option["$ref"].rsplit("/", 1)[1]]
            if option.get("type") in ("object", "array"):
                node = option
        return node

    at = schema
    for part in location:
        inner = at.get("items") if isinstance(part, int) else at.get("properties", {}).get(part)
        at = resolve(inner or at.get("additionalProperties") or {})
    return list(at.get("properties", {}))
