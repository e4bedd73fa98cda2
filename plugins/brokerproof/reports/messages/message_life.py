"""Reads the life of one message: its events in order of time, the faults meanwhile, and what judging found about it.

    life = read_message_life(run, "cluster-eu-p0", 4711)

The events come from the run's tables. `life.problems` has a sentence for each table that is missing, unsealed or
damaged. If such a table is the one with the copies, the deliveries or the outputs, `life.sentence` says "not known"
instead of "not stored", "not delivered" or "without an output".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from brokerproof.errors import InputError, RunError
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.reports.messages.judged_message import (
    AckConfirmed,
    Delivered,
    Event,
    FaultChanged,
    JudgedMessage,
    LogPosition,
    OutputWritten,
    Sent,
    SettledAttempt,
    Stored,
    compose_sentence,
    read_judged_message,
)
from brokerproof.run.directory import Run
from brokerproof.run.fault_course import FaultCourse, follow_faults
from brokerproof.run.records import Moment, TablesDeletion, TableSeal, read_record
from brokerproof.run.seals import WRITERS, check_seals
from brokerproof.run.strict_model import StrictModel
from brokerproof.run.table_rows import collect_rows, query_files
from brokerproof.run.tables import AttemptOutcome, FaultState

_OF_MESSAGES = ("publishes", "stored", "deliveries", "outputs")
_TABLES = (*_OF_MESSAGES, "faults")
# Bytes. Checksums of larger tables take more than about 1 s from a local disk, which is too long for one message.
_CHECKSUMS_UP_TO = 1 << 30
# DuckDB refuses numbers of more than 128 bits.
_LARGEST_SEQ = 2**63 - 1

Rows = Sequence[Mapping[str, Any]]


class MessageLife(StrictModel):
    """A message's events in order of time, what judging found, and the faults from the first event to the last."""

    run_id: str
    producer: str
    seq: int
    key: str | None
    # What happened to the message, in one sentence.
    sentence: str
    # The injection of the run's first fault; None if there was no fault.
    first_fault_at: Moment | None
    # The largest difference between two clocks. The order of events that are closer in time is not proven.
    clock_error_us: int
    events: tuple[Event, ...]
    # In the order of their injection.
    faults: tuple[FaultCourse, ...]
    # None if the run was not judged.
    judged: JudgedMessage | None
    # A sentence for each missing or damaged table or result. Events from such a table may be missing.
    problems: tuple[str, ...]
    # Sentences about checks of the tables that were skipped or not possible.
    notes: tuple[str, ...]


def read_message_life(run: Run, producer: str, seq: int, *, checksums_up_to: int = _CHECKSUMS_UP_TO) -> MessageLife:
    """Return the life of the message with the sequence number `seq` of `producer`.

    The tables' files are compared with their seals by checksum. If all files together have more than `checksums_up_to`
    bytes, only their sizes and rows are compared. Raises InputError if the run has no such producer or message, or if
    the tables of messages were deleted. Raises RunError if the run cannot be read.
    """
    if (deletion := read_record(run, TablesDeletion)) is not None:
        remedy = "`brokerproof history` shows the result of the run"
        raise InputError(deletion.sentence, file=run.directory, remedy=remedy)
    size = _measure_tables(run)
    with_checksums = size <= checksums_up_to
    problems = {table: _check_table(run, table, with_checksums) for table in _TABLES}
    where = "producer = $producer AND seq = $seq"
    message = {"producer": producer, "seq": seq if 0 <= seq <= _LARGEST_SEQ else None}
    found = {table: collect_rows(run, table, problems[table], where=where, values=message) for table in _OF_MESSAGES}
    faults = collect_rows(run, "faults", problems["faults"])
    doubtful = {table for table in _TABLES if problems[table]}
    if not any(found.values()) and "publishes" not in doubtful:
        _refuse(run, producer, seq, doubtful)
    try:
        judged, unjudged = read_judged_message(run, where, message)
        events = _order_events(found)
        moments = [at for event in events for at in _list_moments(event)]
        changes = _parse_changes(faults)
        courses = tuple(_list_faults(faults, moments))
        events = list(_insert_faults(events, changes, moments))
    except ValueError as error:
        raise RunError(f"{run.path('tables')} holds a row that cannot be used: {_describe_mistake(error)}") from None
    all_problems = [*itertools.chain(*problems.values()), *unjudged]
    return MessageLife(
        run_id=run.run_id,
        producer=producer,
        seq=seq,
        key=next((row["key"] for rows in found.values() for row in rows if row["key"] is not None), None),
        sentence=compose_sentence(
            f"{producer}/{seq}",
            events,
            judged,
            doubtful=doubtful,
            is_whole=not all_problems,
            workload=run.scenario.workload,
        ),
        first_fault_at=changes[0].at if changes else None,
        clock_error_us=run.facts.clock_error_us,
        events=tuple(events),
        faults=courses,
        judged=judged,
        problems=tuple(all_problems),
        notes=tuple(_describe_checking(run, size, with_checksums)),
    )


