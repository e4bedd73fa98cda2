"""Runs from before `late_after_s` no longer compare with newer ones, because it changed the meaning of `rto_s`."""

from __future__ import annotations

from alembic import op
from brokerproof.results.migrations.digests import recompute_digests

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    recompute_digests(op.get_bind())


def downgrade() -> None:
    """Nothing to do: the schema did not change."""
