"""Finds anomalies that show only when messages are compared: a shared position, a log that went back, wrong order.

A query in `sql/rows/` selects the rows that are compared, and one in `sql/anomalies/` finds the anomaly in them. If
there is one part, its database has all rows. Otherwise each part writes its rows into buckets: rows that must be
compared are in one bucket. A task for each bucket then reads the rows of all parts from their files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.tables import Batches

from brokerproof_judging.database import (
    DuckDB,
    define_values,
    load_table,
    read_bucket,
    select_batches,
    write_buckets,
)
from brokerproof_judging.messages.message_columns import PLACE_FIELDS, POSITION, define_macros, find_parts, read_query
from brokerproof_judging.messages.message_facts import FINDINGS, find_anomaly
from brokerproof_judging.recorded_parts import RecordedParts

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
# The highest position of each second of a log, and the name of the directory that has these rows of all parts.
_HIGHEST = pa.schema([(name, _TYPES[name]) for name in (*_SECOND, *POSITION)])
_HIGHEST_ROWS = "highest_position_by_second"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The columns of the rows that are compared. One bucket has all rows that agree in `together`.

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
        _make_rows(connection, anomaly)
        yield from find_anomaly(connection, anomaly)
        connection.execute("DROP TABLE rows")


def write_rows(connection: DuckDB, directory: str, part: int, parts: int, anomalies: Sequence[str]) -> None:
    """Write the rows of a part that are compared with rows of other parts. The number of buckets is `parts`."""
    define_values(connection, {"second_us": _SECOND_US})
    for anomaly in anomalies:
        comparison = COMPARISONS[Anomaly(anomaly)]
        _make_rows(connection, anomaly)
        together = ", ".join(f'"{name}"' for name in comparison.together)
        bucket = f"(hash({together}) % {parts})::INT"
        rows = select_batches(connection, f"SELECT *, {bucket} AS bucket FROM rows ORDER BY bucket")
        write_buckets(f"{directory}/{anomaly}", part, comparison.schema, rows, parts)
        if anomaly == Anomaly.POSITION_REGRESSED:
            rows = select_batches(connection, read_query("highest_position_by_second"))
            write_buckets(f"{directory}/{_HIGHEST_ROWS}", part, _HIGHEST, rows, 1)
        connection.execute("DROP TABLE rows")


def _make_rows(connection: DuckDB, anomaly: str) -> None:
    query = read_query(f"rows/{anomaly}")
    connection.execute(f"CREATE TABLE rows AS FROM ({query}) ANTI JOIN uncompared USING (who, number, topic)")


@dataclass(frozen=True, kw_only=True)
class ComparisonsOfBucket:
    """Compares the rows of one bucket, which `write_rows` wrote to the directory `rows` for each part.

    The directory `findings` gets the anomalies that it finds, in a bucket for each part of the messages.
    """

    recorded: RecordedParts
    rows: str
    findings: str
    clock_error_us: int
    anomalies: Sequence[Anomaly]

    def __call__(self, bucket: int, connection: DuckDB) -> str:
        """Write the findings of a bucket, and return their number."""
        define_macros(connection)
        define_values(connection, {"clock_error_us": self.clock_error_us})
        load_table(connection, "found", iter(()), pa.schema([*FINDINGS, ("bucket", pa.int32())]))
        parts = self.recorded.parts
        for anomaly in self.anomalies:
            read_bucket(connection, "rows", f"{self.rows}/{anomaly}", COMPARISONS[anomaly].schema, parts, bucket)
            if anomaly is Anomaly.POSITION_REGRESSED:
                read_bucket(connection, "highest", f"{self.rows}/{_HIGHEST_ROWS}", _HIGHEST, parts, 0)
                connection.execute(f"INSERT INTO rows BY NAME {read_query('highest_position_before_second')}")
            for batch in find_anomaly(connection, anomaly):
                numbers = pa.array(find_parts(self.recorded, batch), pa.int32())
                connection.register("arriving", pa.Table.from_batches([batch.append_column("bucket", numbers)]))
                connection.execute("INSERT INTO found BY NAME FROM arriving")
            connection.execute("DROP TABLE rows")
        found = select_batches(connection, "FROM found ORDER BY bucket")
        write_buckets(self.findings, bucket, FINDINGS, found, parts)
        (count,) = connection.execute("SELECT count(*)::VARCHAR FROM found").fetchone() or ()
        return str(count)


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
