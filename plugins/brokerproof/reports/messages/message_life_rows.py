"""Turns a message's life into rows of text, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from brokerproof import clock
from brokerproof.errors import shorten
from brokerproof.experiment.numbers import format_moment, format_short_time
from brokerproof.reports.messages.judged_message import MessageAnomaly
from brokerproof.reports.messages.message_events import (
    AckConfirmed,
    Delivered,
    Event,
    FaultChanged,
    Sent,
    Stored,
)
from brokerproof.reports.messages.message_life import MessageLife
from brokerproof.run.fault_course import FaultCourse
from brokerproof.run.tables import AttemptOutcome, FaultState

_FAULT_STATES = {
    FaultState.INJECTING: "fault injected",
    FaultState.EFFECTIVE: "fault effective",
    FaultState.HEALING: "fault healing",
    FaultState.RECOVERED: "fault recovered",
}
_OUTCOMES = {
    AttemptOutcome.ACKED: "acked",
    AttemptOutcome.FAILED: "failed",
    AttemptOutcome.UNKNOWN: "outcome unknown",
    AttemptOutcome.NOT_SENT: "not sent",
}


@dataclass(frozen=True, kw_only=True)
class EventRow:
    """The texts of one event. `kind` is the event's own, and `offset` counts from the run's first fault."""

    kind: str
    time: str
    offset: str
    event: str
    place: str
    position: str
    details: str


@dataclass(frozen=True, kw_only=True)
class EventTable:
    """The events of a life. `title` is the topic if there is only one; `day` is the header of the times."""

    title: str
    day: str
    has_offsets: bool
    rows: tuple[EventRow, ...]


def tabulate_events(life: MessageLife) -> EventTable:
    days = {clock.to_utc(event.at).date().isoformat() for event in life.events if event.at is not None}
    topics = dict.fromkeys(
        (event.topic, event.partition)
        for event in life.events
        if not isinstance(event, FaultChanged) and event.partition is not None
    )
    attempts = sum(isinstance(event, Sent) for event in life.events)
    rows = (
        EventRow(
            kind=event.kind,
            time="–" if event.at is None else _format_moment(event.at, with_day=len(days) > 1),
            offset="–" if event.at is None else _format_offset(event.at, life, "{}"),
            event=_name_event(event),
            place=_describe_place(event, len(topics) > 1),
            position="" if isinstance(event, Sent | FaultChanged) or event.position is None else str(event.position),
            details="; ".join(_list_details(event, attempts)),
        )
        for event in life.events
    )
    return EventTable(
        title=_name_topic(*next(iter(topics))) if len(topics) == 1 else "",
        day=f"{days.copy().pop()} UTC" if len(days) == 1 else "UTC",
        has_offsets=life.first_fault_at is not None,
        rows=tuple(rows),
    )


def describe_anomaly(anomaly: MessageAnomaly) -> str:
    place = ", ".join(part for part in (anomaly.cluster, anomaly.subscription) if part)
    detail = f" This one: {anomaly.detail} ({anomaly.cause})." if anomaly.detail else ""
    return f"{anomaly.anomaly}, {anomaly.ruling}, at {place}: {anomaly.sentence}{detail}"


def describe_fault(course: FaultCourse, life: MessageLife) -> str:
    reached = [f"{state} {format_moment(at)}{_format_offset(at, life, ' ({})')}" for state, at in course.times.items()]
    never = "" if course.recovered_at else ", never recovered"
    return f"in force meanwhile: {course.fault}, {course.kind} {', '.join(course.targets)}: {', '.join(reached)}{never}"


def list_remarks(life: MessageLife) -> Iterator[str]:
    if life.first_fault_at is not None and not life.faults:
        yield "No fault was in force during its life."
    if any(isinstance(event, Stored) for event in life.events):
        yield "A stored copy has no time of its own: its time is the earliest at which it can have been written."
    if life.first_fault_at is not None:
        yield f"Offsets count from the run's first fault, injected at {format_moment(life.first_fault_at)}."
    if life.clock_error_us:
        yield (
            f"The clocks may be apart by {format_short_time(life.clock_error_us)}: "
            "the order of events that are nearer to each other is not proven."
        )
    if life.judged:
        for problem in life.judged.evidence_problems:
            yield f"What the run's evidence lacks: {problem}"
    yield from life.notes


def _format_moment(moment: int, *, with_day: bool) -> str:
    return f"{clock.to_utc(moment).date().isoformat()} {format_moment(moment)}" if with_day else format_moment(moment)


def _name_event(event: Event) -> str:
    if isinstance(event, FaultChanged):
        return _FAULT_STATES[event.state]
    if event.kind == "settled":
        return _OUTCOMES[event.outcome]
    return {"ack_confirmed": "ack confirmed"}.get(event.kind, event.kind)


def _describe_place(event: Event, with_topic: bool) -> str:
    if isinstance(event, FaultChanged):
        return ", ".join(event.targets)
    parts = [event.cluster]
    if with_topic and event.partition is not None:
        parts.append(_name_topic(event.topic, event.partition))
    if isinstance(event, Delivered | AckConfirmed):
        again = f" (incarnation {event.incarnation})" if event.incarnation else ""
        parts += [event.subscription, f"{event.consumer or 'an unnamed consumer'}{again}"]
    return " / ".join(parts)


def _name_topic(topic: str, partition: int | None) -> str:
    return topic if partition in (None, -1) else f"{topic}, partition {partition}"


def _list_details(event: Event, attempts: int) -> Iterator[str]:
    if event.kind == "fault":
        yield f"{event.fault} ({event.fault_kind})"
        if event.evidence:
            yield shorten(event.evidence, 120)
        return
    if event.kind == "settled" and event.outcome is AttemptOutcome.NOT_SENT:
        yield "too many messages had no answer until the end of the load"
        return
    if event.kind in ("sent", "settled") and attempts > 1:
        yield f"attempt {event.attempt} of {attempts}" + (f", epoch {event.epoch}" if isinstance(event, Sent) else "")
    if isinstance(event, Sent):
        if event.at is None:
            yield "whether it was sent is not recorded"
        elif event.scheduled_at is not None and event.at - event.scheduled_at >= 1000:
            yield f"{format_short_time(event.at - event.scheduled_at)} after its schedule"
    elif event.kind == "settled":
        if event.error:
            yield event.error
        if event.outcome is AttemptOutcome.ACKED and event.position is None:
            yield "the ack named no position"
    elif isinstance(event, Stored | Delivered):
        if isinstance(event, Delivered) and event.redelivery_count:
            yield f"redelivery {event.redelivery_count}"
        if event.replicated_from:
            yield f"replicated from {event.replicated_from}"
        if event.payload_matches is False:
            yield "another payload than was published"
        if isinstance(event, Delivered) and not event.ack_confirmed:
            yield "no ack of it was confirmed"


def _format_offset(moment: int, life: MessageLife, text: str) -> str:
    if life.first_fault_at is None:
        return ""
    return text.format(f"{(moment - life.first_fault_at) / 1e6:+.3f} s")
