"""Prints a message's life on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from brokerproof.reports.messages.judged_message import Ruling
from brokerproof.reports.messages.message_life import MessageLife
from brokerproof.reports.messages.message_life_rows import (
    describe_anomaly,
    describe_fault,
    list_remarks,
    tabulate_events,
)

_RULINGS = {Ruling.ILLEGAL: "red", Ruling.LEGAL: "green", Ruling.UNDECIDED: "yellow"}
_STYLES = {"fault": "yellow", "settled": "cyan", "stored": "blue", "delivered": "magenta"}


def print_message_life(life: MessageLife, console: Console) -> None:
    """Print a life: its sentence, problems, anomalies, events as a table, faults and remarks."""

    def line(text: str, style: str = "") -> None:
        console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    line(life.sentence, "bold")
    for problem in life.problems:
        line(problem, "yellow")
    for anomaly in life.judged.anomalies if life.judged else ():
        line(describe_anomaly(anomaly), _RULINGS[anomaly.ruling])
    if life.events:
        console.print(_tabulate_events(life))
    for course in life.faults:
        line(describe_fault(course, life), "yellow")
    for text in list_remarks(life):
        line(text)


def _tabulate_events(life: MessageLife) -> Table:
    events = tabulate_events(life)
    table = Table(title=Text(events.title) if events.title else None, title_justify="left")
    table.add_column(events.day, no_wrap=True)
    if events.has_offsets:
        table.add_column("offset", justify="right", no_wrap=True)
    table.add_column("event", no_wrap=True)
    table.add_column("where", overflow="fold")
    table.add_column("position", no_wrap=True)
    table.add_column("details", overflow="fold")
    for row in events.rows:
        cells = [
            row.time,
            *([row.offset] if events.has_offsets else []),
            row.event,
            row.place,
            row.position,
            row.details,
        ]
        # As Text, so that rich does not read brackets in an error as markup.
        table.add_row(*map(Text, cells), style=_STYLES.get(row.kind, ""))
    return table
