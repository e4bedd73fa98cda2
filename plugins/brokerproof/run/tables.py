"""The schemas of a run's tables, stated once, used by every job, report and test.

Parquet under the run's directory, `tables/<name>/`. Times are UTC timestamps in microseconds. A message is identified
by `(producer, seq)`; `seq` starts at 0 and has no gaps; a key belongs to one producer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from brokerproof.run.measurement import Measurement

_TIME = pa.timestamp("us", tz="UTC")
_POSITION = [("ledger_id", pa.int64()), ("entry_id", pa.int64()), ("batch_index", pa.int32())]
_PLACE = [("run_id", pa.string()), ("cluster", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
_MESSAGE = [("producer", pa.string()), ("seq", pa.int64()), ("key", pa.string()), ("payload_hash", pa.int64())]

# Rows of a table on their way to a file or to another process.
Batches = Iterator[pa.RecordBatch]


class AttemptOutcome(StrEnum):
    """What a producer knows about an attempt, or about a message that it was not able to attempt."""

    ACKED = "acked"
    FAILED = "failed"
    UNKNOWN = "unknown"
    # So many messages had no answer that none could be sent before the load was over.
    NOT_SENT = "not_sent"


class FaultState(StrEnum):
    """The states of a fault, in the order in which they come."""

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
    [
        ("run_id", pa.string()),
        ("at", _TIME),
        ("source", pa.string()),
        ("metric", pa.string()),
        ("value", pa.string()),
    ]
)

# One row per segment of a log and stretch of it with the same holders, as the cluster said at one moment of the run.
LEDGERS = pa.schema(
    [
        *_PLACE,
        ("at", _TIME),
        ("moment", pa.string()),
        ("ledger_id", pa.int64()),
        ("first_entry", pa.int64()),
        ("state", pa.string()),
        ("bookies", pa.list_(pa.string())),
        ("regions", pa.list_(pa.string())),
        # Regions that had at least one node to take a copy at that moment, hence that the segment has to span.
        ("regions_required", pa.list_(pa.string())),
    ]
)

# One row per message and place it had to reach: a cluster's log (subscription null) or a subscription.
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
        # In a log: distinct positions stored. At a subscription: distinct positions delivered.
        ("copies", pa.int32()),
        ("deliveries", pa.int32()),
        ("first_received_at", _TIME),
        *_POSITION,
        # True where an unknown attempt turned up in the log.
        ("recovered", pa.bool_()),
        # Names of the anomalies found here, and those of them that the guarantee forbids.
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
    """The columns of a table whose rows are a model."""
    return pa.schema([(name, _arrow_type(field.annotation)) for name, field in model.model_fields.items()])


def _arrow_type(annotation: Any) -> pa.DataType:
    if annotation == float | None:
        return pa.float64()
    if annotation == str | None or (isinstance(annotation, type) and issubclass(annotation, str)):
        return pa.string()
    raise TypeError(f"no column has the type {annotation}")


# What placement and recovery come to: one row per measured thing.
MEASUREMENTS = _make_schema(Measurement)

SCHEMAS: Mapping[str, pa.Schema] = {
    "publishes": PUBLISHES,
    "deliveries": DELIVERIES,
    "stored": STORED,
    "faults": FAULTS,
    "observations": OBSERVATIONS,
    "ledgers": LEDGERS,
    "messages": MESSAGES,
    "anomalies": ANOMALIES,
    "measurements": MEASUREMENTS,
}


def make_batch(table: str, rows: Sequence[Mapping[str, Any]], constant: Mapping[str, Any]) -> pa.RecordBatch:
    """Rows of a table as Arrow has them. `constant` has the columns that are the same in all rows."""
    columns = [
        pa.array(
            [constant[field.name]] * len(rows) if field.name in constant else [row[field.name] for row in rows],
            field.type,
        )
        for field in SCHEMAS[table]
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[table])
