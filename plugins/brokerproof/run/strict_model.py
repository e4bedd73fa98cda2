"""The base of what the parts of a run write for each other, and how it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from brokerproof.errors import RunError


class StrictModel(BaseModel):
    """Frozen, without unknown fields, and with values as they are: `"yes"` is no bool, and `"1"` is no number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_by_name=True, validate_by_alias=True)


Strict = TypeVar("Strict", bound=StrictModel)


def load_object(text: str, *, file: str) -> dict[str, Any]:
    """The object in a JSON text. Raises RunError that names `file` where there is none."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise RunError(f"{file} is damaged: {error}") from None
    if not isinstance(content, dict):
        raise RunError(f"{file} is damaged: it holds no object")
    return content


def parse_strictly(model: type[Strict], content: Mapping[str, Any], *, file: str) -> Strict:
    """`content`, as JSON has it, as a model. Raises RunError that names `file` and the first field that is wrong."""
    try:
        # As JSON, because a strict model takes an array for a tuple and a word for an enum only from there.
        return model.model_validate_json(json.dumps(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        message = "is missing" if first["type"] == "missing" else f"{first['msg'][0].lower()}{first['msg'][1:]}"
        raise RunError(f"{file} is damaged: {f'`{field}` ' if field else ''}{message}") from None
