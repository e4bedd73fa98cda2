"""Records: JSON files in a run's directory `state/`, by which processes of the run pass on results and proofs.

Each kind of record is a class. A file is named after the class, in snake case, and after the record's key if the kind
has one. The file's content includes the version of the class. No reader sees a half-written file.

Spark tasks may run on machines that share only the run's directory, so they leave records too. The live status
(live_status.py) is only for people to read, and no verdict rests on it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeVar

import fsspec
from pydantic import Field

from brokerproof import clock
from brokerproof.errors import RunError
from brokerproof.experiment.fault import ClientMoment
from brokerproof.run.directory import Run
from brokerproof.run.strict_model import StrictModel, load_object, parse_strictly
from brokerproof.run.tables import AttemptOutcome

# Microseconds since the epoch, within the years 1 to 9999, which are those of Python's datetime.
Moment = Annotated[int, Field(ge=clock.FIRST_US, le=clock.LAST_US)]


class Record(StrictModel):
    """Base of every kind of record."""

    # The field whose value completes the file's name, if there are several records of the kind.
    KEY: ClassVar[str | None] = None
    VERSION: ClassVar[int] = 1


RecordModel = TypeVar("RecordModel", bound=Record)


def name_file(kind: type[Record], key: str | int | None = None) -> str:
    """Return the name of a record's file: its class in snake case, and its key if the kind has one."""
    name = re.sub(r"\B(?=[A-Z])", "_", kind.__name__).lower()
    return f"{name}.json" if key is None else f"{name}-{key}.json"


def write_record(run: Run, record: Record) -> None:
    """Write a record, which replaces an earlier one of its kind and key. A reader never sees half a record.

    Raises MachineError if it cannot be written.
    """
    content = {"version": record.VERSION, **record.model_dump(mode="json", by_alias=True)}
    key = None if record.KEY is None else str(getattr(record, record.KEY))
    run.write_text("/".join(_path(type(record), key)), json.dumps(content, indent=1))


def read_record(run: Run, kind: type[RecordModel], key: str | int | None = None) -> RecordModel | None:
    """Return the record of this kind (and with this key, if the kind has keys); None if there is none.

    Raises RunError if the file is damaged or contains another version of the model.
    """
    path = _path(kind, key)
    try:
        text = run.read_text(*path)
    except FileNotFoundError:
        return None
    file = run.path(*path)
    return parse_record(kind, load_object(text, file=file), file=file)


def parse_record(kind: type[RecordModel], content: Mapping[str, Any], *, file: str) -> RecordModel:
    """Return the JSON object `content` as a record.

    Raises RunError, which names `file`, for another version of the model or for the first wrong field.
    """
    version = content.get("version")
    if version != kind.VERSION:
        raise RunError(
            f"{file} has version {version!r} of its model, and this Brokerproof reads version {kind.VERSION}; "
            "use the Brokerproof that wrote it"
        )
    return parse_strictly(kind, {name: value for name, value in content.items() if name != "version"}, file=file)


def record_keys(run: Run, kind: type[Record]) -> list[str]:
    """Return the keys of all records of a kind, sorted. Raises RunError if the directory `state` cannot be listed."""
    prefix, suffix = name_file(kind, "*").split("*")
    names = run.list_names("state")
    return sorted(
        name[len(prefix) : -len(suffix)] for name in names if name.startswith(prefix) and name.endswith(suffix)
    )


def remove_record(run: Run, kind: type[Record], key: str | int | None = None) -> None:
    """Remove a record if it exists."""
    filesystem, root = fsspec.url_to_fs(run.path(*_path(kind, key)))
    with suppress(FileNotFoundError):
        filesystem.rm_file(root)


def _path(kind: type[Record], key: str | int | None) -> tuple[str, str]:
    if (key is None) is not (kind.KEY is None):
        raise TypeError(f"{kind.__name__} {'has no key' if kind.KEY is None else f'needs its {kind.KEY}'}")
    return "state", name_file(kind, key)


# The life of a run


class StepSeconds(Record):
    """When a step started and when it ended. A step that failed leaves this record too."""

    KEY = "step"

    step: str
    started_at: Moment
    finished_at: Moment


class StepProblem(Record):
    """The reason why a step could not do its work."""

    KEY = "step"

    step: str
    problem: str


class ClustersConfigured(Record):
    """All clusters have the topology's configuration, so the monitor may begin to sample them."""

    at: Moment
    # Nodes that an earlier version of Brokerproof restarted here. Present runs restart none.
    restarted: tuple[str, ...] = ()


class RunReleased(Record):
    """The run is over, and its monitor has to end."""

    at: Moment


class ClusterKept(Record):
    """The run is over, and its nodes go on for a later run. The monitor ends them if no run asks for them in time."""

    at: Moment
    # When the monitor ends the nodes.
    until: Moment


