"""The runs of one scenario in groups, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from brokerproof.results.numbers import NOTHING, format_value
from brokerproof.results.run_groups import GroupBy, GroupedMeasurement, RunGroup


def print_groups(groups: Sequence[RunGroup], by: GroupBy, console: Console) -> None:
    """Print a column for each group: its verdicts, and each measurement's median, number of runs and change."""
    if not groups:
        console.print("No run of it is recorded yet.")
        return
    if by is GroupBy.SETTINGS:
        for group in groups[1:]:
            console.print(escape(f"settings {group.name}: {'; '.join(group.differences)}"), soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("median, runs", *(group.name for group in groups)):
        table.add_column(escape(title), overflow="fold")
    table.add_row(
        "verdicts", *(", ".join(f"{count} {name}" for name, count in group.verdicts.items()) for group in groups)
    )
    names = dict.fromkeys(_name(one) for group in groups for one in group.measurements)
    for name in names:
        found = [{_name(one): one for one in group.measurements}.get(name) for group in groups]
        table.add_row(escape(f"{name[0]} of {name[1]}" if name[1] else name[0]), *map(_format_cell, found))
    console.print(table)


def _name(one: GroupedMeasurement) -> tuple[str, str, str]:
    return one.metric, one.subject, one.unit


def _format_cell(one: GroupedMeasurement | None) -> Text:
    if one is None:
        return Text(NOTHING)
    cell = Text(f"{format_value(one.median, one.unit)}, {one.n}")
    if one.larger_than_noise:
        word, style = {True: ("worse", "red"), False: ("better", "green"), None: ("other", "bold")}[one.worse]
        cell.append(f" {word}", style=style)
    elif one.larger_than_noise is None and one.difference:
        cell.append(" unknown", style="yellow")
    return cell
