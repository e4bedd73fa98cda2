"""The tables of the history database, as SQLAlchemy models; the migrations in migrations/versions make the same tables.

Every database has these types. A column that queries search in has at most 255 characters; a column that queries only
read is text of any length.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, DateTime, Double, ForeignKey, Index, Integer, MetaData, String, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator

from brokerproof.run.deletion import describe_run_deletion, describe_tables_deletion
from brokerproof.run.measurement import Measurement


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time in UTC. SQLite has no time zones and stores it without one, always in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Raises ValueError for a naive time, which could mean any moment of a day."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a naive datetime has no place in the history; pass one with a time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The same moment as an aware time in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Constraints have names on every database, so that a migration can change them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


def _make_run_key() -> Mapped[int]:
    return mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), index=True)


class RecordedRun(Base):
    """One run. Its counts are None where nothing was counted, and the times of its end where it never ended."""

    __tablename__ = "runs"
    __table_args__ = (Index(None, "scenario", "comparable", "started_at"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    run_id: Mapped[str] = mapped_column(String(255), unique=True)
    scenario: Mapped[str] = mapped_column(String(255))
    topology: Mapped[str] = mapped_column(String(255))
    runtime: Mapped[str] = mapped_column(String(255))
    system: Mapped[str] = mapped_column(String(255))
    system_version: Mapped[str] = mapped_column(String(255))
    guarantee: Mapped[str] = mapped_column(String(255))
    verdict: Mapped[str] = mapped_column(String(16))
    expected_verdict: Mapped[str] = mapped_column(String(16))
    met: Mapped[bool] = mapped_column(Boolean)
    why: Mapped[str] = mapped_column(Text)
    suites: Mapped[dict[str, str]] = mapped_column(JSON)
    started_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    recorded_at: Mapped[datetime] = mapped_column(UtcDateTime)
    total_s: Mapped[float | None] = mapped_column(Double)
    phases_s: Mapped[float] = mapped_column(Double)
    overhead_s: Mapped[float | None] = mapped_column(Double)
    publishes: Mapped[int | None] = mapped_column(BigInteger)
    messages: Mapped[int | None] = mapped_column(BigInteger)
    acked: Mapped[int | None] = mapped_column(BigInteger)
    failed: Mapped[int | None] = mapped_column(BigInteger)
    unknown: Mapped[int | None] = mapped_column(BigInteger)
    recovered: Mapped[int | None] = mapped_column(BigInteger)
    stored: Mapped[int | None] = mapped_column(BigInteger)
    deliveries: Mapped[int | None] = mapped_column(BigInteger)
    run_dir: Mapped[str] = mapped_column(Text)
    report: Mapped[str] = mapped_column(Text)
    parameters: Mapped[dict[str, Any]] = mapped_column(JSON)
    # Digest of the parameters that decide whether runs compare; see comparability.py.
    comparable: Mapped[str] = mapped_column(String(64))
    versions: Mapped[dict[str, str | None]] = mapped_column(JSON)
    # When its tables of messages and its directory were deleted, and after how many days and by which setting.
    tables_deleted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    tables_deleted_why: Mapped[str | None] = mapped_column(Text)
    run_deleted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    run_deleted_why: Mapped[str | None] = mapped_column(Text)
    # What is worse in it than in the runs before: metric, subject, reason, and whether it is only suspected. None where
    # it was recorded before this was kept.
    marks: Mapped[list[dict[str, Any]] | None] = mapped_column(JSON)

    checks: Mapped[list[RecordedCheck]] = relationship(
        back_populates="run", cascade="all, delete-orphan", passive_deletes=True, order_by="RecordedCheck.id"
    )
    measurements: Mapped[list[RecordedMeasurement]] = relationship(
        back_populates="run", cascade="all, delete-orphan", passive_deletes=True, order_by="RecordedMeasurement.id"
    )
    anomaly_counts: Mapped[list[AnomalyCount]] = relationship(
        back_populates="run", cascade="all, delete-orphan", passive_deletes=True, order_by="AnomalyCount.id"
    )
    anomaly_samples: Mapped[list[AnomalySample]] = relationship(
        back_populates="run", cascade="all, delete-orphan", passive_deletes=True, order_by="AnomalySample.id"
    )

    @property
    def deletion(self) -> str | None:
        """What was deleted of its directory, when and why; None where everything was kept."""
        if self.run_deleted_at is not None:
            return describe_run_deletion(self.run_deleted_at, self.run_deleted_why or "")
        if self.tables_deleted_at is not None:
            return describe_tables_deletion(self.tables_deleted_at, self.tables_deleted_why or "")
        return None

    def count_anomaly(self, anomaly: str, *, legal: bool | None = None) -> int | None:
        """The number of legal or illegal anomalies of a kind, or of both together; None where nothing was counted."""
        if self.messages is None:
            return None
        counted = (row for row in self.anomaly_counts if row.anomaly == anomaly)
        return sum(row.count for row in counted if legal is None or row.legal == legal)

    def find_worst(self, metric: str) -> float | None:
        """The highest value of a metric among its subjects; None where a subject, or all of them, have no value."""
        values = [row.value for row in self.measurements if row.metric == metric]
        return None if not values or None in values else max(value for value in values if value is not None)


class RecordedCheck(Base):
    """One expectation of a suite; `unexpected` counts the rows that broke it."""

    __tablename__ = "checks"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    run_key: Mapped[int] = _make_run_key()
    suite: Mapped[str] = mapped_column(String(255))
    expectation: Mapped[str] = mapped_column(Text)
    description: Mapped[str] = mapped_column(Text)
    verdict: Mapped[str] = mapped_column(String(16))
    unexpected: Mapped[int | None] = mapped_column(BigInteger)

    run: Mapped[RecordedRun] = relationship(back_populates="checks")


# A recorded run has a key of its own, and the evidence of a measurement stays in the run's directory.
_NOT_KEPT = ("run_id", "evidence", "doubt", "cut_off_by")
MEASUREMENT_COLUMNS = tuple(name for name in Measurement.model_fields if name not in _NOT_KEPT)


class RecordedMeasurement(Base):
    """One measurement in its unit, with the scenario's bounds; `value` is None where it could not be measured."""

    __tablename__ = "measurements"
    __table_args__ = (Index(None, "metric", "run_key"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    run_key: Mapped[int] = _make_run_key()
    suite: Mapped[str] = mapped_column(String(255))
    metric: Mapped[str] = mapped_column(String(255))
    subject: Mapped[str] = mapped_column(Text)
    value: Mapped[float | None] = mapped_column(Double)
    unit: Mapped[str] = mapped_column(String(255))
    minimum: Mapped[float | None] = mapped_column(Double)
    maximum: Mapped[float | None] = mapped_column(Double)

    run: Mapped[RecordedRun] = relationship(back_populates="measurements")


class AnomalyCount(Base):
    """The number of a run's anomalies of a kind, legal and illegal apart. A kind without a row did not occur."""

    __tablename__ = "anomaly_counts"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    run_key: Mapped[int] = _make_run_key()
    anomaly: Mapped[str] = mapped_column(String(255))
    legal: Mapped[bool] = mapped_column(Boolean)
    count: Mapped[int] = mapped_column(BigInteger)

    run: Mapped[RecordedRun] = relationship(back_populates="anomaly_counts")


class AnomalySample(Base):
    """One anomaly of the run's table `anomalies`. The history holds a few of each kind, the run's table all of them."""

    __tablename__ = "anomaly_samples"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    run_key: Mapped[int] = _make_run_key()
    anomaly: Mapped[str] = mapped_column(String(255))
    legal: Mapped[bool] = mapped_column(Boolean)
    cluster: Mapped[str | None] = mapped_column(Text)
    topic: Mapped[str | None] = mapped_column(Text)
    partition: Mapped[int | None] = mapped_column(Integer)
    subscription: Mapped[str | None] = mapped_column(Text)
    producer: Mapped[str | None] = mapped_column(Text)
    seq: Mapped[int | None] = mapped_column(BigInteger)
    key: Mapped[str | None] = mapped_column(Text)
    cause: Mapped[str | None] = mapped_column(Text)
    detail: Mapped[str | None] = mapped_column(Text)

    run: Mapped[RecordedRun] = relationship(back_populates="anomaly_samples")


ANOMALY_COLUMNS = tuple(
    column.name for column in AnomalySample.__table__.columns if column.name not in ("id", "run_key")
)
