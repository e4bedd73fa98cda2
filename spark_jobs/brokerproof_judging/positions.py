"""Anomalies of positions: two messages at one place in a log, and a log that went back."""

from __future__ import annotations

from brokerproof.tables import Outcome
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from brokerproof_judging import frames
from brokerproof_judging.messages import IN_LOG, PLACE, POSITION, position

_LOG = ["cluster", "topic", "partition"]
_SECOND_US = 1_000_000


def position_conflict(publishes: DataFrame, stored: DataFrame) -> DataFrame:
    """Messages that share a position, stored or named by an ack, with another message."""
    columns = [*_LOG, *POSITION, "who", "number"]
    positions = _acks(publishes).select(*columns).unionByName(frames.identified(stored).select(*columns))
    message = F.struct("who", "number")
    there = Window.partitionBy(*_LOG, *POSITION)
    return (
        positions.withColumns({"low": F.min(message).over(there), "high": F.max(message).over(there)})
        .filter("low != high")
        .withColumn("other", F.when(F.col("low") == message, F.col("high")).otherwise(F.col("low")))
        .groupBy("cluster", "topic", "who", "number")
        .agg(F.min(F.struct(*POSITION, "other.who", "other.number")).alias("conflict"))
        .select(
            *PLACE[:-1],
            F.lit(IN_LOG).alias("subscription"),
            F.lit("shared_position").alias("cause"),
            F.concat(
                F.lit("shares the position "),
                _spelled("conflict."),
                F.lit(" with message "),
                _named("conflict.who", "conflict.number"),
            ).alias("detail"),
        )
    )


def position_regressed(publishes: DataFrame, clock_error_us: int) -> DataFrame:
    """Messages acked at or below a position of their log whose ack was settled before they were sent.

    An attempt is compared with every ack settled more than the clocks' error before it was sent. The highest of those
    positions is a running maximum in time; to find it without pushing a whole log through one task, each second of the
    log is scanned for itself on top of the maximum of all seconds before it.
    """
    acks = _acks(publishes).withColumn("position", position())
    settled = acks.select(*_LOG, frames.microseconds("settled_at").alias("at"), F.col("position").alias("settled"))
    sent = acks.select(
        *_LOG,
        (frames.microseconds("sent_at") - clock_error_us).alias("at"),
        "who",
        "number",
        F.col("position").alias("asked"),
    )
    events = sent.unionByName(settled, allowMissingColumns=True).withColumn("second", F.expr(f"at DIV {_SECOND_US}"))
    before = Window.partitionBy(*_LOG).orderBy("second").rowsBetween(Window.unboundedPreceding, -1)
    seconds = (
        events.groupBy(*_LOG, "second")
        .agg(F.max("settled").alias("highest"))
        .withColumn("earlier", F.max("highest").over(before))
        .drop("highest")
    )
    # A range up to one microsecond ago: of two at the same time neither is before the other.
    until = Window.partitionBy(*_LOG, "second").orderBy("at").rangeBetween(Window.unboundedPreceding, -1)
    return (
        events.withColumn("within", F.max("settled").over(until))
        .filter("asked IS NOT NULL")
        .join(seconds, [*_LOG, "second"])
        .withColumn("highest", F.greatest("within", "earlier"))
        .filter("asked <= highest")
        .groupBy("cluster", "topic", "who", "number")
        .agg(F.min(F.struct("asked", "highest")).alias("worst"))
        .select(
            *PLACE[:-1],
            F.lit(IN_LOG).alias("subscription"),
            F.when(F.col("worst.asked") == F.col("worst.highest"), "same_position")
            .otherwise("lower_position")
            .alias("cause"),
            F.concat(
                F.lit("acked at "),
                _spelled("worst.asked."),
                F.lit(" though the ack for "),
                _spelled("worst.highest."),
                F.lit(" was settled before it was sent"),
            ).alias("detail"),
        )
    )


def _acks(publishes: DataFrame) -> DataFrame:
    return frames.identified(publishes).filter((F.col("outcome") == Outcome.ACKED) & F.col("ledger_id").isNotNull())


def _spelled(prefix: str) -> Column:
    return F.concat_ws(":", *[f"{prefix}{name}" for name in POSITION])


def _named(who: str, number: str) -> Column:
    # A message without an identity is named by a mark and its position; the mark is not for people.
    return F.concat(F.translate(who, "\u0001", " "), F.lit("/"), F.col(number))
