"""Two runs side by side on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from brokerproof.results.run_difference import RunDifference, SettingDifference

_NO_VALUE = "–"


def print_difference(difference: RunDifference, console: Console) -> None:
    """Print the settings and results in which b differs from a, and whether each result differs by more than noise."""
    console.print(Text.assemble("a ", (difference.a, "bold"), "\nb ", (difference.b, "bold")), soft_wrap=True)
    if not difference.comparable:
        console.print("The two runs do not compare: what was set otherwise may be why something came out otherwise.")
    _print_settings("set otherwise", difference.settings, console)
    _print_settings("versions", difference.versions, console)
    table = _make_table("came out otherwise", "a", "b", "b - a", "", "more than noise?", "because")
    for word in difference.words:
        table.add_row(
            escape(word.name), word.a or _NO_VALUE, word.b or _NO_VALUE, "", "", _format_answer(word.larger_than_noise),
            escape(word.why),
        )  # fmt: skip
    for number in (*difference.counts, *difference.measurements):
        table.add_row(
            escape(f"{number.name} of {number.subject}" if number.subject else number.name),
            _format_value(number.a, number.unit),
            _format_value(number.b, number.unit),
            _format_value(number.difference, number.unit, sign="+"),
            "" if number.relative is None else f"{number.relative:+.0%}",
            _format_answer(number.larger_than_noise, worse=number.worse),
            escape(number.why),
        )
    if table.row_count:
        console.print("", table, sep="\n")
    else:
        console.print("\nNothing came out otherwise.")


def _print_settings(title: str, changes: Iterable[SettingDifference], console: Console) -> None:
    table = _make_table(title, "a", "b")
    for change in changes:
        table.add_row(escape(change.field), *(escape(_format_setting(value)) for value in (change.a, change.b)))
    if table.row_count:
        console.print("", table, sep="\n")


def _make_table(first: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    for name in (first, *others):
        table.add_column(name, overflow="fold")
    return table


def _format_setting(value: Any) -> str:
    return "not set" if value is None else str(value)


def _format_value(value: float | None, unit: str, *, sign: str = "") -> str:
    if value is None:
        return _NO_VALUE
    return f"{value:{sign},.0f}" if unit in ("messages", "ledgers") else f"{value:{sign},.4g} {unit}"


def _format_answer(larger: bool | None, *, worse: bool | None = None) -> Text:
    if larger is None:
        return Text("unknown", style="yellow")
    if not larger:
        return Text("no", style="dim")
    direction = {True: ", worse", False: ", better", None: ""}[worse]
    return Text(f"yes{direction}", style="red" if worse else "green" if worse is False else "bold")
