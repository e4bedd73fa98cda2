"""Fields that say nothing no longer keep runs apart."""

from __future__ import annotations

from alembic import op
from brokerproof.results.migrations.comparable import tell_anew

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Tell anew which runs compare."""
    tell_anew(op.get_bind())


def downgrade() -> None:
    """Nothing: what the digest is made of is not part of the schema."""
