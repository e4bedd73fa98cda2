"""Adds a column for the regressions of a run, so that pages show them without comparing runs again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. It is null for the runs that are already recorded."""
    with op.batch_alter_table("runs") as table:
        table.add_column(sa.Column("marks", sa.JSON()))


def downgrade() -> None:
    with op.batch_alter_table("runs") as table:
        table.drop_column("marks")
