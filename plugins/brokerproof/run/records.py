"""What the steps of a run leave for each other: one model a kind, one file a record, below `state/`.

A record is written whole and read typed. Whoever reads it gets the model, nothing where no step left it, or a RunError
that names the file and the field. A record says with which version of its model it was written. One without a version
is of a run that was recorded before there were versions, and `upgrade` brings it into today's shape.

Spark tasks may run on other machines. What one of them proves is a record too, because only the run's directory is
shared. What a person watches while a run goes on is not here but in live_status.py, and proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

import fsspec
from pydantic import Field

from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.strict_model import StrictModel, load_object, parse_strictly
from brokerproof.run.tables import AttemptOutcome

# Microseconds since the epoch.
Moment = int


class Record(StrictModel):
    """Base of every kind of record."""

    # The name of the file; of a kind with several records, `KIND-KEY`, where the key is the value of one field.
    KIND: ClassVar[str]
    KEY: ClassVar[str | None] = None
    VERSION: ClassVar[int] = 1

    @classmethod
    def upgrade(cls, content: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        """The content of a record without a version, in today's shape. Fields that exist today stay as they are."""
        return _only_known(cls, {cls.KEY: key, **content} if cls.KEY else content)


RecordModel = TypeVar("RecordModel", bound=Record)


def write_record(run: Run, record: Record) -> None:
    """Leave a record, in the place of an earlier one. A reader never sees half of it.

    Raises MachineError where it cannot be written.
    """
    content = {"version": record.VERSION, **record.model_dump(mode="json", by_alias=True)}
    key = None if record.KEY is None else str(getattr(record, record.KEY))
    run.write_text("/".join(_path(type(record), key)), json.dumps(content, indent=1))


def read_record(run: Run, kind: type[RecordModel], key: str | int | None = None) -> RecordModel | None:
    """The record of a kind, None where no step left it. Raises RunError where it breaks its model."""
    path = _path(kind, key)
    try:
        text = run.read_text(*path)
    except FileNotFoundError:
        return None
    file = run.path(*path)
    return parse_record(kind, load_object(text, file=file), file=file, key=None if key is None else str(key))


def parse_record(
    kind: type[RecordModel], content: Mapping[str, Any], *, file: str, key: str | None = None
) -> RecordModel:
    """`content`, as JSON has it, as a record. Raises RunError that names `file` and the field."""
    version = content.get("version")
    if version is None:
        return parse_strictly(kind, kind.upgrade(content, key), file=file)
    if version != kind.VERSION:
        raise RunError(
            f"{file} has version {version!r} of its model, and this Brokerproof reads version {kind.VERSION}; "
            "use the Brokerproof that wrote it"
        )
    return parse_strictly(kind, {name: value for name, value in content.items() if name != "version"}, file=file)


def record_keys(run: Run, kind: type[Record]) -> list[str]:
    """The keys under which records of a kind are there, in the order of the alphabet."""
    filesystem, root = fsspec.url_to_fs(run.path("state"))
    if not filesystem.exists(root):
        return []
    # Listed, not globbed: a run's id may hold characters that mean something in a pattern.
    names = (path.rsplit("/", 1)[-1] for path in filesystem.ls(root, detail=False))
    prefix, suffix = f"{kind.KIND}-", ".json"
    return sorted(
        name[len(prefix) : -len(suffix)] for name in names if name.startswith(prefix) and name.endswith(suffix)
    )


def remove_record(run: Run, kind: type[Record], key: str | int | None = None) -> None:
    """Remove a record if it is there."""
    filesystem, root = fsspec.url_to_fs(run.path(*_path(kind, key)))
    with suppress(FileNotFoundError):
        filesystem.rm_file(root)


def _path(kind: type[Record], key: str | int | None) -> tuple[str, str]:
    if (key is None) is not (kind.KEY is None):
        raise TypeError(f"{kind.__name__} {'has no key' if kind.KEY is None else f'needs its {kind.KEY}'}")
    return "state", f"{kind.KIND}.json" if key is None else f"{kind.KIND}-{key}.json"


def _only_known(model: type[StrictModel], content: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.alias or name for name, field in model.model_fields.items()}
    return {name: value for name, value in content.items() if name in known}


# The life of a run


class StepSeconds(Record):
    """When a step started and when it ended, however it ended."""

    KIND, KEY = "seconds", "step"

    step: str
    started_at: Moment
    finished_at: Moment


class StepProblem(Record):
    """Why a step could not do its work."""

    KIND, KEY = "problem", "step"

    step: str
    problem: str


class ClustersConfigured(Record):
    """The clusters are as the topology wants them. From here on they are sampled, and worth learning from."""

    KIND = "configured"

    at: Moment
    # Nodes that had to start again for it.
    restarted: tuple[str, ...]


class RunReleased(Record):
    """The run is over; the monitor ends itself."""

    KIND = "released"

    at: Moment


