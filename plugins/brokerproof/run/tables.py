"""The schemas of a run's tables, defined once for every job, report and test.

The tables are Parquet, in `tables/<name>/` of the run's directory. Times are UTC timestamps in microseconds. A message
is identified by `(producer, seq)`; `seq` starts at 0 and has no gaps. A key belongs to one producer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa

from brokerproof.run.measurement import Measurement
from brokerproof.run.observations import SampledMetric, Source

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


def _find_type(annotation: Any) -> pa.DataType:
    if annotation == float | None:
        return pa.float64()
    if annotation == str | None or (isinstance(annotation, type) and issubclass(annotation, str)):
        return pa.string()
    raise TypeError(f"no column has the type {annotation}")


class Column(NamedTuple):
    """A column of a table. docs/tables.md prints the meaning."""

    name: str
    type: pa.DataType
    meaning: str


_TEXT, _NUMBER, _COUNT, _TIME = pa.string(), pa.int64(), pa.int32(), pa.timestamp("us", tz="UTC")
_TEXTS = pa.list_(pa.string())

_RUN = Column("run_id", _TEXT, "the run's id")
_TOPIC = Column("topic", _TEXT, "the topic, as the messaging system names it")
_PARTITION = "number of the partition, -1 for a topic without partitions"
_PRODUCER = Column("producer", _TEXT, "name of the producer; with `seq` it identifies the message")
_SEQ = Column("seq", _NUMBER, "number of the message at its producer, from 0 on without gaps")
_KEY = Column("key", _TEXT, "the message's key, which belongs to one producer")
_SCHEDULED = Column(
    "scheduled_at", _TIME, "when the message was due by the producer's open-loop schedule, which no stall delays"
)
_REPLICATED_FROM = Column(
    "replicated_from",
    _TEXT,
    "the cluster that the message was published to; null if it is this one, or if the message does not name it",
)
_PUBLISHED = Column(
    "published_at",
    _TIME,
    "when the producer's client published the message, by the wall clock of its machine and not by the run's time "
    "axis; the client wrote this time into the message, rounded to milliseconds if the system does so",
)
_OUTCOME = (
    "`acked` if the system confirmed it, `failed` if the client proved that nothing was written, `not_sent` if it was "
    "due but held back until the end of the load, else `unknown`"
)


def _list_place(cluster: str, partition: str = _PARTITION) -> list[Column]:
    return [_RUN, Column("cluster", _TEXT, cluster), _TOPIC, Column("partition", _COUNT, partition)]


def _list_position(of: str, when_null: str) -> list[Column]:
    return [
        Column("segment", _NUMBER, f"segment of the log {of}, 0 if the system has none; null {when_null}"),
        Column("offset", _NUMBER, "offset in the segment, which may have gaps; null if `segment` is"),
        Column(
            "batch_index",
            _COUNT,
            "place among the messages that share the offset; null if there is only this one",
        ),
    ]


def _list_found_message(hash_of: str) -> list[Column]:
    return [
        Column("producer", _TEXT, "name of the producer; null if the message names none"),
        Column(
            "seq",
            _NUMBER,
            "number of the message at its producer; null if the message names none",
        ),
        Column("key", _TEXT, "the message's key; null if it has none"),
        Column("payload_hash", _NUMBER, f"XXH3 hash of the payload {hash_of}, as a signed 64-bit number"),
    ]


# What a row of each table is. docs/tables.md prints it.
ROWS: Mapping[str, str] = {
    "publishes": "One row per attempt to publish, and per message that was due and never attempted.",
    "deliveries": "One row per delivery to a consumer.",
    "stored": "One row per message that a fresh reader read in a log after the load.",
    "outputs": "One row per output that a consumer wrote of a message.",
    "faults": "One row per state that a fault reached.",
    "observations": "One row per sample.",
    "copies": "One row per part of a log's segment with the same holders throughout, as the cluster reported it at one "
    "moment.",
    "messages": "One row per message and place that it had to reach or was found at: a cluster's log, or a "
    "subscription.",
    "anomalies": "One row per anomaly, message and place.",
    "measurements": "One row per metric of placement or recovery and subject.",
}

# The columns of each table, with their meanings.
COLUMNS: Mapping[str, Sequence[Column]] = {
    "publishes": [
        *_list_place(
            "the cluster that it was published to, the message's home",
            f"{_PARTITION}; null without an ack",
        ),
        _PRODUCER,
        Column("epoch", _COUNT, "number of the producer's process, from 0 on; a repeated task starts another process"),
        _SEQ,
        _KEY,
        Column("payload_hash", _NUMBER, "XXH3 hash of the payload that was published, as a signed 64-bit number"),
        _SCHEDULED,
        Column(
            "sent_at",
            _TIME,
            "when the producer handed the message to the client; null if it did not, or if its process was ended "
            "before it recorded the attempt",
        ),
        Column(
            "settled_at", _TIME, "when the client reported the outcome to the producer; null if it never did in time"
        ),
        Column("outcome", _TEXT, _OUTCOME),
        Column("error", _TEXT, "the client's error, or why the outcome is not known; null if there is nothing to say"),
        *_list_position("that the ack named", "if no ack named a position, as for a deduplicated retry"),
    ],
    "deliveries": [
        *_list_place("the cluster that delivered the message"),
        Column("subscription", _TEXT, "the subscription"),
        Column("consumer", _TEXT, "name of the consumer"),
        Column(
            "incarnation",
            _COUNT,
            "number of the consumer's connection, from 0 on; it grows with each process and each cluster that the "
            "subscription moves to",
        ),
        Column("arrival", _NUMBER, "number of the delivery in its consumer's process, from 0 on, in order of arrival"),
        Column("received_at", _TIME, "when the consumer got the message from its client"),
        *_list_found_message("that was delivered"),
        *_list_position("that the message was delivered from", "if the system gave no position"),
        Column("redelivery_count", _COUNT, "how often the system says that it had delivered the message before"),
        _PUBLISHED,
        _REPLICATED_FROM,
        Column(
            "acknowledged_at",
            _TIME,
            "when the cluster was first seen to have the consumer's ack, which is later than the ack itself; null if "
            "no answer confirmed it within 20 s of the delivery",
        ),
    ],
    "stored": [
        *_list_place("the cluster whose log stores the message"),
        *_list_found_message("that is stored"),
        *_list_position("that stores the message", "if the system gave no position"),
        _PUBLISHED,
        _REPLICATED_FROM,
    ],
    "outputs": [
        *_list_place("the cluster that delivered the message"),
        Column("subscription", _TEXT, "the subscription"),
        Column("consumer", _TEXT, "name of the consumer that wrote the output"),
        Column("incarnation", _COUNT, "number of the consumer's connection, as in `deliveries`"),
        *_list_found_message("that was processed"),
        *_list_position("that the message was delivered from", "if the system gave no position"),
        Column("object", _TEXT, "name of the object in the subscription's sink that holds the output"),
        Column("written_at", _TIME, "when the consumer began to write the object"),
    ],
    "faults": [
        _RUN,
        Column("fault", _TEXT, "name of the fault in the scenario"),
        Column("kind", _TEXT, "kind of the fault, see faults.md"),
        Column("targets", _TEXTS, "the nodes or links that it acted on"),
        Column(
            "state",
            _TEXT,
            "`injecting` when the injection began, `effective` when the effect was proven, `healing` when the undo "
            "began, `recovered` when the undo was proven",
        ),
        Column("at", _TIME, "when the fault reached the state"),
        Column("evidence", _TEXT, "what the state rests on, such as an answer of the cluster; may be empty"),
    ],
    "observations": [
        _RUN,
        Column("at", _TIME, "when the value was observed, or when the recorded event happened"),
        Column(
            "source",
            _TEXT,
            "what was sampled: `KIND:NAME` with the kinds "
            + ", ".join(f"`{kind}`" for kind in Source)
            + "; a topic of a run with several clusters is `topic:NAME@CLUSTER`",
        ),
        Column(
            "metric",
            _TEXT,
            "what was sampled of it, alone or as `METRIC:SUBJECT`: " + ", ".join(f"`{name}`" for name in SampledMetric),
        ),
        Column(
            "value",
            _TEXT,
            "a number, a name, a JSON list of names, or an error's text; a metric that ends in `_s` is in seconds, and "
            "one in `_ms` in milliseconds; null if no node answered and the value before is out of date",
        ),
    ],
    "copies": [
        *_list_place("the cluster whose log it is"),
        Column("at", _TIME, "when the cluster was asked"),
        Column(
            "moment",
            _TEXT,
            "`before FAULT` before the injection of a fault, `end` at the end of the timeline of faults",
        ),
        Column("segment", _NUMBER, "segment of the log"),
        Column("first_offset", _NUMBER, "offset in the segment at which these copies begin"),
        Column("state", _TEXT, "the system's own word for the segment's state, such as open or closed for writing"),
        Column("holders", _TEXTS, "the nodes that must hold a copy"),
        Column("regions", _TEXTS, "the regions of the holders whose copy is complete"),
        Column(
            "regions_required",
            _TEXTS,
            "the regions that the segment has to span: each had a node that could take a copy at that moment",
        ),
    ],
    "messages": [
        *_list_place(
            "the cluster of the log or subscription",
            f"{_PARTITION}; of an unacked message the one in which it was seen, null if it was seen in none",
        ),
        Column("subscription", _TEXT, "the subscription; null for the cluster's log"),
        Column("home", _TEXT, "the cluster that the message was published to; null if it was never published"),
        _PRODUCER,
        _SEQ,
        Column("key", _TEXT, "the key that was published; null if the message was never published"),
        Column(
            "outcome",
            _TEXT,
            "`acked` if any attempt was acked, `not_sent` if there was no attempt, `failed` if all attempts failed, "
            "else `unknown`; null if the message was never published",
        ),
        Column("attempts", _COUNT, "number of attempts to publish"),
        _SCHEDULED,
        Column(
            "sent_at", _TIME, "when the last acked attempt was sent, or the first attempt if no ack came; null if none"
        ),
        Column(
            "settled_at",
            _TIME,
            "when the first ack came, or the last outcome if no ack came; null if the client reported none",
        ),
        Column(
            "copies",
            _COUNT,
            "number of different positions that store the message in a log, or that delivered it to a subscription",
        ),
        Column("deliveries", _COUNT, "number of deliveries to the subscription; 0 for a log"),
        Column(
            "first_received_at",
            _TIME,
            "when a consumer of the subscription first got the message; null for a log, or if none got it",
        ),
        *_list_position("of the first copy or of the first delivery", "if there is none or its position is not known"),
        Column("recovered", pa.bool_(), "whether the outcome is unknown and this log stores the message"),
        Column("anomalies", _TEXTS, "names of the anomalies found here, see anomalies.md"),
        Column("illegal", _TEXTS, "names of those that are illegal"),
    ],
    "anomalies": [
        _RUN,
        Column("anomaly", _TEXT, "name of the anomaly, see anomalies.md"),
        Column("legal", pa.bool_(), "whether the guarantee and the scenario allow it here"),
        Column("cluster", _TEXT, "the cluster of the log or subscription"),
        _TOPIC,
        Column("partition", _COUNT, f"{_PARTITION}; null if it is not known"),
        Column("subscription", _TEXT, "the subscription; null for the cluster's log"),
        _PRODUCER._replace(meaning=f"{_PRODUCER.meaning}; null if the message names none"),
        _SEQ._replace(meaning=f"{_SEQ.meaning}; null if the message names none"),
        Column("key", _TEXT, "the key that was published; null if the message was never published"),
        Column("cause", _TEXT, "short name of the cause; null if nothing tells causes apart"),
        Column("detail", _TEXT, "a sentence's rest with the positions, times and numbers of this case"),
    ],
    "measurements": [
        Column(name, _find_type(field.annotation), field.description or "")
        for name, field in Measurement.model_fields.items()
    ],
}

SCHEMAS: Mapping[str, pa.Schema] = {
    table: pa.schema([(column.name, column.type) for column in columns]) for table, columns in COLUMNS.items()
}


def make_batch(table: str, rows: Sequence[Mapping[str, Any]], constant: Mapping[str, Any]) -> pa.RecordBatch:
    """Return rows of a table as an Arrow batch. `constant` has the values of columns that are equal in all rows."""
    names = [name for name in SCHEMAS[table].names if name not in constant]
    return join_columns(table, {name: [row[name] for row in rows] for name in names}, constant)


def join_columns(table: str, columns: Mapping[str, Any], constant: Mapping[str, Any]) -> pa.RecordBatch:
    """Return columns of a table as an Arrow batch. A column is a sequence, a numpy array or an Arrow array.

    `constant` has the values of columns that are equal in all rows. At least one column must not be constant.
    """
    count = len(next(iter(columns.values())))
    arrays = [
        pa.repeat(pa.scalar(constant[field.name], field.type), count)
        if field.name in constant
        else pa.array(columns[field.name], field.type)
        for field in SCHEMAS[table]
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMAS[table])


def choose_encodings(schema: pa.Schema) -> dict[str, Any]:
    """Return options of a Parquet writer with which rows of this schema are small, and quickly written and read.

    Differences of numbers are small. Dictionaries of numbers and statistics would cost more time than they save. A
    stored Arrow schema would make a text a dictionary in one file of a table, and not in another.
    """
    texts = [each.name for each in schema if pa.types.is_string(each.type) or pa.types.is_dictionary(each.type)]
    numbers = [each.name for each in schema if pa.types.is_integer(each.type) or pa.types.is_timestamp(each.type)]
    return {
        "use_dictionary": texts,
        # Hashes have no small differences.
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in numbers if name != "payload_hash"},
        "write_statistics": False,
        "store_schema": False,
    }
