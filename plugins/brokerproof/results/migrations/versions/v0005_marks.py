"""A run says what is worse in it than in the runs before, so that nobody has to compare them again to show it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Of the runs that were recorded before, nothing is known."""
    with op.batch_alter_table("runs") as table:
        table.add_column(sa.Column("marks", sa.JSON()))


def downgrade() -> None:
    """Drop the column."""
    with op.batch_alter_table("runs") as table:
        table.drop_column("marks")
