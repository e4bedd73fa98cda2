"""Which runs of a history compare, told anew after the rule in regressions.py changed."""

from __future__ import annotations

import sqlalchemy as sa
from brokerproof.results.regressions import digest
from sqlalchemy.engine import Connection

_RUNS = sa.table("runs", sa.column("id", sa.Integer), sa.column("parameters", sa.JSON), sa.column("comparable"))


def tell_anew(connection: Connection) -> None:
    """Compute the digest of every run's parameters, one after the other."""
    for key in connection.scalars(sa.select(_RUNS.c.id)).all():
        parameters = connection.scalars(sa.select(_RUNS.c.parameters).where(_RUNS.c.id == key)).one()
        connection.execute(_RUNS.update().where(_RUNS.c.id == key).values(comparable=digest(parameters)))
