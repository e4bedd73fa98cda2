"""The schemas of a run's tables, defined once for every job, report and test.

The tables are Parquet, in `tables/<name>/` of the run's directory. Times are UTC timestamps in microseconds. A message
is identified by `(producer, seq)`; `seq` starts at 0 and has no gaps. A key belongs to one producer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from brokerproof.run.measurement import Measurement

_TIME = pa.timestamp("us", tz="UTC")
_POSITION = [("segment", pa.int64()), ("offset", pa.int64()), ("batch_index", pa.int32())]
_PLACE = [("run_id", pa.string()), ("cluster", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
_MESSAGE = [("producer", pa.string()), ("seq", pa.int64()), ("key", pa.string()), ("payload_hash", pa.int64())]

# Rows of a table on their way to a file or to another process.
Batches = Iterator[pa.RecordBatch]


class AttemptOutcome(StrEnum):
    """The outcomes of an attempt to publish, as the producer knows them. `not_sent` means that there was no attempt."""

    ACKED = "acked"
    FAILED = "failed"
    UNKNOWN = "unknown"
    # It was not sent before the end of the load, because `max_pending` earlier messages still had no answer.
    NOT_SENT = "not_sent"


class FaultState(StrEnum):
    """The states of a fault, in the order of time."""

    INJECTING = "injecting"
    EFFECTIVE = "effective"
    HEALING = "healing"
    RECOVERED = "recovered"


PUBLISHES = pa.schema(
    [
        *_PLACE,
        ("producer", pa.string()),
        ("epoch", pa.int32()),
        ("seq", pa.int64()),
        ("key", pa.string()),
        ("payload_hash", pa.int64()),
        ("scheduled_at", _TIME),
        ("sent_at", _TIME),
        ("settled_at", _TIME),
        ("outcome", pa.string()),
        ("error", pa.string()),
        *_POSITION,
    ]
)

DELIVERIES = pa.schema(
    [
        *_PLACE,
        ("subscription", pa.string()),
        ("consumer", pa.string()),
        ("incarnation", pa.int32()),
        ("arrival", pa.int64()),
        ("received_at", _TIME),
        *_MESSAGE,
        *_POSITION,
        ("redelivery_count", pa.int32()),
        ("published_at", _TIME),
        ("replicated_from", pa.string()),
        ("acknowledged_at", _TIME),
    ]
)

STORED = pa.schema([*_PLACE, *_MESSAGE, *_POSITION, ("published_at", _TIME), ("replicated_from", pa.string())])

FAULTS = pa.schema(
    [
        ("run_id", pa.string()),
        ("fault", pa.string()),
        ("kind", pa.string()),
        ("targets", pa.list_(pa.string())),
        ("state", pa.string()),
        ("at", _TIME),
        ("evidence", pa.string()),
    ]
)

OBSERVATIONS = pa.schema(
    [("run_id", pa.string()), ("at", _TIME), ("source", pa.string()), ("metric", pa.string()), ("value", pa.string())]
)

# One row per part of a log's segment with the same holders throughout, as the cluster reported it at one moment.
COPIES = pa.schema(
    [
        *_PLACE,
        ("at", _TIME),
        ("moment", pa.string()),
        ("segment", pa.int64()),
        ("first_offset", pa.int64()),
        ("state", pa.string()),
        ("holders", pa.list_(pa.string())),
        ("regions", pa.list_(pa.string())),
        # The regions that the segment has to span: each had a node that could take a copy at that moment.
        ("regions_required", pa.list_(pa.string())),
    ]
)

# One row per message and place that it had to reach or was found at: a cluster's log (subscription null) or a
# subscription.
MESSAGES = pa.schema(
    [
        *_PLACE,
        ("subscription", pa.string()),
        ("home", pa.string()),
        ("producer", pa.string()),
        ("seq", pa.int64()),
        ("key", pa.string()),
        ("outcome", pa.string()),
        ("attempts", pa.int32()),
        ("scheduled_at", _TIME),
        ("sent_at", _TIME),
        ("settled_at", _TIME),
        # The number of different positions that store the message in a log, or that delivered it to a subscription.
        ("copies", pa.int32()),
        ("deliveries", pa.int32()),
        ("first_received_at", _TIME),
        *_POSITION,
        # True if the message's outcome is unknown and this log stores it.
        ("recovered", pa.bool_()),
        # The names of the anomalies found here, and the names of the illegal ones.
        ("anomalies", pa.list_(pa.string())),
        ("illegal", pa.list_(pa.string())),
    ]
)

ANOMALIES = pa.schema(
    [
        ("run_id", pa.string()),
        ("anomaly", pa.string()),
        ("legal", pa.bool_()),
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("subscription", pa.string()),
        ("producer", pa.string()),
        ("seq", pa.int64()),
        ("key", pa.string()),
        ("cause", pa.string()),
        ("detail", pa.string()),
    ]
)


def _make_schema(model: type[BaseModel]) -> pa.Schema:
    return pa.schema([(name, _arrow_type(field.annotation)) for name, field in model.model_fields.items()])


def _arrow_type(annotation: Any) -> pa.DataType:
    if annotation == float | None:
        return pa.float64()
    if annotation == str | None or (isinstance(annotation, type) and issubclass(annotation, str)):
        return pa.string()
    raise TypeError(f"no column has the type {annotation}")


# The measurements of placement and recovery: one row per metric and subject.
MEASUREMENTS = _make_schema(Measurement)

SCHEMAS: Mapping[str, pa.Schema] = {
    "publishes": PUBLISHES,
    "deliveries": DELIVERIES,
    "stored": STORED,
    "faults": FAULTS,
    "observations": OBSERVATIONS,
    "copies": COPIES,
    "messages": MESSAGES,
    "anomalies": ANOMALIES,
    "measurements": MEASUREMENTS,
}


def make_batch(table: str, rows: Sequence[Mapping[str, Any]], constant: Mapping[str, Any]) -> pa.RecordBatch:
    """Return rows of a table as an Arrow batch. `constant` has the values of columns that are equal in all rows."""
    columns = [
        pa.array(
            [constant[field.name]] * len(rows) if field.name in constant else [row[field.name] for row in rows],
            field.type,
        )
        for field in SCHEMAS[table]
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[table])
