"""The sinks of subscriptions, into which consumers write what they make of messages.

A sink is a directory `sinks/<subscription>@<cluster>/` of the run's directory, and an object is a file in it. An object
is written whole, and replaces an object of the same name. So an output that has its message's name is there once, no
matter how often the message was processed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fsspec
import pyarrow as pa

from brokerproof import clock
from brokerproof.bounded_reading import MOST_SEGMENT_BYTES, read_bytes, read_segment
from brokerproof.errors import RunError, shorten
from brokerproof.experiment.fault import ClientMoment
from brokerproof.experiment.workload import Commit
from brokerproof.machine.files import stage_object
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS, Batches, join_columns
from brokerproof.systems.clients import Consumer

_SINKS, _OBJECT = "sinks", ".arrow"
_ROWS_TOGETHER = 10_000


@dataclass(frozen=True, kw_only=True)
class Sink:
    """The sink of one subscription on one cluster."""

    run: Run
    cluster: str
    subscription: str

    @property
    def _place(self) -> tuple[str, str]:
        return _SINKS, f"{self.subscription}@{self.cluster}"

    def put(self, name: str, rows: pa.RecordBatch) -> None:
        """Write an object with rows of `outputs`, or replace it. Raises MachineError if it cannot be written."""
        path = self.run.path(*self._place, f"{name}{_OBJECT}")
        with stage_object(path, "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_batch(rows)

    def write_outputs(self, name: str, columns: Mapping[str, Any], constant: Mapping[str, Any]) -> None:
        """Write an object with the outputs of messages with these columns, or replace it. Raises MachineError.

        `constant` has the values of the other columns, which are equal in all outputs.
        """
        self.put(name, join_columns("outputs", columns, {**constant, "object": name, **_now()}))

    def read(self, share: int = 0, shares: int = 1) -> Batches:
        """Yield the rows of a share of the objects, each object once. Raises RunError if an object is damaged."""
        # An object may hold one row, and a table is no place for batches of one row.
        batches: list[pa.RecordBatch] = []
        count = 0
        for name in sorted(self.run.list_names(*self._place)):
            if name.endswith(_OBJECT) and zlib.crc32(name.encode()) % shares == share:
                batches.append(self._read_object(self.run.path(*self._place, name)))
                count += batches[-1].num_rows
                if count >= _ROWS_TOGETHER:
                    yield pa.concat_batches(batches)
                    batches, count = [], 0
        if batches:
            yield pa.concat_batches(batches)

    def _read_object(self, path: str) -> pa.RecordBatch:
        try:
            return read_segment(read_bytes(path, MOST_SEGMENT_BYTES), [SCHEMAS["outputs"]])[0]
        except (OSError, ValueError) as error:
            raise RunError(f"{path} is damaged: {shorten(str(error) or repr(error), 200)}") from None


def remove_sinks(run: Run) -> None:
    """Remove the sinks. Their rows must already be in the sealed table `outputs`."""
    filesystem, directory = fsspec.url_to_fs(run.path(_SINKS))
    if filesystem.exists(directory):
        filesystem.rm(directory, recursive=True)


@dataclass(kw_only=True)
class Processing:
    """Writes outputs of messages into a sink, and acknowledges the messages in the order that `commit` demands."""

    commit: Commit
    sink: Sink
    # A name that no other process of a consumer has. The objects of this process have it and a number.
    name: str
    # The values of the columns that are equal in all outputs.
    constant: Mapping[str, Any]
    # Returns the columns of messages, as `Clients.describe` does.
    describe: Callable[[Sequence[Any]], Mapping[str, Any]]
    # Waits until the cluster confirms the consumer's acks of messages with these columns. Returns the rest of their
    # batches, which it has acknowledged too; None if the acks are not confirmed.
    confirm: Callable[[Consumer, Mapping[str, Any]], Sequence[Any] | None]
    # Is called at each moment for which a fault may wait, with what the consumer holds.
    reach: Callable[[ClientMoment, str], None]
    written: int = 0
    _objects: int = 0

    def process(self, consumer: Consumer, messages: Sequence[Any]) -> None:
        """Process messages that were received together. Raises MachineError if an output cannot be written.

        With `Commit.BEFORE`, messages whose acks are not confirmed are left out. If the acks were lost, the messages
        come again. To process them now would risk a second output.
        """
        columns = self._describe(messages)
        held = f"{len(messages):,} messages"
        self.reach(ClientMoment.HOLDS_UNACKNOWLEDGED, f"{held} that it has neither acknowledged nor processed")
        if self.commit is Commit.BEFORE:
            _acknowledge(consumer, messages)
            rest = self.confirm(consumer, columns)
            if rest is not None:
                self.reach(ClientMoment.IN_BATCH, f"{held} that it has acknowledged and not processed")
                self._write(self._describe([*messages, *rest]) if rest else columns)
        else:
            self._write(columns)
            self.reach(ClientMoment.IN_BATCH, f"{held} that it has processed and not acknowledged")
            _acknowledge(consumer, messages)

    def _describe(self, messages: Sequence[Any]) -> Mapping[str, Any]:
        described = self.describe(messages)
        return {name: described[name] for name in MESSAGE_COLUMNS}

    def _write(self, columns: Mapping[str, Any]) -> None:
        count = len(columns["seq"])
        if self.commit is Commit.BY_KEY:
            names = [_name_message(*place) for place in list_places(columns)]
            rows = join_columns("outputs", {**columns, "object": names}, {**self.constant, **_now()})
            for at, name in enumerate(names):
                self.sink.put(name, rows.slice(at, 1))
        else:
            self.sink.write_outputs(f"{self.name}-{self._objects}", columns, self.constant)
            self._objects += 1
        self.written += count


def _now() -> dict[str, Any]:
    return {"written_at": clock.to_utc(clock.now_us())}


# The columns of `outputs` that say which message it is.
MESSAGE_COLUMNS = ("producer", "seq", "key", "payload_hash", "partition", "segment", "offset", "batch_index")


def _acknowledge(consumer: Consumer, messages: Sequence[Any]) -> None:
    for message in messages:
        consumer.acknowledge(message)


_NAMING = ("producer", "seq", "partition", "segment", "offset", "batch_index")


def list_places(columns: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of `_NAMING` of each message, from columns as those of `Clients.describe`."""
    values = (columns[name] for name in _NAMING)
    yield from zip(*(each.to_pylist() if isinstance(each, pa.Array) else each for each in values), strict=True)


def _name_message(producer: Any, seq: Any, *position: Any) -> str:
    """Return a name that only this message has: of its identity, or of its position if it has none."""
    return "-".join(map(str, position if seq is None else (producer, seq)))
