"""Finds anomalies that show only when messages are compared: a shared position, a log that went back, wrong order.

A query in `sql/rows/` selects the rows that are compared, and one in `sql/anomalies/` finds the anomaly in them. If
there is one part, its database has all rows. Otherwise each part writes its rows, and Spark brings together those that
must be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import pyarrow as pa
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.division import Division
from brokerproof.run.tables import Batches
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from brokerproof_judging import table_io
from brokerproof_judging.database import DuckDB, define_values, select_batches, write_part
from brokerproof_judging.messages.message_columns import PLACE_FIELDS, POSITION, define_macros, find_parts, read_query
from brokerproof_judging.messages.message_facts import find_anomaly
from brokerproof_judging.partitioned_sql import work_on_parts

_LOG = ("cluster", "topic", "partition")
_PLACE_IN_LOG = (*_LOG, *POSITION)
_SECOND = (*_LOG, "second")
# A producer's messages without a key are one group, because their order is promised like the order of one key.
_KEY = ("cluster", "topic", "subscription", "partition", "who", "key")

# The length of a second, and a time that is longer than any run.
_SECOND_US, _FOREVER_US = 1_000_000, 1 << 62

_TYPES: Mapping[str, pa.DataType] = {
    **dict(PLACE_FIELDS),
    **{name: pa.string() for name in ("kind", "key", "consumer")},
    **{name: pa.int32() for name in ("partition", "batch_index", "incarnation")},
    **{name: pa.int64() for name in ("segment", "offset", "second", "moment", "arrival")},
}

_FINDINGS = (
    "who string, number bigint, topic string, cluster string, subscription string, "
    "cause string, detail string, anomaly string, part int"
)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The columns of the rows that are compared. One Spark task has all rows that agree in `together`.

    The query may report the same message in the same log or subscription more than once.
    """

    columns: Sequence[str]
    together: Sequence[str]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, _TYPES[name]) for name in self.columns])


def compare_in_database(connection: DuckDB, anomalies: Sequence[str]) -> Batches:
    """Yield the findings of comparisons in a database with the records and facts of all messages."""
    # All times of a log are compared at once.
    define_values(connection, {"second_us": _FOREVER_US})
    for anomaly in anomalies:
        connection.execute(f"CREATE TABLE rows AS {read_query(f'rows/{anomaly}')}")
        yield from find_anomaly(connection, anomaly)
        connection.execute("DROP TABLE rows")


def write_rows(connection: DuckDB, directory: str, part: int, anomalies: Sequence[str]) -> None:
    """Write the rows of a part that are compared with rows of other parts."""
    define_values(connection, {"second_us": _SECOND_US})
    for anomaly in anomalies:
        rows = select_batches(connection, read_query(f"rows/{anomaly}"))
        write_part(f"{directory}/{anomaly}", part, COMPARISONS[Anomaly(anomaly)].schema, rows)


def find_by_comparison(
    spark: SparkSession, directory: str, clock_error_us: int, division: Division, anomalies: Sequence[Anomaly]
) -> DataFrame:
    """Return each anomaly of `anomalies` that a comparison found, with its message, place and the message's part.

    `directory` has the rows of all parts. The number of Spark's tasks is the number of parts, or
    `spark.sql.shuffle.partitions` if that is higher.
    """
    tasks = max(division.parts, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    found = [
        work_on_parts(
            _read_rows(spark, directory, anomaly).repartition(tasks, *comparison.together),
            partial(_find_in_part, str(anomaly), clock_error_us, division),
            _FINDINGS,
        )
        for anomaly, comparison in COMPARISONS.items()
        if anomaly in anomalies
    ]
    return reduce(DataFrame.unionAll, found, spark.createDataFrame([], _FINDINGS))


def _read_rows(spark: SparkSession, directory: str, anomaly: Anomaly) -> DataFrame:
    schema = table_io.to_spark_schema(COMPARISONS[anomaly].schema)
    rows = spark.read.schema(schema).parquet(table_io.to_uri(f"{directory}/{anomaly}"))
    if anomaly is Anomaly.POSITION_REGRESSED:
        return rows.unionByName(_find_highest_before_seconds(rows), allowMissingColumns=True)
    return rows


def _find_in_part(anomaly: str, clock_error_us: int, division: Division, task: int, connection: DuckDB) -> Batches:
    del task
    define_macros(connection)
    define_values(connection, {"clock_error_us": clock_error_us})
    for batch in find_anomaly(connection, anomaly):
        yield batch.append_column("part", pa.array(find_parts(division, batch), pa.int32()))


def _find_highest_before_seconds(events: DataFrame) -> DataFrame:
    """Return, for each log and second with an event, the highest position whose ack was settled before that second.

    Each second of a log is compared separately, and for it this position represents all earlier acks. A second without
    an earlier ack is left out.
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


_FIRST_COPY = ("who", "number", "topic", "cluster", "subscription", "key", "partition", *POSITION)

COMPARISONS: Mapping[Anomaly, Comparison] = {
    Anomaly.POSITION_CONFLICT: Comparison(
        columns=(*_PLACE_IN_LOG, "who", "number", "subscription"), together=_PLACE_IN_LOG
    ),
    Anomaly.POSITION_REGRESSED: Comparison(
        columns=("kind", *_SECOND, "moment", "who", "number", *POSITION), together=_SECOND
    ),
    Anomaly.STORED_OUT_OF_ORDER: Comparison(columns=_FIRST_COPY, together=_KEY),
    Anomaly.DELIVERED_OUT_OF_ORDER: Comparison(
        columns=(*_FIRST_COPY, "consumer", "incarnation", "arrival", "moment"), together=_KEY
    ),
}
