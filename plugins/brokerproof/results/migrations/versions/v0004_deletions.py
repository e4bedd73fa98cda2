"""A run says when its tables and its directory were deleted, and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_PARTS = ("tables", "run")


def upgrade() -> None:
    """Add the columns. Nothing was deleted of the runs that were recorded before."""
    with op.batch_alter_table("runs") as table:
        for part in _PARTS:
            table.add_column(sa.Column(f"{part}_deleted_at", sa.DateTime(timezone=True)))
            table.add_column(sa.Column(f"{part}_deleted_why", sa.Text()))


def downgrade() -> None:
    """Drop the columns."""
    with op.batch_alter_table("runs") as table:
        for part in _PARTS:
            table.drop_column(f"{part}_deleted_at")
            table.drop_column(f"{part}_deleted_why")
