"""Anomalies of order per key: in a cluster's log and at a subscription. Phantoms are set aside before."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from brokerproof_judging import frames
from brokerproof_judging.messages import PLACE

# Messages without a key are one group: order of a producer without keys is promised like that of one key.
_GROUP = ["cluster", "topic", "subscription", "partition", "who", "key"]


def stored_out_of_order(logs: DataFrame) -> DataFrame:
    """Messages first stored behind a message of the same producer, key and partition with a higher seq."""
    # The seq breaks ties, so that of two messages at one position neither is behind the other.
    earlier = (
        Window.partitionBy(*_GROUP)
        .orderBy("first.ledger_id", "first.entry_id", "first.batch_index", "number")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        _ordered(logs)
        .withColumn("ahead", F.max("number").over(earlier))
        .filter("ahead > number")
        .select(
            *PLACE,
            F.lit("behind_higher_seq").alias("cause"),
            F.concat(
                F.lit("first stored at "),
                F.concat_ws(":", "first.ledger_id", "first.entry_id", "first.batch_index"),
                F.lit(", behind seq "),
                F.col("ahead"),
                F.lit(" of its producer and key"),
            ).alias("detail"),
        )
    )


def delivered_out_of_order(deliveries: DataFrame, clock_error_us: int) -> DataFrame:
    """Messages first delivered after a message of a higher seq that is stored behind them.

    Both are of the same producer, key and partition, and "stored behind" is read from the log: a message that is not
    found in the log proves nothing about order. Deliveries to one incarnation of a consumer are ordered by their time
    and then their arrival; those to two incarnations or consumers only where their times differ by more than the
    clocks' error, because order across incarnations proves nothing by itself.
    """
    firsts = (
        _ordered(deliveries)
        .filter("deliveries > 0")
        .select(
            *PLACE,
            "partition",
            "key",
            F.struct("first.ledger_id", "first.entry_id", "first.batch_index").alias("stored_at"),
            "delivery.consumer",
            "delivery.incarnation",
            "delivery.arrival",
            frames.microseconds("delivery.received_at").alias("at"),
        )
    )
    nearer = Window.partitionBy(*_GROUP).orderBy("stored_at").rangeBetween(Window.unboundedPreceding, Window.currentRow)
    same = (
        Window.partitionBy(*_GROUP, "consumer", "incarnation")
        .orderBy("at", "arrival", "number")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    other = Window.partitionBy(*_GROUP).orderBy("at").rangeBetween(Window.unboundedPreceding, -1 - clock_error_us)
    seq, stored_at = F.max("number"), F.max("stored_at")
    judged = (
        firsts.withColumn("nearer", seq.over(nearer))
        .withColumns({"seq_same": seq.over(same), "at_same": stored_at.over(same)})
        .withColumns({"seq_other": seq.over(other), "at_other": stored_at.over(other)})
        .withColumns({"ahead": F.greatest("seq_same", "seq_other"), "behind": F.greatest("at_same", "at_other")})
        # Necessary: something of a higher seq came before, and something stored behind came before.
        .filter("ahead > number AND behind > stored_at")
    )
    # Sufficient too where nothing of a higher seq is stored before the message: what has one is stored behind it.
    plain = "nearer <= number"
    # Else the two may be different messages, and only looking for one that is both can tell. Such a message is itself
    # stored out of order, so there are few.
    earlier = firsts.alias("x")
    doubtful = judged.filter(f"NOT ({plain})").alias("m")
    same_reader = (
        F.col("x.consumer").eqNullSafe(F.col("m.consumer"))
        & F.col("x.incarnation").eqNullSafe(F.col("m.incarnation"))
        & (F.struct("x.at", "x.arrival", "x.number") < F.struct("m.at", "m.arrival", "m.number"))
    )
    first = same_reader | (F.col("x.at") + clock_error_us < F.col("m.at"))
    overtaken = (F.col("x.number") > F.col("m.number")) & (F.col("x.stored_at") > F.col("m.stored_at"))
    condition = first & overtaken
    for name in _GROUP:
        condition = condition & F.col(f"m.{name}").eqNullSafe(F.col(f"x.{name}"))
    both = judged.filter(plain).unionByName(doubtful.join(earlier, condition, "left_semi"))
    return both.select(
        *PLACE,
        F.lit("after_higher_seq").alias("cause"),
        F.concat(
            F.lit("stored at "),
            F.concat_ws(":", "stored_at.ledger_id", "stored_at.entry_id", "stored_at.batch_index"),
            F.lit(" and first delivered to "),
            F.col("consumer"),
            F.lit(" after a message stored behind it, up to seq "),
            F.col("ahead"),
        ).alias("detail"),
    )


def _ordered(facts: DataFrame) -> DataFrame:
    """The published messages that are stored, in the partition of their first copy."""
    return facts.filter("outcome IS NOT NULL AND first IS NOT NULL").withColumn("partition", F.col("first.partition"))
