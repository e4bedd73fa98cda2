"""The pydantic base model of the JSON files in a run's directory, and functions that parse these files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from brokerproof.bounded_reading import ContentError, load_json
from brokerproof.errors import RunError


class StrictModel(BaseModel):
    """A frozen model that refuses unknown fields and converts no value: `"yes"` is no bool, and `"1"` is no number.

    NaN and infinite numbers are refused, unless a field has a validator that replaces them.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        validate_by_name=True,
        validate_by_alias=True,
        allow_inf_nan=False,
    )


Strict = TypeVar("Strict", bound=StrictModel)


def load_object(text: str, *, file: str) -> dict[str, Any]:
    """Return the JSON object in `text`. Raises RunError, which names `file`, if `text` is not a JSON object."""
    try:
        content = load_json(text)
    except ContentError as error:
        raise RunError(f"{file} is damaged: {error}") from None
    if not isinstance(content, dict):
        raise RunError(f"{file} is damaged: it holds no object")
    return content


def parse_strictly(model: type[Strict], content: Mapping[str, Any], *, file: str) -> Strict:
    """Return the JSON object `content` as a `model`. Raises RunError, which names `file` and the first wrong field."""
    try:
        # A strict model accepts an array for a tuple and a string for an enum only if it reads JSON text.
        return model.model_validate_json(json.dumps(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        message = "is missing" if first["type"] == "missing" else f"{first['msg'][0].lower()}{first['msg'][1:]}"
        raise RunError(f"{file} is damaged: {f'`{field}` ' if field else ''}{message}") from None