def _describe_mistake(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return f"{error.title}.{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _measure_tables(run: Run) -> int:
    """Return the total size of the tables `_TABLES` in bytes, according to their seals; 0 if the run has no seals.

    A table with a damaged seal counts as 0 bytes, and `_check_table` reports the seal.
    """
    size = 0
    for table in _TABLES if run.facts.sealed else ():
        with suppress(RunError):
            seal = read_record(run, TableSeal, table)
            size += sum(file.size for file in seal.files) if seal else 0
    return size


def _describe_checking(run: Run, size: int, with_checksums: bool) -> Iterator[str]:
    if not run.facts.sealed:
        yield "The run was recorded before there were seals, so nothing says whether its tables are as they were."
    elif not with_checksums:
        yield (
            f"The tables have {size / 2**30:,.1f} GiB, so their files are compared with their seals by size and "
            "rows only; `brokerproof verify` compares their checksums too."
        )


def _check_table(run: Run, table: str, with_checksums: bool) -> list[str]:
    """Return a sentence for each difference between a table and its seal, or for a missing table.

    The table `deliveries` is checked only if the scenario has subscriptions, `outputs` only if a subscription writes
    them, and `faults` only if the scenario has faults.
    """
    scenario = run.scenario
    is_expected = {
        "deliveries": bool(scenario.workload.subscriptions),
        "outputs": scenario.workload.writes_outputs,
        "faults": bool(scenario.faults),
    }
    if not is_expected.get(table, True):
        return []
    checked = check_seals(run, [table], checksums=with_checksums)
    is_missing = bool(checked.broken) if run.facts.sealed else not run.list_files(table)
    if is_missing and not checked.problems:
        # If the job never began, check_seals returns no problem, because other records report it.
        return [f"The table {table} is missing: {WRITERS[table][0]} did not write it."]
    return list(checked.problems)


def _refuse(run: Run, producer: str, seq: int, doubtful: Iterable[str]) -> None:
    """Raise InputError, because no table has the message.

    `doubtful` names the missing and damaged tables. The table `publishes` must not be one of them.
    """
    damaged = sorted(set(doubtful) & set(_OF_MESSAGES))
    where = f"; of {' and '.join(damaged)} not everything could be read" if damaged else ""
    query = "SELECT min(seq) AS lowest, max(seq) AS highest FROM recorded WHERE producer = $producer"
    # The producer of a message that was never published is only in `stored` or `deliveries`.
    for table in (table for table in _OF_MESSAGES if table not in damaged):
        ends = [row for row in query_files(run, table, query, {"producer": producer}) if row["lowest"] is not None]
        if ends:
            lowest, highest = min(row["lowest"] for row in ends), max(row["highest"] for row in ends)
            raise InputError(
                f"`{producer}` has no message {seq}{where}",
                file=run.directory,
                field="seq",
                remedy=f"give one from {lowest} to {highest}",
            )
    publishers = query_files(run, "publishes", "SELECT DISTINCT producer FROM recorded WHERE producer IS NOT NULL")
    raise InputError(
        f"the run has no producer `{producer}`{where}",
        file=run.directory,
        field="producer",
        remedy=suggest_name(producer, {row["producer"] for row in publishers}),
    )


def _order_events(found: Mapping[str, Rows]) -> list[Event]:
    """Return the message's events in order of time.

    If an event of a publish attempt has no recorded time, it is placed at the attempt's start. Other events without a
    time come last.
    """
    attempts = sorted(found["publishes"], key=_order_attempts)
    starts = [_find_start(row) for row in attempts]
    payloads = {row["payload_hash"] for row in attempts}

    def order(event: Event) -> tuple[float, int]:
        at = starts[event.attempt - 1] if event.at is None and isinstance(event, Sent | SettledAttempt) else event.at
        return float("inf") if at is None else at, _ORDER.index(type(event))

    events = [
        *_make_attempts(attempts),
        *_make_copies(found["stored"], [start for start in starts if start is not None], payloads),
        *_make_deliveries(found["deliveries"], payloads),
        *_make_outputs(found["outputs"]),
    ]
    return sorted(events, key=order)


# The order of events at the same moment.
_ORDER: Sequence[type] = (Sent, Stored, SettledAttempt, Delivered, AckConfirmed, OutputWritten)


def _order_attempts(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key that sorts attempts by time of sending. A row with the outcome `not_sent` comes last."""
    start = _find_start(row)
    return row["outcome"] == AttemptOutcome.NOT_SENT, start is None, start, row["epoch"]


def _make_attempts(rows: Rows) -> Iterator[Event]:
    for number, row in enumerate(rows, start=1):
        if row["outcome"] != AttemptOutcome.NOT_SENT:
            yield Sent.from_row(row, at=row["sent_at"], attempt=number)
        yield SettledAttempt.from_row(row, at=row["settled_at"], attempt=number, position=_make_position(row))


def _make_copies(rows: Rows, starts: Sequence[int], payloads: set[int | None]) -> Iterator[Event]:
    for row in sorted(rows, key=_order_copies):
        yield Stored.from_row(
            row,
            at=_find_earliest(row["published_at"], starts),
            position=_make_position(row),
            payload_matches=_compare_payload(row, payloads),
        )


def _order_copies(row: Mapping[str, Any]) -> tuple[Any, ...]:
    position = (-1 if row[name] is None else row[name] for name in LogPosition.model_fields)
    return row["replicated_from"] is not None, row["cluster"] or "", *position


def _find_earliest(published_at: int | None, starts: Sequence[int]) -> int | None:
    """Return the earliest time at which a copy can have been written; None if no time is known.

    `starts` are the times at which the publish attempts started. The result is the later of two times: `published_at`,
    and the time in `starts` that is nearest to it. The second is later if `published_at` is the time at which a batch
    began and the message joined the batch afterwards. Without `published_at`, the result is the earliest of `starts`.
    """
    if published_at is None or not starts:
        return published_at if published_at is not None else min(starts, default=None)
    return max(published_at, min(starts, key=lambda start: abs(start - published_at)))


def _make_deliveries(rows: Rows, payloads: set[int | None]) -> Iterator[Event]:
    for row in sorted(rows, key=lambda row: (row["received_at"] or 0, row["arrival"] or 0)):
        position, confirmed_at = _make_position(row), row["acknowledged_at"]
        yield Delivered.from_row(
            row,
            at=row["received_at"],
            position=position,
            payload_matches=_compare_payload(row, payloads),
            ack_confirmed=confirmed_at is not None,
        )
        if confirmed_at is not None:
            yield AckConfirmed.from_row(row, at=confirmed_at, position=position)


def _make_outputs(rows: Rows) -> Iterator[Event]:
    for row in sorted(rows, key=lambda row: row["written_at"] or 0):
        yield OutputWritten.from_row(row, at=row["written_at"], position=_make_position(row))


def _find_start(attempt: Mapping[str, Any]) -> int | None:
    """Return the time at which an attempt was sent or, if that is not recorded, scheduled; None if neither is known."""
    at: int | None = attempt["scheduled_at"] if attempt["sent_at"] is None else attempt["sent_at"]
    return at


def _make_position(row: Mapping[str, Any]) -> LogPosition | None:
    return None if row["segment"] is None or row["offset"] is None else LogPosition.from_row(row)


def _compare_payload(row: Mapping[str, Any], payloads: set[int | None]) -> bool | None:
    return row["payload_hash"] in payloads if payloads else None


def _list_moments(event: Event) -> Iterator[int]:
    if isinstance(event, Sent) and event.scheduled_at is not None:
        # The life of a message begins when it is due, before it is sent.
        yield event.scheduled_at
    if event.at is not None:
        yield event.at


def _parse_changes(rows: Rows) -> list[FaultChanged]:
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
    """Yield the message's events and, between them, the fault changes during its life, in order of time.

    Its life lasts from the first to the last of `moments`.
    """
    meanwhile = [change for change in changes if moments and min(moments) <= change.at <= max(moments)]
    for event in events:
        while meanwhile and event.at is not None and meanwhile[0].at <= event.at:
            yield meanwhile.pop(0)
        yield event
    yield from meanwhile


def _list_faults(rows: Rows, moments: Sequence[int]) -> Iterator[FaultCourse]:
    """Yield each fault that was in force at some time between the first and the last of `moments`.

    A fault is in force from its injection until its recovery or, if it never recovered, for ever.
    """
    for course in follow_faults(rows).values():
        if moments and course.begins_at <= max(moments) and not (course.recovered_at or max(moments)) < min(moments):
            yield course
