"""Reads YAML files into pydantic models. Mistakes in a file raise InputError, each with file, field and remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from brokerproof.bounded_reading import MOST_YAML_BYTES, ContentError, load_yaml, read_text
from brokerproof.directories import Directories
from brokerproof.errors import InputError, Mistakes
from brokerproof.experiment.model_mistakes import (
    HYPHENATED,
    IDENTIFIER,
    find_nearest,
    list_mistakes,
    suggest_name,
    write_value,
)

__all__ = [
    "HYPHENATED",
    "IDENTIFIER",
    "FrozenModel",
    "PlainValue",
    "apply_overrides",
    "check_fields",
    "find_nearest",
    "parse",
    "parse_index",
    "read_yaml",
    "suggest_file",
    "suggest_name",
    "write_value",
]


class FrozenModel(BaseModel):
    """Base of the models of users' files, and of messages to or from the link process.

    Instances are frozen. Unknown fields are refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


Model = TypeVar("Model", bound=FrozenModel)


def _require_plain_value(value: Any) -> Any:
    if not isinstance(value, str | int | float):
        kinds = "text, number, `true` or `false`"
        problem = "has no value" if value is None else f"`{write_value(value)}` is no {kinds}"
        raise InputError(problem, remedy="put it in quotes" if isinstance(value, date) else f"write a {kinds}")
    return value


# A text, number or boolean. The validator keeps it one mistake, instead of one for each of the four types.
PlainValue = Annotated[str | int | float | bool, BeforeValidator(_require_plain_value)]


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file.

    Raises InputError if the file cannot be read, exceeds a limit of bounded_reading.py, or holds no mapping.
    """
    try:
        content = load_yaml(read_text(path, MOST_YAML_BYTES))
    except FileNotFoundError:
        raise InputError("no such file", file=str(path), remedy="check the name") from None
    except ContentError as error:
        raise InputError(error.problem, file=str(path), field=error.field, remedy=error.remedy) from None
    if not isinstance(content, dict):
        raise InputError("holds no mapping", file=str(path), remedy="start with fields like `title: …`")
    return content


def parse(model: type[Model], content: Mapping[str, Any], *, file: str) -> Model:
    """Return `content` as an instance of the class `model`.

    Raises InputError, which names `file` and the field of every mistake in `content`.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        Mistakes(mistake.locate(file=file) for mistake in list_mistakes(model, error)).raise_all()
        raise


def apply_overrides(content: Mapping[str, Any], overrides: Mapping[str, Any], *, source: str) -> dict[str, Any]:
    """Return a copy of `content` in which `overrides`, such as `{"workload.rate": 2000}`, replace values.

    A dotted path leads through mappings and, by index, through lists. It may add a key to a mapping, but not an item to
    a list. An unusable path raises InputError, which names `source` as the file.
    """
    result, mistakes = _copy(content), Mistakes()
    for path, value in overrides.items():
        *parents, last = path.split(".")
        container: Any = result
        with mistakes.collect(file=source, below=path):
            for name in parents:
                container = _step_into(container, name)
            # A later path may lead into the value, which other overrides may share.
            _replace_item(container, last, _copy(value))
    mistakes.raise_all()
    return result


def suggest_file(name: str, directories: Directories, further: Iterable[str] = ()) -> str:
    """Return a remedy for a file that was not found: a similar name, or how to include a file that the product ships.

    A shipped file is not found if an environment variable sets other directories instead of the shipped one. A file is
    not found either if its name has another ending. The similar name may also be one of `further`.
    """
    if misnamed := directories.find_misnamed(name):
        return f"rename {misnamed} to {misnamed.with_suffix('.yaml').name}"
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
    index = parse_index(name, container)
    if index is None:
        raise InputError(f"`{name}` names no item of the list", remedy="use an index from 0 on")
    return index


def parse_index(name: str, items: Sequence[Any]) -> int | None:
    """Return the index that a part of a dotted path names; None if the list has no item with this index."""
    is_index = name.isascii() and name.isdigit() and len(name) <= len(str(len(items))) and str(int(name)) == name
    return int(name) if is_index and int(name) < len(items) else None


def check_fields(fields: Iterable[str], known: frozenset[str], path: str, field: str) -> None:
    """Raises InputError for each name in `fields` that is not in `known`.

    `fields` are the names directly below the dotted path `field` in the file `path`.
    """
    Mistakes(
        InputError(f"unknown field `{name}`", field=name, remedy=suggest_name(name, known)).locate(
            file=path, below=field
        )
        for name in fields
        if name not in known
    ).raise_all()
