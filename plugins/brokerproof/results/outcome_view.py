"""A run's outcome on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from brokerproof.experiment.metrics import METRICS
from brokerproof.results.publish_latencies import PICTURE

_STYLES = {"passed": "green", "failed": "red", "unknown": "yellow", "no_data": "yellow"}


def print_outcome(outcome: Mapping[str, Any], problems: Mapping[str, str], console: Console) -> None:
    """The verdict and why, what was counted, what was measured, and where to read more."""

    def line(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    verdict = str(outcome["verdict"])
    met = "[green]as expected[/]" if outcome["met"] else "[red]not as expected[/]"
    line(f"\n[bold]{outcome['scenario']}[/]: [bold {_STYLES.get(verdict, 'white')}]{verdict}[/], {met}")
    console.print(str(outcome["why"]), markup=False, highlight=False, soft_wrap=True)
    for task, sentence in problems.items():
        console.print(f"task {task} failed: {sentence}", style="red", markup=False, highlight=False, soft_wrap=True)
    if counts := outcome.get("counts"):
        console.print(_counted(counts), highlight=False, soft_wrap=True)
    if suites := outcome.get("suites"):
        line("suites: " + ", ".join(f"{name} [{_STYLES.get(was, 'white')}]{was}[/]" for name, was in suites.items()))
    if recovery := outcome.get("recovery"):
        console.print(_recovery(recovery))
    if latency := outcome.get("latency"):
        console.print(_by_time(latency, "publish latency, p50 and p99 in ms"))
        if added := outcome.get("link"):
            console.print(_by_time(added, "of it the link's own, beyond its delay, p50 and p99 in ms"))
        line(f"picture: {outcome['run_dir']}/{PICTURE}")
    if seconds := outcome.get("seconds"):
        line(_seconds(seconds))
    for name in ("run_dir", "report"):
        if outcome.get(name):
            line(f"{name.replace('_', ' ')}: {outcome[name]}")


def _counted(counts: Mapping[str, Any]) -> str:
    said = [
        f"{counts[name]:,} {name}"
        for name in ("publishes", "acked", "unknown", "stored", "deliveries")
        if counts.get(name) is not None
    ]
    for kind in ("illegal", "legal"):
        said += [f"{count:,} {name} ({kind})" for name, count in (counts.get(kind) or {}).items() if count]
    return "messages: " + (", ".join(said) or "nothing was counted")


def _recovery(recovery: Mapping[str, Mapping[str, Any]]) -> Table:
    """One column a fault, one row a metric."""
    table = Table(title="recovery", title_justify="left")
    table.add_column("metric")
    for fault in recovery:
        table.add_column(fault, justify="right")
    names = dict.fromkeys(name for measured in recovery.values() for name in measured)
    for name in names:
        values = (recovery[fault].get(name) for fault in recovery)
        table.add_row(name, *("–" if value is None else f"{value:,g}" for value in values), end_section=False)
    if any(name in METRICS for name in names):
        table.caption = "– is not measured"
    return table


def _by_time(latency: Mapping[str, Mapping[str, Mapping[str, Any]]], title: str) -> Table:
    """One row a time, one column a cluster or a way."""
    columns = list(dict.fromkeys(column for by_column in latency.values() for column in by_column))
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    for when, by_column in latency.items():
        quantiles = ((by_column.get(column) or {}).get(name) for column in columns for name in ("p50_ms", "p99_ms"))
        said = ["–" if value is None else f"{value:,.1f}" for value in quantiles]
        table.add_row(when, *(" / ".join(pair) for pair in zip(said[::2], said[1::2], strict=True)))
    return table


def _seconds(seconds: Mapping[str, Any]) -> str:
    steps = ", ".join(f"{step} {took:.0f}" for step, took in (seconds.get("steps") or {}).items() if took is not None)
    total = seconds.get("total")
    return f"seconds: {'–' if total is None else f'{total:.0f}'} ({steps})"
