"""Anomalies of positions: two messages at one place in a log, and a log that went back."""

from __future__ import annotations

from brokerproof.run.tables import Outcome
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from brokerproof_judging import partitioned_sql, table_io
from brokerproof_judging.messages.message_columns import IN_LOG, POSITION, columns, identified, spelled

_LOG = ("cluster", "topic", "partition")
_POSITION_TYPES = "ledger_id bigint, entry_id bigint, batch_index int"
_SECOND_US = 1_000_000

PLACE_IN_LOG = (*_LOG, *POSITION)
SECOND = (*_LOG, "second")

_AT = "{{" + ", ".join(f"{name}: {name}" for name in POSITION) + "}}"
_MESSAGE = "{{who: who, number: number}}"

# Messages that share a position, stored or named by an ack, with another message.
CONFLICT = f"""
    WITH shared AS (
        SELECT {columns(*PLACE_IN_LOG)}, min({_MESSAGE}) AS low, max({_MESSAGE}) AS high
        FROM rows GROUP BY {columns(*PLACE_IN_LOG)} HAVING low != high
    )
    SELECT DISTINCT {columns("who", "number", "topic", "cluster", of="r")}, '{IN_LOG}' AS subscription,
        'shared_position' AS cause,
        concat('shares the position ', {spelled("r.")}, ' with message ',
            -- A message without an identity is named by a mark and its position; the mark is not for people.
            replace(other.who, chr(1), ' '), '/', other.number) AS detail
    FROM (
        SELECT r.*, CASE WHEN s.low = {{{{who: r.who, number: r.number}}}} THEN s.high ELSE s.low END AS other
        FROM rows r JOIN shared s USING ({columns(*PLACE_IN_LOG)})
    ) r
"""

# Messages acked at or below a position of their log whose ack was settled before they were sent. A row is an attempt
# when it was `sent` (less the clocks' error), an ack when it was settled, or the highest position `before` a second.
REGRESSED = f"""
    WITH ranked AS (
        -- A position's rank compares as the position does, and is a number.
        SELECT *, CASE WHEN ledger_id IS NOT NULL THEN dense_rank() OVER (ORDER BY {columns(*POSITION)}) END AS rank,
            {_AT} AS position
        FROM rows
    ),
    earlier AS (SELECT {columns(*SECOND)}, max(rank) AS earlier FROM ranked WHERE kind = 'before' GROUP BY ALL),
    within AS (
        -- Up to one microsecond ago: of two at the same time neither is before the other.
        SELECT *, max(CASE WHEN kind = 'settled' THEN rank END) OVER (
            PARTITION BY {columns(*SECOND)} ORDER BY moment RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS within
        FROM ranked WHERE kind != 'before'
    ),
    found AS (
        SELECT w.who, w.number, {columns(*_LOG, of="w")}, w.rank, w.position, greatest(w.within, e.earlier) AS highest
        FROM within w LEFT JOIN earlier e USING ({columns(*SECOND)})
        WHERE w.kind = 'sent' AND w.rank <= greatest(w.within, e.earlier)
    )
    SELECT {columns("who", "number", "topic", "cluster", of="f")}, '{IN_LOG}' AS subscription,
        IF(f.rank = f.highest, 'same_position', 'lower_position') AS cause,
        concat('acked at ', {spelled("f.position.")}, ' though the ack for ', {spelled("r.position.")},
            ' was settled before it was sent') AS detail
    FROM found f JOIN (SELECT DISTINCT rank, position FROM ranked) r ON r.rank = f.highest
"""


def stored_or_named(publishes: DataFrame, stored: DataFrame) -> DataFrame:
    """Every position that a message is stored at or that an ack named."""
    both = [*PLACE_IN_LOG, "who", "number"]
    return _acks(publishes).select(*both).unionAll(identified(stored).select(*both))


def sent_and_settled(publishes: DataFrame, among: partitioned_sql.Parts, clock_error_us: int) -> DataFrame:
    """What REGRESSED looks at, second by second.

    An attempt is compared with every ack settled more than the clocks' error before it was sent. The highest of those
    positions is a running maximum in time; to find it without pushing a whole log through one task, each second of the
    log is looked at for itself on top of the maximum of all seconds before it.
    """
    acks = _acks(publishes)
    settled, sent = table_io.microseconds("settled_at"), table_io.microseconds("sent_at") - clock_error_us
    names = ["kind", *SECOND, "moment", "who", "number", *POSITION]
    events = [
        acks.withColumns({"kind": F.lit(kind), "moment": at, "second": F.floor(at / _SECOND_US)}).select(*names)
        for kind, at in (("settled", settled), ("sent", sent))
    ]
    both = events[0].unionAll(events[1])
    return both.unionByName(_before(both), allowMissingColumns=True)


def _before(events: DataFrame) -> DataFrame:
    """For every second of a log in which something was sent or settled, the highest position settled before it."""
    # What every task has of a second, so that only few rows are grouped again.
    some = partitioned_sql.look(
        events.select("kind", *SECOND, *POSITION),
        _highest,
        f"cluster string, topic string, partition int, second bigint, {_POSITION_TYPES}",
    )
    position = F.when(F.col("ledger_id").isNotNull(), F.struct(*POSITION))
    earlier = Window.partitionBy(*_LOG).orderBy("second").rowsBetween(Window.unboundedPreceding, -1)
    return (
        some.groupBy(*SECOND)
        .agg(F.max(position).alias("highest"))
        .withColumn("earlier", F.max("highest").over(earlier))
        .filter("earlier IS NOT NULL")
        .select(F.lit("before").alias("kind"), *SECOND, "earlier.*")
    )


def _highest(part: int, connection: partitioned_sql.Connection) -> partitioned_sql.Batches:
    del part
    at = _AT.format()
    query = f"""
        SELECT {columns(*SECOND)}, {columns(*[f"highest.{name}" for name in POSITION])}
        FROM (
            SELECT {columns(*SECOND)}, max(CASE WHEN kind = 'settled' THEN {at} END) AS highest FROM rows GROUP BY ALL
        )
    """
    return partitioned_sql.answer(connection, query)


def _acks(publishes: DataFrame) -> DataFrame:
    return identified(publishes).filter((F.col("outcome") == Outcome.ACKED) & F.col("ledger_id").isNotNull())