class ClusterHandover(Record):
    """A later run takes over the slot of this run, whose cluster was kept. The monitor ends, and the nodes go on."""

    at: Moment


class ClusterReuse(Record):
    """Whether a run uses the nodes of an earlier run, or had to start them anew, and why."""

    reused: bool
    # Completes "the kept cluster was not used, because …"; empty if it is used.
    why: str
    at: Moment


class ObservationsRequested(Record):
    """Asks the monitor to write all samples up to the time `at`, because a step waits for them."""

    at: Moment


class ObservationsWritten(Record):
    """Answers `ObservationsRequested`: all samples up to the requested time are in the table `observations`."""

    at: Moment


class NotificationAttempt(Record):
    """Whether one notifier sent the run's result. A notifier that sent it is not used again for this run."""

    KEY = "rule"

    # The notifier's index in the list of the settings.
    rule: int
    # The notifier's class.
    notifier: str
    sent: bool
    # The type of the error. The error's text may contain a secret, so only the task's log has it.
    problem: str | None
    at: Moment


class WallClockStep(StrictModel):
    """A sudden change of a wall clock against the run's time axis, between two successive notes of the clock."""

    # The time of the later note, on the run's time axis.
    at: Moment
    # Microseconds; negative if the clock was set back.
    size_us: int


class WallClockNote(Record):
    """How far a process's wall clock is ahead of the run's time axis, and all sudden changes of the clock so far.

    The process rewrites this record once a second.
    """

    KEY = "process"

    # The name of a client in the run's directory, or the monitor's.
    process: str
    # The boot whose CLOCK_MONOTONIC the process reads, and the other boots of earlier processes that did its work.
    boot_id: str
    earlier_boot_ids: tuple[str, ...] = ()
    at: Moment
    # Microseconds by which the wall clock was ahead of the axis.
    lead_us: int
    steps: tuple[WallClockStep, ...]


class SealedFile(StrictModel):
    """One Parquet file of a table. `name` is its path below the table's directory."""

    name: str
    rows: int
    # Bytes.
    size: int
    # 128-bit XXH3 of its bytes.
    checksum: str


class TableSeal(Record):
    """The files of a table as they were when the job that wrote the table had ended."""

    KEY = "table"

    table: str
    files: tuple[SealedFile, ...]
    at: Moment


class TablesDeletion(Record):
    """Why and when the tables of messages and the records of clients are deleted.

    This record is written before the first file is deleted.
    """

    # Completes "its tables were deleted on DAY, …".
    why: str
    at: Moment

    @property
    def sentence(self) -> str:
        return f"its tables were deleted on {clock.to_utc(self.at):%Y-%m-%d}, {self.why}"


# The timeline


class TimelineProcess(Record):
    """The process that executes the timeline. If it is gone and left no `FaultsUndone`, it was killed."""

    pid: int
    # When it started, in seconds since the machine's boot. It is needed because the kernel reuses pids.
    created: float
    # The machine. Only a process of the same machine can check whether it is alive.
    host: str


class PhaseTimes(Record):
    """The times when each phase begins and when the load ends. Written again if the impact phase is lengthened."""

    steady_at: Moment
    impact_at: Moment
    recovery_at: Moment
    ends_at: Moment


class FaultEffective(Record):
    """A fault took effect. If a subscription changes clusters after the fault, its consumers wait for this record."""

    KEY = "fault"

    fault: str
    at: Moment


class FaultTargets(Record):
    """A fault's targets from an earlier answer of the cluster, because no targets were found when the fault was due."""

    KEY = "fault"

    fault: str
    targets: tuple[str, ...]
    # When the earlier answer came.
    known_at: Moment
    # Why there was no answer when the fault was due.
    why: str
    at: Moment

    @property
    def age_s(self) -> float:
        """Seconds from the cluster's earlier answer to the fault's injection."""
        return (self.at - self.known_at) / 1e6


class EarlyEnd(Record):
    """The timeline failed, was killed or has no clusters. Load and consumers end at once and keep their records."""

    why: str
    at: Moment


class FaultsUndone(Record):
    """The timeline has ended: whether every fault that is not permanent was undone, and what went wrong."""

    undone: bool
    problems: tuple[str, ...]
    # False if the runtime found that a node was ended from outside the run.
    undisturbed: bool = True
    at: Moment


# The load


class RateStep(StrictModel):
    """The rate of the producers of one cluster together, in messages a second, from the time `at` on.

    0 is no message at all. A step is of the producers in `producers`, by label; if this is empty, of all.
    """

    at: Moment
    rate: float = Field(ge=0)
    producers: tuple[str, ...] = ()


