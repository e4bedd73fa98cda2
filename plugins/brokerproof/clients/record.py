"""The record of one client: a producer's attempts with their results, or a consumer's deliveries with their acks.

A record is a series of files below `clients/<client>/` of the run's directory. Each file is written whole, within a
second of the events in it. So a client that is killed loses no finished file.

    <epoch>-<number>.arrow    a segment: rows of `publishes` or `deliveries`, and the cluster's new answers about acks
    <epoch>-reserved.json     the sequence numbers that the producer may send; replaced before a higher number is sent

The epoch is the number of the client's process, from 0. It grows when Spark starts the client's task again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from brokerproof import clock
from brokerproof.bounded_reading import MOST_SEGMENT_BYTES, load_json, read_bytes, read_segment
from brokerproof.clients.deliveries import ConfirmedAcks
from brokerproof.errors import RunError, shorten
from brokerproof.machine.files import stage_object
from brokerproof.run.directory import Run
from brokerproof.run.records import ClientRecordRead, ConsumerEnd, EpochRead, ProducerEnd, read_record, write_record
from brokerproof.run.strict_model import StrictModel, load_object, parse_strictly
from brokerproof.run.tables import SCHEMAS, AttemptOutcome, Batches

End = TypeVar("End", ProducerEnd, ConsumerEnd)

# A client's record is at most this many seconds old. Writing one of its files takes less than a millisecond.
KEEP_EVERY_S = 0.5
# If a client with work to do does nothing for more than this many seconds, the client or its machine stood still.
STANDSTILL_S = 1.0
# The outcomes after which a message is not sent again.
_SETTLED = [AttemptOutcome.ACKED.value, AttemptOutcome.FAILED.value]
_ACKS = b"brokerproof.acks"
_SEGMENT = ".arrow"
# Each answer about acks is compared with each row. A segment has a few answers, and a row for each message of 0.5 s.
_MOST_COMPARISONS = 50_000_000


class Reservation(StrictModel):
    """The messages that a producer's process may send: the seqs from `first` on that are below `until`.

    Seq `first` is scheduled at `start_at`.
    """

    first: int = 0
    until: int
    # Whether the process raises `until` no more, because another process goes on behind it.
    is_last: bool = False
    # Unix time in seconds, before the year 3000, so that later seqs have a time too.
    start_at: float = Field(ge=0, lt=32_503_680_000)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One file of the record: rows of `publishes` or `deliveries`, and the cluster's answers about acks."""

    rows: pa.RecordBatch
    acks: Sequence[ConfirmedAcks]


