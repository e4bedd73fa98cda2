"""Anomalies of order per key: in a cluster's log and at a subscription. Phantoms are set aside before."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof_judging.messages.message_columns import IN_LOG, PLACE, POSITION, columns, spelled

# Messages without a key are one group: order of a producer without keys is promised like that of one key.
GROUP = ("cluster", "topic", "subscription", "partition", "who", "key")

# Messages first stored behind a message of the same producer, key and partition with a higher seq. The seq breaks
# ties, so that of two messages at one position neither is behind the other.
STORED = f"""
    SELECT {columns(*PLACE)}, 'behind_higher_seq' AS cause,
        concat('first stored at ', {spelled()}, ', behind seq ', ahead, ' of its producer and key') AS detail
    FROM (
        SELECT *, max(number) OVER (
            PARTITION BY {columns(*GROUP)} ORDER BY {columns(*POSITION)}, number
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS ahead
        FROM rows
    )
    WHERE ahead > number
"""

_SAME_GROUP = " AND ".join(f"m.{name} IS NOT DISTINCT FROM x.{name}" for name in GROUP)

# Messages first delivered after a message of a higher seq that is stored behind them. Both are of the same producer,
# key and partition, and "stored behind" is read from the log: a message that is not found in the log proves nothing
# about order. Deliveries to one incarnation of a consumer are ordered by their time and then their arrival; those to
# two incarnations or consumers only where their times differ by more than the clocks' error, because order across
# incarnations proves nothing by itself.
#
# It is necessary that something of a higher seq came before and that something stored behind came before. It is
# sufficient too where nothing of a higher seq is stored before the message: what has one is stored behind it. Else the
# two may be different messages, and only looking for one that is both can tell. Such a message is itself stored out of
# order, so there are few.
DELIVERED = f"""
    WITH firsts AS (
        -- A position's rank compares as the position does, and is a number.
        SELECT *, dense_rank() OVER (ORDER BY {columns(*POSITION)}) AS stored_at FROM rows
    ),
    nearby AS (
        SELECT *,
            max(number) OVER (PARTITION BY {columns(*GROUP)} ORDER BY stored_at
                RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS nearer,
            max(number) OVER same AS seq_same,
            max(stored_at) OVER same AS at_same,
            max(number) OVER other AS seq_other,
            max(stored_at) OVER other AS at_other
        FROM firsts
        WINDOW same AS (PARTITION BY {columns(*GROUP)}, consumer, incarnation ORDER BY moment, arrival, number
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
            other AS (PARTITION BY {columns(*GROUP)} ORDER BY moment
                RANGE BETWEEN UNBOUNDED PRECEDING AND 1 + {{clock_error_us}} PRECEDING)
    ),
    judged AS (
        SELECT * EXCLUDE (seq_same, at_same, seq_other, at_other), greatest(seq_same, seq_other) AS ahead
        FROM nearby
        WHERE greatest(seq_same, seq_other) > number AND greatest(at_same, at_other) > stored_at
    ),
    found AS (
        SELECT * FROM judged WHERE nearer <= number
        UNION ALL
        SELECT m.* FROM judged m WHERE m.nearer > m.number AND EXISTS (
            SELECT 1 FROM firsts x
            WHERE {_SAME_GROUP} AND x.number > m.number AND x.stored_at > m.stored_at AND (
                x.moment + {{clock_error_us}} < m.moment
                OR (x.consumer IS NOT DISTINCT FROM m.consumer AND x.incarnation IS NOT DISTINCT FROM m.incarnation
                    AND (x.moment, x.arrival, x.number) < (m.moment, m.arrival, m.number))
            )
        )
    )
    SELECT {columns(*PLACE)}, 'after_higher_seq' AS cause,
        concat('stored at ', {spelled()}, ' and first delivered to ', consumer,
            ' after a message stored behind it, up to seq ', ahead) AS detail
    FROM found
"""


def in_logs(places: DataFrame) -> DataFrame:
    """The published messages that are stored, where their first copies are."""
    return places.filter(F.col("subscription") == IN_LOG).filter("stored_partition IS NOT NULL").select(*_ordered())


def at_subscriptions(places: DataFrame) -> DataFrame:
    """The published messages that are stored, with their first deliveries."""
    return (
        places.filter(F.col("subscription") != IN_LOG)
        .filter("stored_partition IS NOT NULL AND deliveries > 0")
        .select(*_ordered(), "consumer", "incarnation", "arrival", F.col("first_received_at").alias("moment"))
    )


def _ordered() -> list[object]:
    return [
        *PLACE,
        "key",
        F.col("stored_partition").alias("partition"),
        *[F.col(f"stored_{name}").alias(name) for name in POSITION],
    ]