class FoundRate(StrictModel):
    """The highest rate that the topic held, and the rate that the load keeps. Both are of one cluster's producers."""

    rate: int
    # The highest rate that was held, and the lowest higher one that was not. None if each higher one was held.
    held: int
    missed: int | None
    # How much this machine's processors were busy while rates were missed, in percent. None if no rate was missed.
    busy: float | None


class LoadRates(Record):
    """The rates of a load that finds its rate by itself, or that a fault quiets. All producers follow this record.

    A step is written before its time, so that all producers change their rates at the same moment.
    """

    steps: tuple[RateStep, ...]
    # None while the rate is not found yet.
    found: FoundRate | None = None
    at: Moment


class ProducerEnd(Record):
    """The end of one producer. Each message that was due is acked, failed, unknown or not sent.

    The numbers are the producer's own counts. They are None if the producer was killed, because then its Spark task
    wrote this record.
    """

    KEY = "task"

    task: int
    producer: str
    scheduled: int | None
    acked: int | None
    failed: int | None
    unknown: int | None
    # The number of messages that a full `max_pending` held back until the end, the sequence number of the producer's
    # process, and the number of segments of its record.
    not_sent: int | None = None
    epoch: int | None = None
    segments: int | None = None
    # The times (from, to) in which the producer itself did nothing, although it had not ended.
    standstills: tuple[tuple[Moment, Moment], ...] = ()
    # The fault that ended the producer for good; None if it ended otherwise.
    fault: str | None = None
    # None if the producer completed its schedule.
    problem: str | None
    at: Moment

    @property
    def counts(self) -> dict[str, int] | None:
        """{outcome: the number of rows that the producer counted}; None if a number is missing."""
        counts = {str(outcome): getattr(self, outcome) for outcome in AttemptOutcome}
        return None if None in counts.values() else counts


class RateReason(StrEnum):
    """Why a producer missed its rate."""

    CLUSTER = "the cluster pushed back"
    MACHINE = "this machine had no time"


class MissedRate(StrictModel):
    """A time in which too few of a producer's due messages were acked, and what the producer measured meanwhile."""

    begin: Moment
    end: Moment
    due: int
    acked: int
    # Seconds in which the cluster held messages back: by a full `max_pending`, by a `send` that blocked, or by acks
    # that came later than before.
    pushed_back_s: float
    # Seconds for which the producer was late by itself, or its threads waited for a processor or woke up late.
    no_time_s: float
    # Seconds in which some process of this machine waited for a processor; None if the kernel does not count them.
    contended_s: float | None = None

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / 1e6

    @property
    def reasons(self) -> tuple[RateReason, ...]:
        """The measured reasons: each explains at least half of the missing messages. None is known if this is empty."""
        missing_s = self.seconds * (1 - self.acked / self.due) if self.due else 0.0
        measured = {RateReason.CLUSTER: self.pushed_back_s, RateReason.MACHINE: self.no_time_s}
        return tuple(reason for reason, seconds in measured.items() if seconds and seconds >= missing_s / 2)


class MissedRates(Record):
    """The times in which a producer's process missed its rate, written while such a time goes on."""

    KEY = "process"

    # PRODUCER-EPOCH
    process: str
    times: tuple[MissedRate, ...]
    # The number of further times, which are not in `times`.
    omitted: int = 0
    at: Moment


class LoadEnd(Record):
    """The end of the load: whether every producer completed its schedule, and if not, why."""

    finished: bool
    why: str
    scheduled: int
    producers: tuple[ProducerEnd, ...]
    at: Moment


# Consuming


class ConsumerEnd(Record):
    """The end of one consumer.

    The numbers are the consumer's own counts. They are None if the consumer was killed, because then its Spark task
    wrote this record.
    """

    KEY = "task"

    task: int
    consumer: str
    # Also None if the consumer had to end before a call of the system's client returned, so the count was not final.
    delivered: int | None
    # The sequence number of the consumer's process, and the number of segments of its record.
    epoch: int | None = None
    segments: int | None = None
    # The times (from, to) in which the consumer's process did nothing.
    standstills: tuple[tuple[Moment, Moment], ...] = ()
    # The fault that ended the consumer for good; None if it ended otherwise.
    fault: str | None = None
    problem: str | None
    at: Moment

    @property
    def counts(self) -> dict[str, int] | None:
        """The number of rows that the consumer counted, as {"delivered": number}; None if it is missing."""
        return None if self.delivered is None else {"delivered": self.delivered}


class ConsumersStop(Record):
    """The consumers may end: every subscription has drained, the time for draining is over, or the run ended early."""

    at: Moment


# The position after a message: (segment, offset after the message's own).
Behind = tuple[int, int]