class ObservationsRequested(Record):
    """A step reads the table `observations` next and waits for the samples up to this moment."""

    KIND = "observe_until"

    at: Moment


class ObservationsWritten(Record):
    """The samples up to the moment of the request are in the table."""

    KIND = "observed"

    at: Moment


class NotificationAttempt(Record):
    """What became of telling one notifier of the run's result; who was told is not told again."""

    KIND, KEY = "notification", "rule"

    # Its place in the list of the settings.
    rule: int
    # Its class.
    notifier: str
    sent: bool
    # The kind of the error. Its text may hold a secret, so only the log of the task has it.
    problem: str | None
    at: Moment


class WallClockStep(StrictModel):
    """A step of a wall clock: between two notes, it moved against the run's time axis."""

    # On the run's axis: the note that found it.
    at: Moment
    # Microseconds; negative if the clock was set back.
    size_us: int


class WallClockNote(Record):
    """The wall clock of a process beside the run's time axis, noted once a second, with its steps until then."""

    KIND, KEY = "wall_clock", "process"

    # A client by its name in the run's directory, or the monitor.
    process: str
    # The boot whose CLOCK_MONOTONIC the process reads.
    boot_id: str
    at: Moment
    # Microseconds that the wall clock was ahead of the axis.
    lead_us: int
    steps: tuple[WallClockStep, ...]


class SealedFile(StrictModel):
    """One Parquet file of a table; its name is below the table's directory."""

    name: str
    rows: int
    # Bytes.
    size: int
    # XXH3 of 128 bits over its bytes.
    checksum: str


class TableSeal(Record):
    """The files of a table when the job that wrote it had ended."""

    KIND, KEY = "seal", "table"

    table: str
    files: tuple[SealedFile, ...]
    at: Moment


class TablesDeletion(Record):
    """The tables with a row for every message are being deleted, or were. It is written before the first one goes."""

    KIND = "tables_deletion"

    # Completes "its tables were deleted on DAY, …".
    why: str
    at: Moment


class RunDeletion(Record):
    """The whole directory is being deleted. It is written before the first file goes, and goes last."""

    KIND = "run_deletion"

    run_id: str
    # Completes "its directory was deleted on DAY, …".
    why: str
    at: Moment


# The timeline


class TimelineProcess(Record):
    """The process that does the timeline. Where it is gone and left no `FaultsUndone`, it was killed."""

    KIND = "timeline_process"

    pid: int
    # Seconds since the machine's boot: a pid is given again.
    created: float
    # The machine: nobody else can look whether the process lives.
    host: str


class PhaseTimes(Record):
    """When each phase begins and the load ends. There is none while the load is not steady."""

    KIND = "timeline"

    steady_at: Moment
    impact_at: Moment
    recovery_at: Moment
    ends_at: Moment


class FaultEffective(Record):
    """A fault took effect. Clients that the scenario lets react to it wait for this."""

    KIND, KEY = "effective", "fault"

    fault: str
    at: Moment


class FaultTargets(Record):
    """A fault was done to targets that were known only from an earlier answer, because none came when it was due."""

    KIND, KEY = "targets", "fault"

    fault: str
    targets: tuple[str, ...]
    # The moment of the earlier answer.
    known_at: Moment
    # Why there was none when the fault was due.
    why: str
    at: Moment

    @property
    def age_s(self) -> float:
        """The seconds from the answer to the injection."""
        return (self.at - self.known_at) / 1e6


class EarlyEnd(Record):
    """The timeline broke. Load and consumers end at once and keep what they recorded."""

    KIND = "early_end"

    why: str
    at: Moment


class FaultsUndone(Record):
    """The timeline has ended: whether every fault that is not permanent was undone, and what went wrong."""

    KIND = "break_it"

    undone: bool
    problems: tuple[str, ...]
    # Whether nobody outside the run ended a node, as far as the runtime can tell; older runs were not asked.
    undisturbed: bool = True
    at: Moment


# The load


class ProducerEnd(Record):
    """The end of one producer. Each message that it scheduled is acked, failed, unknown or not sent.

    The numbers are the producer's own. They are None if it was killed, so that its task left its end.
    """

    KIND, KEY = "load", "task"

    task: int
    producer: str
    scheduled: int | None
    acked: int | None
    failed: int | None
    unknown: int | None
    # Messages that a full `max_pending` held back until the end, the producer's process, and how many segments of its
    # record it wrote. They are None in runs that were recorded without them.
    not_sent: int | None = None
    epoch: int | None = None
    segments: int | None = None
    # None where it did all that the schedule asked for.
    problem: str | None
    at: Moment

    @property
    def counts(self) -> dict[str, int] | None:
        """Its own numbers of rows by outcome, None if it left none."""
        counts = {str(outcome): getattr(self, outcome) for outcome in AttemptOutcome}
        return None if None in counts.values() else counts


