"""Creates the tables of runs, checks, measurements, anomaly counts and anomaly samples."""

import sqlalchemy as sa
from alembic import op

revision = "0.2"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(255), nullable=False),
        sa.Column("scenario", sa.String(255), nullable=False),
        sa.Column("topology", sa.String(255), nullable=False),
        sa.Column("runtime", sa.String(255), nullable=False),
        sa.Column("system", sa.String(255), nullable=False),
        sa.Column("system_version", sa.String(255), nullable=False),
        sa.Column("guarantee", sa.String(255), nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("expected_verdict", sa.String(16), nullable=False),
        sa.Column("met", sa.Boolean(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("suites", sa.JSON(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("total_s", sa.Double()),
        sa.Column("phases_s", sa.Double(), nullable=False),
        sa.Column("overhead_s", sa.Double()),
        sa.Column("publishes", sa.BigInteger()),
        sa.Column("messages", sa.BigInteger()),
        sa.Column("acked", sa.BigInteger()),
        sa.Column("failed", sa.BigInteger()),
        sa.Column("unknown", sa.BigInteger()),
        sa.Column("recovered", sa.BigInteger()),
        sa.Column("stored", sa.BigInteger()),
        sa.Column("deliveries", sa.BigInteger()),
        sa.Column("run_dir", sa.Text(), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("comparable", sa.String(64), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        # When and why the tables or the directory of the run were deleted.
        sa.Column("tables_deleted_at", sa.DateTime(timezone=True)),
        sa.Column("tables_deleted_why", sa.Text()),
        sa.Column("run_deleted_at", sa.DateTime(timezone=True)),
        sa.Column("run_deleted_why", sa.Text()),
        # The run's regressions, so that pages need not compare runs again.
        sa.Column("marks", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("run_id", name="uq_runs_run_id"),
    )
    op.create_index("ix_runs_started_at", "runs", ["started_at"])
    op.create_index("ix_runs_scenario_comparable_started_at", "runs", ["scenario", "comparable", "started_at"])
    _create_child(
        "checks",
        sa.Column("suite", sa.String(255), nullable=False),
        sa.Column("expectation", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("unexpected", sa.BigInteger()),
    )
    _create_child(
        "measurements",
        sa.Column("suite", sa.String(255), nullable=False),
        sa.Column("metric", sa.String(255), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("unit", sa.String(255), nullable=False),
        sa.Column("minimum", sa.Double()),
        sa.Column("maximum", sa.Double()),
    )
    op.create_index("ix_measurements_metric_run_key", "measurements", ["metric", "run_key"])
    _create_child(
        "anomaly_counts",
        sa.Column("anomaly", sa.String(255), nullable=False),
        sa.Column("legal", sa.Boolean(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
    )
    _create_child(
        "anomaly_samples",
        sa.Column("anomaly", sa.String(255), nullable=False),
        sa.Column("legal", sa.Boolean(), nullable=False),
        sa.Column("cluster", sa.Text()),
        sa.Column("topic", sa.Text()),
        sa.Column("partition", sa.Integer()),
        sa.Column("subscription", sa.Text()),
        sa.Column("producer", sa.Text()),
        sa.Column("seq", sa.BigInteger()),
        sa.Column("key", sa.Text()),
        sa.Column("cause", sa.Text()),
        sa.Column("detail", sa.Text()),
    )


def downgrade() -> None:
    for table in ("anomaly_samples", "anomaly_counts", "measurements", "checks", "runs"):
        op.drop_table(table)


def _create_child(table: str, *columns: sa.Column) -> None:
    """Create a table whose rows belong to a run and are deleted with it."""
    op.create_table(
        table,
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_key", sa.Integer(), nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.ForeignKeyConstraint(["run_key"], ["runs.id"], name=f"fk_{table}_run_key_runs", ondelete="CASCADE"),
    )
    op.create_index(f"ix_{table}_run_key", table, ["run_key"])
