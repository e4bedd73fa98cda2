"""Computes the digests of recorded runs again after the rule in comparability.py changed."""

from __future__ import annotations

import sqlalchemy as sa
from brokerproof.results.comparability import compute_digest
from sqlalchemy.engine import Connection

_RUNS = sa.table("runs", sa.column("id", sa.Integer), sa.column("parameters", sa.JSON), sa.column("comparable"))


def recompute_digests(connection: Connection) -> None:
    """Compute the digest of every run's parameters, one run at a time."""
    for key in connection.scalars(sa.select(_RUNS.c.id)).all():
        parameters = connection.scalars(sa.select(_RUNS.c.parameters).where(_RUNS.c.id == key)).one()
        connection.execute(_RUNS.update().where(_RUNS.c.id == key).values(comparable=compute_digest(parameters)))
