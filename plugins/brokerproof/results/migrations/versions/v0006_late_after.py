"""Runs from before `late_after_s` no longer compare with those after it, because `rto_s` means something else."""

from __future__ import annotations

from alembic import op
from brokerproof.results.migrations.digests import recompute_digests

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Compute the digests again."""
    recompute_digests(op.get_bind())


def downgrade() -> None:
    """Nothing to do: the schema did not change."""
