"""Finds anomalies that show only when messages are compared: a shared position, a log that went back, wrong order.

Rows that must be compared are brought into the same part: the rows of one Spark task. In each part, a query in
`sql/anomalies/` finds the anomaly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import pyarrow as pa
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.division import Division
from brokerproof.run.tables import AttemptOutcome, Batches
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from brokerproof_judging import table_io
from brokerproof_judging.database import DuckDB, define_values, select_batches
from brokerproof_judging.messages.message_columns import (
    IN_LOG,
    PLACE,
    POSITION,
    define_macros,
    find_parts,
    name_messages,
    read_query,
)
from brokerproof_judging.messages.message_facts import find_anomaly
from brokerproof_judging.partitioned_sql import work_on_parts

_LOG = ("cluster", "topic", "partition")
_PLACE_IN_LOG = (*_LOG, *POSITION)
_SECOND = (*_LOG, "second")
# A producer's messages without a key are one group, because their order is promised like the order of one key.
_KEY = ("cluster", "topic", "subscription", "partition", "who", "key")

_SECOND_US = 1_000_000

_FINDINGS = (
    "who string, number bigint, topic string, cluster string, subscription string, "
    "cause string, detail string, anomaly string, part int"
)


@dataclass(frozen=True, kw_only=True)
class ComparisonInput:
    """The tables that comparisons read: the recorded `publishes` and `stored`, and `places` from message_facts.py.

    The table `places` has a row for each message and place (a cluster's log or a subscription).
    """

    publishes: DataFrame
    stored: DataFrame
    places: DataFrame
    clock_error_us: int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How an anomaly's query gets its rows: `rows` selects them, and one part has all rows that agree in `together`.

    A part is the rows of one Spark task. The query may report the same message in the same log or subscription more
    than once.
    """

    rows: Callable[[ComparisonInput], DataFrame]
    together: Sequence[str]


def find_by_comparison(
    spark: SparkSession, compared: ComparisonInput, division: Division, anomalies: Sequence[Anomaly]
) -> DataFrame:
    """Return each anomaly of `anomalies` that a comparison found, with its message, place and the message's part.

    The number of Spark's tasks is the number of parts, or `spark.sql.shuffle.partitions` if that is higher.
    """
    tasks = max(division.parts, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    found = [
        work_on_parts(
            comparison.rows(compared).repartition(tasks, *comparison.together),
            partial(_find_in_part, str(anomaly), compared.clock_error_us, division),
            _FINDINGS,
        )
        for anomaly, comparison in COMPARISONS.items()
        if anomaly in anomalies
    ]
    return reduce(DataFrame.unionAll, found, spark.createDataFrame([], _FINDINGS))


def _find_in_part(anomaly: str, clock_error_us: int, division: Division, task: int, connection: DuckDB) -> Batches:
    del task
    define_macros(connection)
    define_values(connection, {"clock_error_us": clock_error_us})
    for batch in find_anomaly(connection, anomaly):
        yield batch.append_column("part", pa.array(find_parts(division, batch), pa.int32()))


def _select_named_positions(compared: ComparisonInput) -> DataFrame:
    """Return a row for each position and message that was acked there, is stored there, or was delivered from there.

    A delivery is left out if the log stores the message at the same position, because it would add nothing.
    """
    columns = [*_PLACE_IN_LOG, "who", "number", "subscription"]
    in_log = F.lit(IN_LOG).alias("subscription")
    acked = _select_acks_with_position(compared.publishes).select(*columns[:-1], in_log)
    stored = name_messages(compared.stored).select(*columns[:-1], in_log)
    delivered = (
        compared.places.filter("positions_elsewhere IS NOT NULL")
        .drop("partition", *POSITION)
        .select("*", F.inline("positions_elsewhere"))
        .select(*columns)
    )
    return acked.unionAll(stored).unionAll(delivered)


def _select_attempt_events(compared: ComparisonInput) -> DataFrame:
    """Return when acked attempts were sent and settled, and the highest position that was acked before each second.

    An attempt is compared with all acks that were settled before it was sent; a difference within the clocks' error
    does not count. Each second of a log is compared separately. For it, the highest position acked earlier represents
    all earlier acks. If an attempt was settled before it was sent, its clock was set back. Its true times are not
    known, so it is left out.
    """
    acks = _select_acks_with_position(compared.publishes).filter("settled_at >= sent_at")
    settled = table_io.to_microseconds("settled_at")
    sent = table_io.to_microseconds("sent_at") - compared.clock_error_us
    names = ["kind", *_SECOND, "moment", "who", "number", *POSITION]
    events = [
        acks.withColumns({"kind": F.lit(kind), "moment": at, "second": F.floor(at / _SECOND_US)}).select(*names)
        for kind, at in (("settled", settled), ("sent", sent))
    ]
    both = events[0].unionAll(events[1])
    return both.unionByName(_find_highest_before_seconds(both), allowMissingColumns=True)


def _find_highest_before_seconds(events: DataFrame) -> DataFrame:
    """Return, for each log and second with an event, the highest position whose ack was settled before that second.

    A second without an earlier ack is left out.
    """
    # Each task first finds its own maximum for each second, so that few rows are left to group.
    some = work_on_parts(
        events.select("kind", *_SECOND, *POSITION),
        _find_highest_by_second,
        "cluster string, topic string, partition int, second bigint, segment bigint, offset bigint, batch_index int",
    )
    position = F.when(F.col("segment").isNotNull(), F.struct(*POSITION))
    earlier = Window.partitionBy(*_LOG).orderBy("second").rowsBetween(Window.unboundedPreceding, -1)
    return (
        some.groupBy(*_SECOND)
        .agg(F.max(position).alias("highest"))
        .withColumn("earlier", F.max("highest").over(earlier))
        .filter("earlier IS NOT NULL")
        .select(F.lit("before").alias("kind"), *_SECOND, "earlier.*")
    )


def _find_highest_by_second(part: int, connection: DuckDB) -> Batches:
    del part
    return select_batches(connection, read_query("highest_position_by_second"))


def _select_acks_with_position(publishes: DataFrame) -> DataFrame:
    return name_messages(publishes).filter((F.col("outcome") == AttemptOutcome.ACKED) & F.col("segment").isNotNull())


def _select_first_copies(compared: ComparisonInput) -> DataFrame:
    """Return each published message that a cluster stores, with the position of its first copy there."""
    in_log = compared.places.filter(F.col("subscription") == IN_LOG)
    return in_log.filter("stored_segment IS NOT NULL").select(*_list_order_columns())


def _select_first_deliveries(compared: ComparisonInput) -> DataFrame:
    """Return each published message that is stored and that a subscription got, with its first copy and first delivery.

    If a subscription moved, its rows for the new cluster leave out the messages that it got before the move.
    """
    return (
        compared.places.filter(F.col("subscription") != IN_LOG)
        .filter("stored_segment IS NOT NULL AND deliveries > 0")
        .select(
            *_list_order_columns(), "consumer", "incarnation", "arrival", F.col("first_received_at").alias("moment")
        )
    )


def _list_order_columns() -> list[object]:
    return [
        *PLACE,
        "key",
        F.col("stored_partition").alias("partition"),
        *[F.col(f"stored_{name}").alias(name) for name in POSITION],
    ]


COMPARISONS: Mapping[Anomaly, Comparison] = {
    Anomaly.POSITION_CONFLICT: Comparison(rows=_select_named_positions, together=_PLACE_IN_LOG),
    Anomaly.POSITION_REGRESSED: Comparison(rows=_select_attempt_events, together=_SECOND),
    Anomaly.STORED_OUT_OF_ORDER: Comparison(rows=_select_first_copies, together=_KEY),
    Anomaly.DELIVERED_OUT_OF_ORDER: Comparison(rows=_select_first_deliveries, together=_KEY),
}
