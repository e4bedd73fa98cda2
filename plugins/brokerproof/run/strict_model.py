"""The base of what the parts of a run write for each other."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """Frozen, without unknown fields, and with values as they are: `"yes"` is no bool, and `"1"` is no number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_by_name=True, validate_by_alias=True)