class SubscriptionDrain(StrictModel):
    """Whether a subscription has acknowledged all messages of a partition, with the reason.

    Partition -1 means the whole topic.
    """

    cluster: str
    topic: str
    partition: int
    subscription: str
    drained: bool
    backlog: int | None = Field(None, description="messages not acknowledged; null if no node answered")
    end: Behind | None = Field(None, description="the end of the log up to which this is known; null if it is of all")
    why: str = Field(description="the evidence")


class SubscriptionDrains(Record):
    """Whether each subscription had drained, partition by partition, when consuming ended."""

    subscriptions: tuple[SubscriptionDrain, ...]
    at: Moment


# The records of clients


class EpochRead(StrictModel):
    """How much was read of the segments that one process of a client wrote to the client's own record of messages.

    `epoch` is the number of this process, which grows each time the client is started again.
    """

    epoch: int
    segments: int
    # Rows of the client's table that come from this epoch. Attempts without an outcome are included.
    rows: int
    # The numbers of segments that are missing although later ones exist.
    missing: tuple[int, ...]


class ClientRecordRead(Record):
    """How much of a client's own record was read to make the rows of a table, for each process of the client.

    When the table is sealed, the client's own record is deleted. This `ClientRecordRead` stays.
    """

    KEY = "client"

    client: str
    epochs: tuple[EpochRead, ...]
    at: Moment


class ClientState(StrEnum):
    """What a fault does with a client's process. A client without faults is `running`."""

    RUNNING = "running"
    PAUSED = "paused"
    # It ends in order: a producer after its answers, a consumer after the messages that it holds.
    STOPPED = "stopped"
    KILLED = "killed"
    # A second process of a producer's name has begun beside its process: it was refused, or it replaced the first one.
    FENCED = "fenced"
    # Its Spark task fails, and Spark repeats the tasks of all clients of its role.
    REPEATED = "repeated"


class ClientOrder(Record):
    """What a fault wants of a client. The client's Spark task does it and answers with `ClientEpochs`."""

    KEY = "client"

    client: str
    # It grows with each order to this client, from 1.
    number: int
    state: ClientState
    fault: str
    # What the client has to do when the order is carried out; None if it may do anything.
    moment: ClientMoment | None = None
    at: Moment


class ClientEpoch(StrictModel):
    """The life of one process of a client. It goes on if `ended_at` is None."""

    epoch: int
    # The number of the attempt of the client's Spark task that started it, from 0.
    attempt: int = 0
    started_at: Moment
    # When the process was connected: a producer before its first message, a consumer after it has subscribed.
    ready_at: Moment | None = None
    ended_at: Moment | None = None
    # The fault that ended it, or that began it in vain; None if it ended by itself or was ended by something else.
    fault: str | None = None


class ClientEpochs(Record):
    """The processes of a client that faults may act on, written by the client's Spark task."""

    KEY = "client"

    client: str
    epochs: tuple[ClientEpoch, ...]
    # The number of the newest order that was carried out, and what the client was then; 0 if there was none.
    followed: int
    state: ClientState
    # What the task saw when it carried the order out.
    evidence: str
    # The evidence by fault for each that changed what the client is. Another fault may have changed it again.
    changed: dict[str, str] = Field(default_factory=dict)
    # Whether the client has ended and is started by no fault any more.
    over: bool
    at: Moment


# Reading back


class ReplicationDrain(StrictModel):
    """Whether the cluster `receiver` has got all the topic's messages from the cluster `sender`, with the evidence."""

    topic: str
    sender: str = Field(alias="from")
    receiver: str = Field(alias="to")
    drained: bool
    backlog: int | None = Field(None, description="messages to send; null if no node answered")
    ends: dict[int, Behind] = Field(
        default_factory=dict, description="by partition, the end of the sender's log up to which this is known"
    )
    why: str = Field(description="the evidence")


class ReplicationDrains(Record):
    """Whether replication had drained, for each direction from one cluster to another, before the logs were read."""

    drains: tuple[ReplicationDrain, ...]
    at: Moment


class UnreadablePart(StrictModel):
    """A part of a partition's log that no reader can read, although every node that should run is healthy.

    `start` is the first position of the part, and `end` the first position after the part.
    """

    start: Behind
    end: Behind


class LogRead(Record):
    """Whether a new reader read a partition's log to its end. Partition -1 means a topic without partitions."""

    KEY = "task"

    task: int
    cluster: str
    topic: str
    partition: int
    # The position after its last message, in words; None for an empty log.
    end: str | None
    read_to_end: bool
    why: str
    # Messages read from it; None if no reader tried.
    messages: int | None
    # The position up to which the reader read everything except the unreadable parts; None if it read nothing.
    passed: Behind | None = None
    unreadable: tuple[UnreadablePart, ...] = ()


class LogsRead(Record):
    """Whether each log that had to be read back was read to its end."""

    started_at: Moment
    finished_at: Moment
    logs: tuple[LogRead, ...]
