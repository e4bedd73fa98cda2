"""One message's whole life: what happened to it and when, what judging found about it, and the faults around it.

    life = read_message_life(run, "cluster-eu-p0", 4711)

The events are those that the run's tables hold. Nothing is concluded from a table that is missing, unsealed or damaged:
the life says so in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from brokerproof.errors import InputError, RunError
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.reports.messages.judged_message import JudgedMessage, read_judged_message
from brokerproof.reports.messages.message_events import (
    AckConfirmed,
    Delivered,
    Event,
    FaultChanged,
    FaultCourse,
    Position,
    Sent,
    Settled,
    Stored,
)
from brokerproof.reports.messages.message_rows import (
    FoundRows,
    find_seqs,
    list_publishers,
    read_all_rows,
    read_message_rows,
)
from brokerproof.reports.messages.message_sentence import compose_sentence
from brokerproof.run.deletion import require_tables
from brokerproof.run.directory import Run
from brokerproof.run.records import Moment, TableSeal, read_record
from brokerproof.run.seals import WRITERS, check_seals, has_files
from brokerproof.run.strict_model import StrictModel
from brokerproof.run.tables import AttemptOutcome, FaultState

_OF_MESSAGES = ("publishes", "stored", "deliveries")
_TABLES = (*_OF_MESSAGES, "faults")
# Above this, checksums take longer than somebody who asks for one message waits: about a second from a local disk.
_CHECKSUMS_UP_TO = 1 << 30

Rows = Sequence[Mapping[str, Any]]


class MessageLife(StrictModel):
    """A message's events in order of time, what judging found about it, and the faults that were in force meanwhile."""

    run_id: str
    producer: str
    seq: int
    key: str | None
    # What became of it, in one sentence.
    sentence: str
    # When the run's first fault was injected; None where there was none.
    first_fault_at: Moment | None
    # How far the clocks may be apart: the order of two events that are nearer to each other is not proven.
    clock_error_us: int
    events: tuple[Event, ...]
    # In the order of their injection.
    faults: tuple[FaultCourse, ...]
    # None where the run was not judged.
    judged: JudgedMessage | None
    # A sentence for everything that is missing or damaged; events may be missing because of it.
    problems: tuple[str, ...]
    # What a reader has to know of how the life was read.
    notes: tuple[str, ...]


def read_message_life(run: Run, producer: str, seq: int, *, checksums_up_to: int = _CHECKSUMS_UP_TO) -> MessageLife:
    """The life of the message `seq` of `producer`.

    The files of the tables are compared with their seals: by checksum where all of them together have no more than
    `checksums_up_to` bytes, and otherwise by size and rows.

    Raises InputError where the run has no such producer or no such message, or no tables of messages any more, and
    RunError where the run cannot be read.
    """
    require_tables(run)
    evidence = _Evidence(run, checksums_up_to)
    found = {table: evidence.add(table, read_message_rows(run, table, producer, seq)) for table in _OF_MESSAGES}
    faults = evidence.add("faults", read_all_rows(run, "faults"))
    if not any(found.values()) and "publishes" not in evidence.doubtful:
        _refuse(run, producer, seq, evidence.doubtful)
    try:
        judged, unjudged = read_judged_message(run, producer, seq)
        events = _order_events(found)
        moments = [at for event in events for at in _list_moments(event)]
        changes = _parse_changes(faults)
        courses = tuple(_follow_faults(changes, moments))
        events = list(_insert_faults(events, changes, moments))
    except ValueError as error:
        raise RunError(f"{run.path('tables')} holds a row that cannot be used: {_describe_mistake(error)}") from None
    problems = (*evidence.problems, *unjudged)
    return MessageLife(
        run_id=run.run_id,
        producer=producer,
        seq=seq,
        key=next((row["key"] for rows in found.values() for row in rows if row["key"] is not None), None),
        sentence=compose_sentence(
            f"{producer}/{seq}",
            events,
            judged,
            doubtful=evidence.doubtful,
            is_whole=not problems,
            has_subscriptions=bool(run.scenario.workload.subscriptions),
        ),
        first_fault_at=changes[0].at if changes else None,
        clock_error_us=run.facts.clock_error_us,
        events=tuple(events),
        faults=courses,
        judged=judged,
        problems=problems,
        notes=tuple(evidence.notes),
    )


