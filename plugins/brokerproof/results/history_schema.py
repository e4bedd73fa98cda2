"""The tables of the history database as SQLAlchemy models. The files in migrations/versions create the same tables.

All column types exist in every supported database. A text that queries filter by has at most 255 characters; other
texts may have any length.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, DateTime, Double, ForeignKey, Index, Integer, MetaData, String, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator

from brokerproof.run.measurement import Measurement


class UtcDateTime(TypeDecorator[datetime]):
    """A time with time zone, in UTC. SQLite has no time zones, so SQLite stores the UTC time without one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert the time to UTC. Raises ValueError for a time without a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a naive datetime has no place in the history; pass one with a time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """The base of all tables. Every constraint gets a name, so that migrations can change it on every database."""

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


def _list_children(table: str) -> Any:
    return relationship(cascade="all, delete-orphan", passive_deletes=True, order_by=f"{table}.id")


class RecordedRun(Base):
    """A recorded run. The counts from `publishes` to `deliveries` are None if the run was not judged.

    `finished_at`, `total_s` and `overhead_s` are None if no step of the run ended.
    """

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
    # The digest of the parameters that must be equal in comparable runs (comparability.py).
    comparable: Mapped[str] = mapped_column(String(64))
    versions: Mapped[dict[str, str | None]] = mapped_column(JSON)
    # When and why the run's tables of messages or its directory were deleted. The reason names the days and the
    # setting. Both columns are written before the first file is deleted.
    tables_deleted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    tables_deleted_why: Mapped[str | None] = mapped_column(Text)
    run_deleted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    run_deleted_why: Mapped[str | None] = mapped_column(Text)
    # The regressions against the runs before, as mappings of `metric`, `subject`, `reason` and `suspected`. None if the
    # run was recorded before this column existed, or could not be compared.
    marks: Mapped[list[dict[str, Any]] | None] = mapped_column(JSON)

    checks: Mapped[list[RecordedCheck]] = _list_children("RecordedCheck")
    measurements: Mapped[list[RecordedMeasurement]] = _list_children("RecordedMeasurement")
    anomaly_counts: Mapped[list[AnomalyCount]] = _list_children("AnomalyCount")
    anomaly_samples: Mapped[list[AnomalySample]] = _list_children("AnomalySample")

    @property
    def deletion(self) -> str | None:
        """A sentence that says when and why the run's directory or its tables were deleted; None if neither was."""
        if self.run_deleted_at is not None:
            return f"its directory was deleted on {self.run_deleted_at:%Y-%m-%d}, {self.run_deleted_why}"
        if self.tables_deleted_at is not None:
            return f"its tables were deleted on {self.tables_deleted_at:%Y-%m-%d}, {self.tables_deleted_why}"
        return None

    def count_anomaly(self, anomaly: str, *, legal: bool | None = None) -> int | None:
        """Return the number of anomalies of a kind; None if the run was not judged.

        `legal` selects those that the scenario allows (True) or does not allow (False). None selects both.
        """
        if self.messages is None:
            return None
        counted = (row for row in self.anomaly_counts if row.anomaly == anomaly)
        return sum(row.count for row in counted if legal is None or row.legal == legal)

    def find_worst(self, metric: str) -> float | None:
        """Return a metric's highest value; None if it has no measurements, or if any of them has no value."""
        values = [row.value for row in self.measurements if row.metric == metric]
        return None if not values or None in values else max(value for value in values if value is not None)


# The order of runs from the newest to the oldest.
NEWEST_FIRST = (RecordedRun.started_at.desc(), RecordedRun.id.desc())


class RecordedCheck(Base):
    """An expectation of a suite. `unexpected` is the number of rows that broke it."""

    __tablename__ = "checks"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    run_key: Mapped[int] = _make_run_key()
    suite: Mapped[str] = mapped_column(String(255))
    expectation: Mapped[str] = mapped_column(Text)
    description: Mapped[str] = mapped_column(Text)
    verdict: Mapped[str] = mapped_column(String(16))
    unexpected: Mapped[int | None] = mapped_column(BigInteger)


# `run_key` replaces `run_id`, and the evidence of a measurement stays in the run's directory.
_NOT_KEPT = ("run_id", "evidence", "doubt", "at_least", "at_most", "cut_off_by")
MEASUREMENT_COLUMNS = tuple(name for name in Measurement.model_fields if name not in _NOT_KEPT)


class RecordedMeasurement(Base):
    """A measurement in its unit, with the bounds that the scenario sets. `value` is None if it is not known."""

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


class AnomalyCount(Base):
    """How often a run had a kind of anomaly, allowed by the scenario (`legal`) or not. A count of 0 has no row."""

    __tablename__ = "anomaly_counts"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    run_key: Mapped[int] = _make_run_key()
    anomaly: Mapped[str] = mapped_column(String(255))
    legal: Mapped[bool] = mapped_column(Boolean)
    count: Mapped[int] = mapped_column(BigInteger)


class AnomalySample(Base):
    """A row of the run's table `anomalies`. The history keeps a few rows of each kind; the run's table has all."""

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


ANOMALY_COLUMNS = tuple(
    column.name for column in AnomalySample.__table__.columns if column.name not in ("id", "run_key")
)