class RecordWriter:
    """Writes the part of a client's record that comes from one process of the client."""

    def __init__(self, run: Run, client: str, *, table: str, epoch: int) -> None:
        self._run, self._client, self._epoch = run, client, epoch
        self._schema = SCHEMAS[table]
        # The number of segments written so far.
        self.segments = 0

    def append(self, rows: pa.RecordBatch, acks: Sequence[ConfirmedAcks] = ()) -> None:
        """Write a segment: rows, and new answers of the cluster about acks. Raises MachineError if that fails."""
        content = json.dumps([each.to_plain() for each in acks]).encode()
        schema = self._schema.with_metadata({_ACKS: content})
        path = self._run.path(*_locate_segment(self._client, self._epoch, self.segments))
        with stage_object(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            writer.write_batch(rows)
        self.segments += 1

    def reserve(self, reservation: Reservation) -> None:
        """Record which messages may be sent from now on. Raises MachineError if the file cannot be written."""
        self._run.write_text("/".join(_locate_reservation(self._client, self._epoch)), reservation.model_dump_json())


class RecordReader:
    """Reads the part of a client's record that one process writes. The process may still run or have ended."""

    def __init__(self, run: Run, client: str, *, epoch: int) -> None:
        self._run, self._client, self.epoch = run, client, epoch
        self._number = 0
        self._missing: list[int] = []
        self._rows = 0

    def read_new(self) -> Iterator[Segment]:
        """Yield the segments that are new since the last call. Raises RunError if a segment is damaged."""
        while (segment := self._read_segment()) is not None:
            self._number += 1
            yield segment

    def read_rest(self) -> Iterator[Segment]:
        """Yield the segments that are left after the writer has ended, including those after a missing segment.

        Raises RunError if a segment is damaged.
        """
        for number in _list_segments(self._run, self._client, self.epoch):
            if number >= self._number:
                self._missing += range(self._number, number)
                self._number = number
                yield from self.read_new()

    def count(self, batches: Batches) -> Batches:
        """Yield `batches`, which come from this reader's segments, and count their rows for `describe`."""
        for batch in batches:
            self._rows += batch.num_rows
            yield batch

    def describe(self) -> EpochRead:
        """Return how many segments and rows were read so far, and which segments are missing."""
        segments = self._number - len(self._missing)
        return EpochRead(epoch=self.epoch, segments=segments, rows=self._rows, missing=tuple(self._missing))

    def read_reservation(self) -> Reservation | None:
        """Return which messages the producer process reserved for sending; None if it reserved and sent none."""
        path = _locate_reservation(self._client, self.epoch)
        try:
            text = self._run.read_text(*path)
        except FileNotFoundError:
            return None
        file = self._run.path(*path)
        return parse_strictly(Reservation, load_object(text, file=file), file=file)

    def _read_segment(self) -> Segment | None:
        path = self._run.path(*_locate_segment(self._client, self.epoch, self._number))
        try:
            rows, metadata = read_segment(read_bytes(path, MOST_SEGMENT_BYTES), SCHEMAS.values())
            acks = [ConfirmedAcks.from_plain(each) for each in load_json(metadata[_ACKS].decode("utf-8"))]
            if len(acks) * rows.num_rows > _MOST_COMPARISONS:
                raise ValueError(f"it has {len(acks):,} answers about acks")
        except FileNotFoundError:
            return None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise RunError(f"{path} is damaged: {shorten(str(error) or repr(error), 200)}") from None
        return Segment(rows=rows, acks=acks)


def find_next_seq(run: Run, client: str, epoch: int) -> int:
    """Return the seq behind all messages that the producer's processes before `epoch` may have sent.

    Raises RunError if a reservation is damaged.
    """
    epochs = [each for each in list_epochs(run, client) if each < epoch]
    earlier = (RecordReader(run, client, epoch=each).read_reservation() for each in epochs)
    return max((each.until for each in earlier if each is not None), default=0)


def list_open_seqs(run: Run, client: str, epoch: int) -> list[int]:
    """Return the seqs that the producer's processes before `epoch` may have sent without an ack or a proven failure.

    They are in ascending order. Raises RunError if a record is damaged.
    """
    reserved: set[int] = set()
    settled: set[int] = set()
    for each in list_epochs(run, client):
        if each < epoch:
            reader = RecordReader(run, client, epoch=each)
            if (reservation := reader.read_reservation()) is not None:
                reserved.update(range(reservation.first, reservation.until))
            for segment in reader.read_rest():
                is_settled = pc.is_in(segment.rows.column("outcome"), pa.array(_SETTLED))
                settled.update(segment.rows.column("seq").filter(is_settled).to_pylist())
    return sorted(reserved - settled)


def list_epochs(run: Run, client: str) -> list[int]:
    """Return the numbers (epochs) of a client's processes that left files, in ascending order."""
    names = run.list_names("clients", client)
    return sorted({int(name.partition("-")[0]) for name in names if not name.startswith(".")})


def leave_read(run: Run, client: str, readers: Iterable[RecordReader]) -> None:
    """Record how much of a client's record was read. `readers` has one reader for each process of the client."""
    epochs = tuple(reader.describe() for reader in readers)
    write_record(run, ClientRecordRead(client=client, epochs=epochs, at=clock.now_us()))


def read_end(run: Run, kind: type[End], number: int, epoch: int) -> End | None:
    """Return the end that the client's process with the number `epoch` recorded; None if it recorded no end.

    All processes of a client record their end in one place, so a later process replaces the end of an earlier one. An
    end that the Spark task recorded for its client does not count.
    """
    end = read_record(run, kind, number)
    return end if end is not None and end.epoch == epoch else None


def list_clients(run: Run, job: str) -> list[str]:
    """Return the names of a job's clients that have a record, sorted."""
    return sorted(name for name in run.list_names("clients") if name.startswith(f"{job}-"))


def remove_records(run: Run, job: str) -> None:
    """Remove the records of a job's clients. Their rows must already be in a sealed table."""
    for client in list_clients(run, job):
        filesystem, directory = fsspec.url_to_fs(run.path("clients", client))
        filesystem.rm(directory, recursive=True)


def _list_segments(run: Run, client: str, epoch: int) -> list[int]:
    """Return the numbers of the segments (files of rows) that one process of a client wrote, in ascending order."""
    names = [name for name in run.list_names("clients", client) if name.endswith(_SEGMENT)]
    parts = (name.removesuffix(_SEGMENT).partition("-") for name in names)
    return sorted(int(number) for of_epoch, _, number in parts if of_epoch == str(epoch))


def _locate_segment(client: str, epoch: int, number: int) -> tuple[str, str, str]:
    return "clients", client, f"{epoch}-{number:06}{_SEGMENT}"


def _locate_reservation(client: str, epoch: int) -> tuple[str, str, str]:
    return "clients", client, f"{epoch}-reserved.json"