class LoadEnd(Record):
    """The end of the load: whether every producer went through its whole schedule, and why not."""

    KIND = "load"

    finished: bool
    why: str
    scheduled: int
    producers: tuple[ProducerEnd, ...]
    at: Moment

    @classmethod
    def upgrade(cls, content: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        """In such runs producers had no number, and two fields said whether they finished."""
        content = super().upgrade(content, key)
        return content | {"producers": _numbered(ProducerEnd, content.get("producers"))}


# Consuming


class ConsumerEnd(Record):
    """The end of one consumer.

    The numbers are the consumer's own. They are None if it was killed, so that its task left its end.
    """

    KIND, KEY = "consume", "task"

    task: int
    consumer: str
    # None, too, if it was told to end and a call of its system's client did not return, so that it still counted.
    delivered: int | None
    # Its process, and how many segments of its record it wrote; None in runs that were recorded without them.
    epoch: int | None = None
    segments: int | None = None
    problem: str | None
    at: Moment

    @property
    def counts(self) -> dict[str, int] | None:
        """Its own number of rows, None if it left none."""
        return None if self.delivered is None else {"delivered": self.delivered}


class ConsumersStop(Record):
    """The consumers may end: everything is drained, or has had its time."""

    KIND = "consume_stop"

    at: Moment


# The position behind an entry: its segment, and the offset after its own.
Behind = tuple[int, int]


class SubscriptionDrain(StrictModel):
    """Whether a subscription has got everything of a partition, and what says so; partition -1 is the whole topic."""

    cluster: str
    topic: str
    partition: int
    subscription: str
    drained: bool
    backlog: int | None = Field(None, description="messages not acknowledged; null where nobody could be asked")
    end: Behind | None = Field(None, description="the end of the log up to which this is known; null if it is of all")
    why: str = Field(description="what says so")


class SubscriptionDrains(Record):
    """What the clusters said about every subscription when consuming ended."""

    KIND = "consume"

    subscriptions: tuple[SubscriptionDrain, ...]
    at: Moment


# The records of clients


class EpochRead(StrictModel):
    """What was read of a client's record of one epoch, which is one process."""

    epoch: int
    segments: int
    # Rows of the client's table that were made of it, those of attempts without an outcome among them.
    rows: int
    # The numbers of segments that are not there although later ones are.
    missing: tuple[int, ...]


class ClientRecordRead(Record):
    """What the client's table was made of. The records themselves are removed when the table is sealed."""

    KIND, KEY = "client_record", "client"

    client: str
    epochs: tuple[EpochRead, ...]
    at: Moment


# Reading back


class ReplicationDrain(StrictModel):
    """Whether everything that is in the log of `sender` is in that of `receiver`, and what says so."""

    topic: str
    sender: str = Field(alias="from")
    receiver: str = Field(alias="to")
    drained: bool
    backlog: int | None = Field(None, description="messages to send; null where nobody could be asked")
    ends: dict[int, Behind] = Field(
        default_factory=dict, description="by partition, the end of the sender's log up to which this is known"
    )
    why: str = Field(description="what says so")


class ReplicationDrains(Record):
    """What the clusters said about replication before their logs were read."""

    KIND = "replication"

    drains: tuple[ReplicationDrain, ...]
    at: Moment


class UnreadablePart(StrictModel):
    """A part of a log that no reader can read although every node that should run is healthy; `end` is behind it."""

    start: Behind
    end: Behind


class LogRead(Record):
    """Whether a fresh reader read a partition's log to its end; partition -1 is the whole topic."""

    KIND, KEY = "read_back", "task"

    task: int
    cluster: str
    topic: str
    partition: int
    # The position behind its last message, in words; None for an empty log.
    end: str | None
    read_to_end: bool
    why: str
    # Read from it, None where nobody tried.
    messages: int | None
    # The position before which the reader read everything but the unreadable parts; None before it read anything.
    passed: Behind | None = None
    unreadable: tuple[UnreadablePart, ...] = ()


class LogsRead(Record):
    """What became of every log that had to be read back."""

    KIND = "read_back"

    started_at: Moment
    finished_at: Moment
    logs: tuple[LogRead, ...]

    @classmethod
    def upgrade(cls, content: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        """In such runs logs had no number, and their end was the position of the last message."""
        content = super().upgrade(content, key)
        logs = content.get("logs")
        if isinstance(logs, list):
            logs = [{**log, "end": log.get("last_confirmed")} if isinstance(log, Mapping) else log for log in logs]
        return content | {"logs": _numbered(LogRead, logs)}


def _numbered(model: type[StrictModel], rows: Any) -> Any:
    """Rows of a record without a version, each with the number of the task that left it."""
    if not isinstance(rows, list):
        return rows
    return [
        _only_known(model, {"task": task, **row}) if isinstance(row, Mapping) else row for task, row in enumerate(rows)
    ]
