"""Which runs compare, told anew: fields that say nothing no longer keep runs apart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from brokerproof.regressions import digest

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_RUNS = sa.table("runs", sa.column("id", sa.Integer), sa.column("parameters", sa.JSON), sa.column("comparable"))


def upgrade() -> None:
    """Compute the digest of every run's parameters, one after the other."""
    connection = op.get_bind()
    for key in connection.scalars(sa.select(_RUNS.c.id)).all():
        parameters = connection.scalars(sa.select(_RUNS.c.parameters).where(_RUNS.c.id == key)).one()
        connection.execute(_RUNS.update().where(_RUNS.c.id == key).values(comparable=digest(parameters)))


def downgrade() -> None:
    """Nothing: what the digest is made of is not part of the schema."""
