"""Refuses a field that nothing reads: what is misspelt would not be asked."""

from __future__ import annotations

from collections.abc import Iterable

from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import suggest_name


def check_fields(fields: Iterable[str], known: frozenset[str], path: str, field: str) -> None:
    """Raises InputError for the first of `fields`, which stand at `field` of a file, that is not known."""
    for name in fields:
        if name not in known:
            where = ".".join(part for part in (field, name) if part)
            raise InputError(f"unknown field `{name}`", file=path, field=where, remedy=suggest_name(name, known))
