"""Runs no longer compare if their links between regions differ."""

from __future__ import annotations

from alembic import op
from brokerproof.results.migrations.digests import recompute_digests

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    recompute_digests(op.get_bind())


def downgrade() -> None:
    """Nothing to do: the schema did not change."""
