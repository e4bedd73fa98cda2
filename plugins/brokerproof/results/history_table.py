"""The history as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from brokerproof.errors import shorten
from brokerproof.experiment.verdict import Verdict
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.results.configurations import Configuration, list_configurations, list_effects
from brokerproof.results.history import History
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.regressions import RunComparison

_COLOURS = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.UNKNOWN: "yellow", Verdict.NO_DATA: "yellow"}
_NO_VALUE = "–"
# The line stays short even if the scenario was rewritten and every parameter differs.
_MAX_DIFFERENCES = 4


def print_history(history: History, scenarios: Sequence[str], limit: int, console: Console) -> None:
    """Print the last runs, newest first, then the regressions of each run with their reasons.

    If scenarios are given and their runs have several configurations, a table compares the configurations. RTO, RPO and
    the longest gap in acks are those of the run's worst fault.
    """
    runs = history.list_runs(scenarios, limit)
    if not runs:
        console.print(_explain_no_run(history, scenarios))
        return
    configurations = list_configurations(runs, scenarios) if scenarios else []
    letters: dict[str, str] = {}
    if len(configurations) > 1:
        letters = {run.run_id: configuration.name for configuration in configurations for run in configuration.runs}
    comparisons = {run.run_id: history.compare(run) for run in runs}
    title = f"last runs of {escape(', '.join(scenarios))}" if scenarios else "last runs"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    # On a narrow terminal only the first columns shrink, so every number is readable on 80 columns.
    table.add_column("started (UTC)", min_width=10)
    if len(scenarios) != 1:
        table.add_column("scenario", overflow="fold", min_width=8)
    table.add_column("verdict", min_width=9)
    for name in ("acked", "lost", "RTO\ns", "RPO\nmsgs", "RPO\ns", "ack\ngap s", "took\ns", "worse"):
        table.add_column(name, justify="right", no_wrap=True)
    if letters:
        table.add_column("as")
    if any(run.deletion for run in runs):
        table.add_column("deleted", no_wrap=True)
    for run in runs:
        table.add_row(
            f"{run.started_at:%Y-%m-%d %H:%M}",
            *([escape(run.scenario)] if len(scenarios) != 1 else []),
            _format_verdict(run),
            _format_number(run.acked),
            _format_lost(run),
            _format_number(run.find_worst("rto_s"), 1),
            _format_number(run.find_worst("rpo_messages")),
            _format_number(run.find_worst("rpo_s"), 1),
            _format_number(run.find_worst("longest_ack_gap_s"), 1),
            _format_number(run.total_s),
            _format_worse(comparisons[run.run_id]),
            *([letters.get(run.run_id, "")] if letters else []),
            *([_format_deletion(run)] if any(other.deletion for other in runs) else []),
        )
    if any(run.count_anomaly("lost", legal=True) for run in runs):
        table.caption = "lost +n: n more were lost with a destroyed cluster; RPO counts messages that no cluster holds"
        table.caption_justify = "left"
    console.print(table)
    for run in runs:
        _print_comparison(run, comparisons[run.run_id], console, newest=run is runs[0])
    if letters:
        _print_configurations(configurations, console)


def _explain_no_run(history: History, scenarios: Sequence[str]) -> str:
    known = history.count_runs()
    if scenarios and known:
        of = " or ".join(f"[bold]{escape(shorten(scenario))}[/]" for scenario in scenarios)
        return (
            f"No run of {of} is recorded; {escape(suggest_name(scenarios[0], known))}\n"
            f"Run it with: brokerproof run {escape(shorten(scenarios[0]))}"
        )
    return (
        f"No run is recorded yet in {escape(history.database)}.\n"
        f"Make one with: brokerproof run {escape(shorten(scenarios[0]) if scenarios else 'SCENARIO')}\n"
        "The scenarios that there are: brokerproof scenarios"
    )


def _format_verdict(run: RecordedRun) -> Text:
    """Return the verdict, green if the outcome is the expected one, so a control that fails as expected is green."""
    if run.met:
        return Text(f"✓ {run.verdict}", style="green") + Text(" as expected" if run.verdict != Verdict.PASSED else "")
    colour = _COLOURS[Verdict(run.verdict)] if run.verdict != Verdict.PASSED else "red"
    what = "not as expected" if run.verdict == run.expected_verdict else f"expected {run.expected_verdict}"
    return Text(f"✗ {run.verdict}", style=colour) + Text(f" {what}", style="default")


def _format_deletion(run: RecordedRun) -> str:
    if run.run_deleted_at is not None:
        return f"all\n{run.run_deleted_at:%Y-%m-%d}"
    return f"tables\n{run.tables_deleted_at:%Y-%m-%d}" if run.tables_deleted_at is not None else ""


def _format_worse(comparison: RunComparison) -> Text:
    """Return the number of regressions or, if there is none, the number of suspicions."""
    if comparison.marks:
        return Text(f"▲ {len(comparison.marks)}", style="red")
    return Text(f"△ {len(comparison.suspicions)}", style="yellow") if comparison.suspicions else Text()


def _print_comparison(run: RecordedRun, comparison: RunComparison, console: Console, *, newest: bool) -> None:
    """Print the regressions of a run; for the newest run also the notes, such as why a metric was not compared."""
    heading = Text.assemble("\n", f"{run.started_at:%Y-%m-%d %H:%M} ", (run.run_id, "bold"))
    lines = [Text(f"  ▲ {mark.reason}", style="red") for mark in comparison.marks]
    lines += [Text(f"  △ {suspicion.reason}", style="yellow") for suspicion in comparison.suspicions]
    if lines and comparison.changed_versions:
        lines.append(Text(f"  changed since the run before: {', '.join(comparison.changed_versions)}"))
    if not run.met:
        lines.append(Text(f"  {run.why}"))
    if newest:
        lines += [Text(f"  {note}", style="dim") for note in comparison.notes]
    if lines:
        console.print(heading, *lines, sep="\n", soft_wrap=True)


def _print_configurations(configurations: Sequence[Configuration], console: Console) -> None:
    """Print the metrics of recovery that differ between configurations, and the differences of their parameters."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("medians by set-up", overflow="fold")
    for configuration in configurations:
        table.add_column(configuration.name, justify="right", no_wrap=True)
    table.add_row("judged runs", *(str(len(configuration.decisive_runs)) for configuration in configurations))
    for metric, fault, medians in list_effects(configurations):
        table.add_row(escape(f"{metric} of {fault}"), *(_format_number(value, 1) for value in medians))
    console.print("", table, sep="\n")
    for configuration in configurations[1:]:
        differences = configuration.differences[:_MAX_DIFFERENCES]
        left_out = len(configuration.differences) - len(differences)
        parts = [*differences, f"and {left_out} more"] if left_out else differences
        console.print(Text(f"{configuration.name} is a with {'; '.join(parts)}", style="dim"), soft_wrap=True)


def _format_lost(run: RecordedRun) -> str:
    """Return the number of illegal losses and, below it, of those that the scenario accepts with a cluster's disks."""
    allowed = run.count_anomaly("lost", legal=True)
    return _format_number(run.count_anomaly("lost", legal=False)) + (f"\n+{allowed:,}" if allowed else "")


def _format_number(value: float | None, decimals: int = 0) -> str:
    return _NO_VALUE if value is None else f"{value:,.{decimals}f}"
