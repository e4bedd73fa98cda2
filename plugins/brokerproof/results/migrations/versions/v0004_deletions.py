"""Adds columns for when and why the tables or the directory of a run were deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_PARTS = ("tables", "run")


def upgrade() -> None:
    """Add the columns. They are null for the runs that are already recorded."""
    with op.batch_alter_table("runs") as table:
        for part in _PARTS:
            table.add_column(sa.Column(f"{part}_deleted_at", sa.DateTime(timezone=True)))
            table.add_column(sa.Column(f"{part}_deleted_why", sa.Text()))


def downgrade() -> None:
    with op.batch_alter_table("runs") as table:
        for part in _PARTS:
            table.drop_column(f"{part}_deleted_at")
            table.drop_column(f"{part}_deleted_why")