def _describe_mistake(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return f"{error.title}.{'.'.join(map(str, first['loc']))}: {first['msg']}"


class _Evidence:
    """Which tables are doubtful, and why."""

    def __init__(self, run: Run, checksums_up_to: int) -> None:
        self._run = run
        size = self._measure_tables()
        with_checksums = size <= checksums_up_to
        self.problems: list[str] = []
        self.doubtful: set[str] = set()
        self.notes = list(self._describe_checking(size, with_checksums))
        for table in filter(self._is_expected, _TABLES):
            if problems := self._check_table(table, with_checksums):
                self.problems += problems
                self.doubtful.add(table)

    def add(self, table: str, found: FoundRows) -> Rows:
        """The rows that were found; what could not be read makes the table doubtful."""
        self.problems += found.problems
        if found.problems:
            self.doubtful.add(table)
        return found.rows

    def _measure_tables(self) -> int:
        """The bytes of the tables when they were sealed. A seal that is damaged is told when it is compared."""
        size = 0
        for table in _TABLES if self._run.facts.sealed else ():
            try:
                seal = read_record(self._run, TableSeal, table)
            except RunError:
                continue
            size += sum(file.size for file in seal.files) if seal else 0
        return size

    def _describe_checking(self, size: int, with_checksums: bool) -> Iterator[str]:
        if not self._run.facts.sealed:
            yield "The run was recorded before there were seals, so nothing says whether its tables are as they were."
        elif not with_checksums:
            yield (
                f"The tables have {size / 2**30:,.1f} GiB, so their files are compared with their seals by size and "
                "rows only; `brokerproof verify` compares their checksums too."
            )

    def _check_table(self, table: str, with_checksums: bool) -> Sequence[str]:
        """Sentences about the table as a whole."""
        checked = check_seals(self._run, [table], checksums=with_checksums)
        is_missing = bool(checked.broken) if self._run.facts.sealed else not has_files(self._run, table)
        if is_missing and not checked.problems:
            # Of a job that never began, the seals say nothing, because other records do.
            return [f"The table {table} is missing: {WRITERS[table][0]} left none."]
        return checked.problems

    def _is_expected(self, table: str) -> bool:
        scenario = self._run.scenario
        if table == "deliveries":
            return bool(scenario.workload.subscriptions)
        return table != "faults" or bool(scenario.faults)


def _refuse(run: Run, producer: str, seq: int, doubtful: Iterable[str]) -> None:
    """Raise InputError for a message that no table holds. `publishes` is whole; other tables may be doubtful."""
    besides = sorted(set(doubtful) & set(_OF_MESSAGES))
    where = f"; of {' and '.join(besides)} not everything could be read" if besides else ""
    readable = [table for table in _OF_MESSAGES if table not in besides]
    # What nobody published has a producer too, though only other tables name it.
    if ends := next(filter(None, (find_seqs(run, table, producer) for table in readable)), None):
        raise InputError(
            f"`{producer}` has no message {seq}{where}",
            file=run.directory,
            field="seq",
            remedy=f"give one from {ends[0]} to {ends[1]}",
        )
    raise InputError(
        f"the run has no producer `{producer}`{where}",
        file=run.directory,
        field="producer",
        remedy=suggest_name(producer, list_publishers(run)),
    )


# What happened to the message


def _order_events(found: Mapping[str, Rows]) -> list[Event]:
    """The events of the message in order of time; one whose time is not known comes after what it follows from."""
    attempts = sorted(found["publishes"], key=_order_attempts)
    payloads = {row["payload_hash"] for row in attempts}
    keyed = [
        *_make_attempts(attempts),
        *_make_copies(found["stored"], attempts, payloads),
        *_make_deliveries(found["deliveries"], payloads),
    ]
    return [event for _, event in sorted(keyed, key=lambda each: each[0])]


# A moment, then a rank among events of the same moment, then the row's number among its kind.
_Key = tuple[float, int, int]
_NEVER = float("inf")


def _order_attempts(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The key for the order of sending. What a process did not send is no attempt and gets no number between them."""
    start = _find_start(row)
    return row["outcome"] == AttemptOutcome.NOT_SENT, start is None, start, row["epoch"]


def _make_attempts(rows: Rows) -> Iterator[tuple[_Key, Event]]:
    for number, row in enumerate(rows, start=1):
        start = _find_start(row)
        key = _NEVER if start is None else start
        place = {name: row[name] for name in ("cluster", "topic", "partition")}
        sent = {name: row[name] for name in ("scheduled_at", "epoch")}
        if row["outcome"] != AttemptOutcome.NOT_SENT:
            yield (key, 0, number), Sent(**place, **sent, at=row["sent_at"], attempt=number)
        settled_at = row["settled_at"]
        yield (
            (key if settled_at is None else settled_at, 2, number),
            Settled.model_validate(
                {
                    **place,
                    **{"at": settled_at, "attempt": number, "error": row["error"], "position": _make_position(row)},
                    "outcome": row["outcome"],
                },
                strict=False,
            ),
        )


def _make_copies(rows: Rows, attempts: Rows, payloads: set[int | None]) -> Iterator[tuple[_Key, Event]]:
    starts = [start for row in attempts if (start := _find_start(row)) is not None]
    for number, row in enumerate(sorted(rows, key=_order_copies)):
        published_at = row["published_at"]
        at = _find_earliest(published_at, starts)
        event = Stored(
            **{name: row[name] for name in ("cluster", "topic", "partition", "replicated_from")},
            at=at,
            published_at=published_at,
            position=_make_position(row),
            payload_matches=_compare_payload(row, payloads),
        )
        yield (_NEVER if at is None else at, 1, number), event


def _order_copies(row: Mapping[str, Any]) -> tuple[Any, ...]:
    position = (-1 if row[name] is None else row[name] for name in Position.model_fields)
    return row["replicated_from"] is not None, row["cluster"] or "", *position


def _find_earliest(published_at: int | None, starts: Sequence[int]) -> int | None:
    """The earliest moment at which a copy can have been written.

    A client may note the time of a batch, which begins before its later messages are sent, and in whole milliseconds.
    So the copy belongs to the attempt that is nearest to its time.
    """
    if published_at is None or not starts:
        return published_at if published_at is not None else min(starts, default=None)
    return max(published_at, min(starts, key=lambda start: abs(start - published_at)))


def _make_deliveries(rows: Rows, payloads: set[int | None]) -> Iterator[tuple[_Key, Event]]:
    for number, row in enumerate(sorted(rows, key=lambda row: (row["received_at"] or 0, row["arrival"] or 0))):
        received_at, confirmed_at = row["received_at"], row["acknowledged_at"]
        consumer = {
            name: row[name] for name in ("cluster", "topic", "partition", "subscription", "consumer", "incarnation")
        }
        position = _make_position(row)
        delivered = Delivered(
            **consumer,
            **{name: row[name] for name in ("redelivery_count", "replicated_from")},
            at=received_at,
            position=position,
            payload_matches=_compare_payload(row, payloads),
            ack_confirmed=confirmed_at is not None,
        )
        yield (_NEVER if received_at is None else received_at, 3, number), delivered
        if confirmed_at is not None:
            yield (confirmed_at, 4, number), AckConfirmed(**consumer, at=confirmed_at, position=position)


def _find_start(attempt: Mapping[str, Any]) -> int | None:
    """When an attempt was sent or, where nobody recorded that, when it was scheduled."""
    at: int | None = attempt["scheduled_at"] if attempt["sent_at"] is None else attempt["sent_at"]
    return at


def _make_position(row: Mapping[str, Any]) -> Position | None:
    if row["ledger_id"] is None or row["entry_id"] is None:
        return None
    return Position(**{name: row[name] for name in Position.model_fields})


def _compare_payload(row: Mapping[str, Any], payloads: set[int | None]) -> bool | None:
    return row["payload_hash"] in payloads if payloads else None


# The faults around it


def _list_moments(event: Event) -> Iterator[int]:
    if isinstance(event, Sent) and event.scheduled_at is not None:
        # A message that waits to be sent is alive already.
        yield event.scheduled_at
    if event.at is not None:
        yield event.at


def _parse_changes(rows: Rows) -> list[FaultChanged]:
    """The changes of faults, in order of time."""
    changes = [
        FaultChanged.model_validate(
            {
                **{name: row[name] for name in ("at", "fault", "state", "evidence")},
                **{"fault_kind": row["kind"], "targets": tuple(row["targets"] or ())},
            },
            strict=False,
        )
        for row in rows
    ]
    return sorted(changes, key=lambda change: (change.at, list(FaultState).index(change.state)))


def _insert_faults(events: Sequence[Event], changes: Iterable[FaultChanged], moments: Sequence[int]) -> Iterator[Event]:
    """The events with every change of a fault between the message's first and last moment."""
    meanwhile = [change for change in changes if moments and min(moments) <= change.at <= max(moments)]
    for event in events:
        while meanwhile and event.at is not None and meanwhile[0].at <= event.at:
            yield meanwhile.pop(0)
        yield event
    yield from meanwhile


def _follow_faults(changes: Iterable[FaultChanged], moments: Sequence[int]) -> Iterator[FaultCourse]:
    """The faults that were in force at some moment of the message's life: from injection until they have recovered."""
    courses: list[FaultCourse] = []
    # The place of each fault's last course, because a fault may be injected again.
    last: dict[str, int] = {}
    for change in changes:
        if change.state is FaultState.INJECTING or change.fault not in last:
            last[change.fault] = len(courses)
            courses.append(FaultCourse(fault=change.fault, kind=change.fault_kind, targets=change.targets))
        reached = {f"{change.state}_at": change.at, "targets": change.targets}
        courses[last[change.fault]] = courses[last[change.fault]].model_copy(update=reached)
    for course in courses:
        begins_at = min(course.times.values())
        if moments and begins_at <= max(moments) and not (course.recovered_at or max(moments)) < min(moments):
            yield course
