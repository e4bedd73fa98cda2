"""A data source of Spark that reads a topic's logs by position, and a sink of Spark that writes outputs.

Both run in Python processes of Spark, which tell the streaming client (streaming_client.py) what they do and wait for
its answer. If the client is gone, they fail, so no batch is committed that the client does not know of.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from multiprocessing.connection import Client
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from brokerproof.clients.closing import close_clients
from brokerproof.clients.sink import MESSAGE_COLUMNS, Sink
from brokerproof.errors import AdminError, RunError
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS, join_columns
from brokerproof.run.time_axis import follow_time_axis
from brokerproof.systems.clients import Clients, Position
from brokerproof.systems.protocols import Observation
from brokerproof.systems.registry import make_clients, make_observation
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType
from streaming_checkpoint import dump_offset, load_offset

# The rows of a batch: the columns that say which message it is.
ROWS = pa.schema([SCHEMAS["outputs"].field(name).with_nullable(True) for name in MESSAGE_COLUMNS])
# A reader waits for the next message for this many seconds before it asks whether the slice ends here.
_WAIT_S = 0.1
# A task fails if its reader gets no message for this many seconds before the end of its slice.
_STALLED_S = 20.0


class Notice(StrEnum):
    """What Spark's processes tell the client."""

    # The query has committed a batch, or the logs are empty. Nothing follows.
    CONNECTED = "connected"
    # A task has read messages, which follow as rows of `stored`.
    DELIVERED = "delivered"
    # A task is about to write the number of outputs that follows.
    WRITES = "writes"
    # The sink has all outputs of the batch whose number follows, and the batch is not committed.
    WRITTEN = "written"


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """What Spark's processes know of their client."""

    run: str
    cluster: str
    region: str | None
    subscription: str
    # The values of the columns that are equal in all rows of the client.
    constant: Mapping[str, Any]
    # The client's socket, and the secret that each connection has to know.
    address: str
    secret: str

    def dump(self) -> dict[str, str]:
        """Return the options of a data source."""
        # Spark hides an option with this name when it shows a query.
        return {"secret": json.dumps(vars(self))}

    @classmethod
    def load(cls, options: Mapping[str, str]) -> StreamOptions:
        """Return what `dump` wrote."""
        return cls(**json.loads(options["secret"]))

    def open_run(self) -> Run:
        follow_time_axis(run := Run(self.run))
        return run

    def tell(self, notice: Notice, content: Any = None) -> None:
        """Tell the client something, and wait until it has noted it. Raises EOFError or OSError if it is gone."""
        with Client(self.address, authkey=bytes.fromhex(self.secret)) as connection:
            connection.send((notice, content))
            connection.recv()


@dataclass(frozen=True)
class LogSlice(InputPartition):
    """A part of a partition's log: from `start`, or from its beginning, to before `end`."""

    partition: int
    start: Position | None
    end: Position


class TopicSource(DataSource):
    """The topic as a source of a streaming query, and the subscription's sink as its sink."""

    @classmethod
    def name(cls) -> str:
        return "brokerproof"

    def schema(self) -> StructType:
        return from_arrow_schema(ROWS)

    def streamReader(self, schema: StructType) -> TopicReader:  # noqa: N802
        return TopicReader(StreamOptions.load(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> SinkWriter:  # noqa: N802
        return SinkWriter(StreamOptions.load(self.options))


class TopicReader(DataSourceStreamReader):
    """Reads a topic's logs. A batch ends where the logs ended when it began, so a repeated batch has the same rows."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options

    @cached_property
    def _observation(self) -> Observation:
        # Opening a run reads its scenario and topology, so it is done once and not in each batch.
        return make_observation(self._options.open_run())

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the ends of the logs. A log that cannot be asked, or that became shorter, keeps its last end."""
        ends = load_offset(start)
        with suppress(AdminError):
            for log in self._observation.find_logs(self._options.cluster):
                if log.end is not None:
                    ends[log.partition] = max(ends.get(log.partition, log.end), log.end)
        # Before its first batch is committed, a query is slow, and it has no position that a fault could meet.
        if start or not ends:
            self._options.tell(Notice.CONNECTED)
        return dump_offset(ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[LogSlice]:
        starts = load_offset(start)
        slices = [LogSlice(partition, starts.get(partition), to) for partition, to in load_offset(end).items()]
        return [each for each in slices if each.start is None or not each.start.reaches(each.end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a slice, and have the client record it as delivered. Raises RunError if its end is not reached."""
        assert isinstance(partition, LogSlice)
        run = self._options.open_run()
        clients = make_clients(run, self._options.cluster, self._options.region)
        try:
            messages = _read_messages(clients, partition)
            if not messages:
                return
            constant = {**self._options.constant, "partition": partition.partition}
            rows = _cut(join_columns("stored", clients.describe(messages), constant), partition.end)
        finally:
            close_clients(client=clients)
        if rows.num_rows:
            self._options.tell(Notice.DELIVERED, rows)
            yield rows.select(MESSAGE_COLUMNS).cast(ROWS)


def _read_messages(clients: Clients, part: LogSlice) -> list[Any]:
    """Return the messages of a slice, and perhaps one behind it."""
    reader, messages = clients.reader(part.partition, part.start), list[Any]()
    progressed = time.monotonic()
    try:
        while True:
            message, following = reader.read(_WAIT_S), reader.next_position()
            if message is not None:
                messages.append(message)
                progressed = time.monotonic()
            # The last entry may hold more messages, until a message behind it comes or none does.
            if following is not None and (
                following[:2] > part.end[:2] or (message is None and following.reaches(part.end))
            ):
                return messages
            if time.monotonic() - progressed > _STALLED_S:
                raise RunError(f"no message for {_STALLED_S:.0f} s at {following}, before the end of {part}")
    finally:
        close_clients(reader=reader)


def _cut(rows: pa.RecordBatch, end: Position) -> pa.RecordBatch:
    """Return the rows before `end`."""
    segments, offsets = rows.column("segment"), rows.column("offset")
    same = pc.and_(pc.equal(segments, end.segment), pc.less(offsets, end.offset))
    return rows.filter(pc.or_(pc.less(segments, end.segment), same))


class SinkWriter(DataSourceStreamArrowWriter):
    """Writes outputs in Spark's tasks, each time under new names. Spark commits the batch after `commit`."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        rows = pa.Table.from_batches(iterator, ROWS)
        if rows.num_rows:
            options = self._options
            options.tell(Notice.WRITES, rows.num_rows)
            sink = Sink(run=options.open_run(), cluster=options.cluster, subscription=options.subscription)
            write_rows(sink, uuid4().hex, rows, options.constant)
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._options.tell(Notice.WRITTEN, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leave the objects that were written, as a sink without transactions does."""


def write_rows(sink: Sink, name: str, rows: pa.Table, constant: Mapping[str, Any]) -> None:
    """Write an object with the outputs of a batch's rows."""
    columns = {each: rows.column(each).combine_chunks() for each in MESSAGE_COLUMNS}
    sink.write_outputs(name, columns, constant)
