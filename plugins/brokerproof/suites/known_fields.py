"""Refuses unknown fields, because a misspelt field would silently have no effect."""

from __future__ import annotations

from collections.abc import Iterable

from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import suggest_name


def check_fields(fields: Iterable[str], known: frozenset[str], path: str, field: str) -> None:
    """Raises InputError for the first unknown name in `fields`, which are below `field` in the file `path`."""
    for name in fields:
        if name not in known:
            where = ".".join(part for part in (field, name) if part)
            raise InputError(f"unknown field `{name}`", file=path, field=where, remedy=suggest_name(name, known))
