"""A run's outcome on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.numbers import format_value
from brokerproof.experiment.verdict import Verdict
from brokerproof.reports.latency_picture import PICTURE
from brokerproof.results.restarts import describe_restarts
from brokerproof.run.outcome import NodeRestarts

_STYLES = {"passed": "green", "failed": "red", "unknown": "yellow", "no_data": "yellow"}


def print_outcome(outcome: Mapping[str, Any], problems: Mapping[str, str], console: Console) -> None:
    """Print the verdict, the story, the counts, the measurements, and the paths of the run's directory and report.

    The reasons are left out if the verdict is `passed` as expected and there is a story. `problems` are sentences by
    failed task.
    """

    def line(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    verdict = str(outcome["verdict"])
    met = "[green]as expected[/]" if outcome["met"] else "[red]not as expected[/]"
    line(f"\n[bold]{outcome['scenario']}[/]: [bold {_STYLES.get(verdict, 'white')}]{verdict}[/], {met}")
    if story := outcome.get("story"):
        console.print(str(story), markup=False, highlight=False, soft_wrap=True)
    if not story or verdict != Verdict.PASSED or not outcome["met"]:
        console.print(str(outcome["why"]), markup=False, highlight=False, soft_wrap=True)
    for note in outcome.get("notes") or ():
        console.print(str(note), markup=False, highlight=False, soft_wrap=True)
    for task, sentence in problems.items():
        console.print(f"task {task} failed: {sentence}", style="red", markup=False, highlight=False, soft_wrap=True)
    if counts := outcome.get("counts"):
        console.print(_format_counts(counts), highlight=False, soft_wrap=True)
    if suites := outcome.get("suites"):
        line("suites: " + ", ".join(f"{name} [{_STYLES.get(was, 'white')}]{was}[/]" for name, was in suites.items()))
    for name, why in (outcome.get("not_applicable") or {}).items():
        line(f"not applicable: {name} ({why})")
    for node in outcome.get("restarts") or ():
        line(describe_restarts(NodeRestarts.model_validate(node)))
    if recovery := outcome.get("recovery"):
        console.print(_tabulate_recovery(recovery, outcome.get("bounds") or {}))
    if latency := outcome.get("latency"):
        console.print(_tabulate_latencies(latency, "publish latency, p50 and p99 in ms"))
        if added := outcome.get("link"):
            console.print(_tabulate_latencies(added, "of it the link's own, beyond its delay, p50 and p99 in ms"))
        line(f"picture: {outcome['run_dir']}/{PICTURE}")
    if seconds := outcome.get("seconds"):
        line(_format_durations(seconds))
    for name in ("run_dir", "report"):
        if outcome.get(name):
            line(f"{name.replace('_', ' ')}: {outcome[name]}")


def _format_counts(counts: Mapping[str, Any]) -> str:
    parts = [
        f"{counts[name]:,} {name}"
        for name in ("publishes", "acked", "unknown", "stored", "deliveries")
        if counts.get(name) is not None
    ]
    parts += [f"{counts['not_sent']:,} not sent"] if counts.get("not_sent") else []
    for kind in ("illegal", "legal"):
        parts += [f"{count:,} {name} ({kind})" for name, count in (counts.get(kind) or {}).items() if count]
    return "messages: " + (", ".join(parts) or "nothing was counted")


def _tabulate_recovery(recovery: Mapping[str, Mapping[str, Any]], bounds: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return a table with metrics as rows and faults as columns. The bounds in force follow the values."""
    table = Table(title="recovery", title_justify="left")
    table.add_column("metric")
    for fault in recovery:
        table.add_column(fault, justify="right")
    names = dict.fromkeys(name for measured in recovery.values() for name in measured)
    for name in names:
        unit = METRICS[name].unit if name in METRICS else ""
        values = (
            format_value(recovery[fault].get(name), unit) + _format_bounds((bounds.get(fault) or {}).get(name))
            for fault in recovery
        )
        table.add_row(name, *values, end_section=False)
    if any(name in METRICS for name in names):
        table.caption = "– is not measured"
    return table


def _format_bounds(bounds: Sequence[float | None] | None) -> str:
    least, greatest = bounds or (None, None)
    parts = [
        *([] if least is None else [f"at least {format_value(least)}"]),
        *([] if greatest is None else [f"at most {format_value(greatest)}"]),
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _tabulate_latencies(latency: Mapping[str, Mapping[str, Mapping[str, Any]]], title: str) -> Table:
    """Return a table with faults and phases as rows, and clusters or ways as columns."""
    columns = list(dict.fromkeys(column for by_column in latency.values() for column in by_column))
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    for when, by_column in latency.items():
        quantiles = ((by_column.get(column) or {}).get(name) for column in columns for name in ("p50_ms", "p99_ms"))
        texts = ["–" if value is None else f"{value:,.1f}" for value in quantiles]
        table.add_row(when, *(" / ".join(pair) for pair in zip(texts[::2], texts[1::2], strict=True)))
    return table


def _format_durations(seconds: Mapping[str, Any]) -> str:
    steps = ", ".join(f"{step} {took:.0f}" for step, took in (seconds.get("steps") or {}).items() if took is not None)
    total = seconds.get("total")
    return f"seconds: {'–' if total is None else f'{total:.0f}'} ({steps})"
