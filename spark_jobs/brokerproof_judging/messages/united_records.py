"""Unites the tables `publishes`, `stored` and `deliveries` in one frame, which can be split by message."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerproof_judging import table_io
from brokerproof_judging.database import DuckDB
from brokerproof_judging.messages.message_columns import LOG, POSITION, name_messages

# A row's table, by the number in its column `kind`. Moving a number costs less than moving a name.
_KINDS = ("publishes", "stored", "deliveries")


def unite_records(publishes: DataFrame, stored: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Return the rows of the three tables in one frame. Times are microseconds since the epoch."""
    everywhere = [*LOG, "partition", *POSITION, "key", "payload_hash"]
    frames = [
        name_messages(publishes).select(
            *everywhere, *("epoch", "outcome"), *_select_times("scheduled_at", "sent_at", "settled_at")
        ),
        name_messages(stored).select(*everywhere),
        name_messages(deliveries).select(
            *everywhere,
            *("subscription", "consumer", "incarnation", "arrival"),
            *_select_times("received_at", "acknowledged_at"),
        ),
    ]
    numbered = [frame.withColumn("kind", F.lit(kind)) for kind, frame in enumerate(frames)]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), numbered)


def separate_records(connection: DuckDB) -> None:
    """Create the views `publishes`, `stored` and `deliveries`, each with its own rows of the united table `rows`."""
    for kind, table in enumerate(_KINDS):
        connection.execute(f"CREATE VIEW {table} AS SELECT * EXCLUDE (kind) FROM rows WHERE kind = {kind}")


def _select_times(*names: str) -> list[Column]:
    return [table_io.to_microseconds(name).alias(name) for name in names]
