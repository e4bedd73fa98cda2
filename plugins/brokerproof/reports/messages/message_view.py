"""Shows the life of one message (message_life.py) on a terminal and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from brokerproof import clock
from brokerproof.errors import shorten
from brokerproof.experiment.numbers import NOTHING, format_moment, format_short_time
from brokerproof.reports.messages.judged_message import (
    AckConfirmed,
    Delivered,
    Event,
    FaultChanged,
    Legality,
    MessageAnomaly,
    OutputWritten,
    Sent,
    Stored,
)
from brokerproof.reports.messages.message_life import MessageLife
from brokerproof.reports.pages import Page, render
from brokerproof.run.fault_course import FaultCourse
from brokerproof.run.tables import AttemptOutcome, FaultState

_COLOURS_OF_LEGALITY = {Legality.ILLEGAL: "red", Legality.LEGAL: "green", Legality.UNDECIDED: "yellow"}
# A width in columns that no table reaches.
_UNLIMITED = 100_000
_STYLES = {"fault": "yellow", "settled": "cyan", "stored": "blue", "delivered": "magenta", "output": "green"}


def print_message_life(life: MessageLife, console: Console) -> None:
    """Print the message's life. The events are a table, or a list if the terminal is too narrow for the table."""

    def line(text: str, style: str = "") -> None:
        console.print(text, style=style, markup=False, highlight=False)

    line(life.sentence, "bold")
    for problem in life.problems:
        line(problem, "yellow")
    for anomaly in life.judged.anomalies if life.judged else ():
        line(_describe_anomaly(anomaly), _COLOURS_OF_LEGALITY[anomaly.legality])
    if life.events:
        _print_events(tabulate_events(life), console)
    for course in life.faults:
        line(_describe_fault(course, life), "yellow")
    for text in _list_remarks(life):
        line(text)


def render_message_page(life: MessageLife, page: Page) -> str:
    anomalies = life.judged.anomalies if life.judged else ()
    return render(
        "message.html.j2",
        page,
        {
            "life": life,
            "events": tabulate_events(life),
            "anomalies": [(str(anomaly.legality), _describe_anomaly(anomaly)) for anomaly in anomalies],
            "faults": [_describe_fault(course, life) for course in life.faults],
            "remarks": list(_list_remarks(life)),
        },
    )


@dataclass(frozen=True, kw_only=True)
class EventRow:
    """One event as texts. `offset` is the time from the injection of the run's first fault to the event."""

    kind: str
    time: str
    offset: str
    event: str
    place: str
    position: str
    details: str


@dataclass(frozen=True, kw_only=True)
class EventTable:
    """A message's events as a table.

    `title` is the topic and partition of the events; it is empty if the events name no partition or several. `day` is
    the header of the column of times. It contains the date if all events have the same date.
    """

    title: str
    day: str
    has_offsets: bool
    rows: tuple[EventRow, ...]


def tabulate_events(life: MessageLife) -> EventTable:
    days = {clock.to_utc(event.at).date().isoformat() for event in life.events if event.at is not None}
    topics = {
        _name_topic(event.topic, event.partition)
        for event in life.events
        if not isinstance(event, FaultChanged) and event.partition is not None
    }
    attempts = sum(isinstance(event, Sent) for event in life.events)
    return EventTable(
        title=next(iter(topics)) if len(topics) == 1 else "",
        day=f"{next(iter(days))} UTC" if len(days) == 1 else "UTC",
        has_offsets=life.first_fault_at is not None,
        rows=tuple(
            EventRow(
                kind=event.kind,
                time=NOTHING if event.at is None else _format_moment(event.at, with_day=len(days) > 1),
                offset=NOTHING if event.at is None else _format_offset(event.at, life, "{}"),
                event=_name_event(event),
                place=_describe_place(event, with_topic=len(topics) > 1),
                position=str(getattr(event, "position", None) or ""),
                details="; ".join(_list_details(event, attempts)),
            )
            for event in life.events
        ),
    )


def _print_events(events: EventTable, console: Console) -> None:
    table = _make_rich_table(events)
    unlimited = console.options.update(width=_UNLIMITED)
    if console.measure(table, options=unlimited).maximum <= console.width:
        console.print(table)
        return
    # Each event has a line with its time and its name. The rest is below it, where words are not cut.
    console.print(Text(", ".join(filter(None, [events.title, events.day]))))
    widths = [max(len(getattr(row, name)) for row in events.rows) for name in ("time", "offset")]
    for row in events.rows:
        style = _STYLES.get(row.kind, "")
        offset = [row.offset.rjust(widths[1])] if events.has_offsets else []
        console.print(Text("  ".join([row.time.ljust(widths[0]), *offset, row.event]), style=style))
        position = f"position {row.position}" if row.position else ""
        rest = "; ".join(filter(None, [row.place, position, row.details]))
        console.print(Padding(Text(rest, style=style), (0, 0, 0, 4), expand=False))


def _make_rich_table(events: EventTable) -> Table:
    table = Table(title=Text(events.title) if events.title else None, title_justify="left")
    table.add_column(events.day)
    if events.has_offsets:
        table.add_column("offset", justify="right")
    for name in ("event", "where", "position", "details"):
        table.add_column(name)
    for row in events.rows:
        offset = [row.offset] if events.has_offsets else []
        cells = [row.time, *offset, row.event, row.place, row.position, row.details]
        # As Text, so that rich does not read brackets in an error as markup.
        table.add_row(*map(Text, cells), style=_STYLES.get(row.kind, ""))
    return table


def _describe_anomaly(anomaly: MessageAnomaly) -> str:
    place = ", ".join(part for part in (anomaly.cluster, anomaly.subscription) if part)
    detail = f" This one: {anomaly.detail} ({anomaly.cause})." if anomaly.detail else ""
    return f"{anomaly.anomaly}, {anomaly.legality}, at {place}: {anomaly.sentence}{detail}"


def _describe_fault(course: FaultCourse, life: MessageLife) -> str:
    reached = [f"{state} {format_moment(at)}{_format_offset(at, life, ' ({})')}" for state, at in course.times.items()]
    never = "" if course.recovered_at else ", never recovered"
    return f"in force meanwhile: {course.fault}, {course.kind} {', '.join(course.targets)}: {', '.join(reached)}{never}"


def _list_remarks(life: MessageLife) -> Iterator[str]:
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
        return f"fault {'injected' if event.state is FaultState.INJECTING else event.state}"
    name = event.outcome if event.kind == "settled" else event.kind
    return "outcome unknown" if name == AttemptOutcome.UNKNOWN else name.replace("_", " ")


def _describe_place(event: Event, *, with_topic: bool) -> str:
    if isinstance(event, FaultChanged):
        return ", ".join(event.targets)
    parts = [event.cluster]
    if with_topic and event.partition is not None:
        parts.append(_name_topic(event.topic, event.partition))
    if isinstance(event, Delivered | AckConfirmed | OutputWritten):
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
    elif event.kind == "output":
        yield f"object {event.object}" if event.object else "the output has no name"
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
