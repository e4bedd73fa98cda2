"""A run's outcome on a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from brokerproof.errors import shorten
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.numbers import format_bounds, format_time, format_value
from brokerproof.experiment.verdict import Verdict
from brokerproof.reports.latency_picture import PICTURE
from brokerproof.reports.verdict_style import VERDICT_STYLES
from brokerproof.run.outcome import BriefOutcome, LatenciesByTime, NodeRestarts, Outcome

# In characters.
_LONGEST_REASON = 400
# Columns of more faults are too narrow to be read.
_MOST_FAULTS = 8


def print_outcome(outcome: BriefOutcome, problems: Mapping[str, str], console: Console) -> None:
    """Print the verdict, the story, the counts, the measurements, and the paths of the run's directory and report.

    The story tells of faults and messages. It replaces the reasons for the verdict if the run passed as expected. If
    `outcome` is only a BriefOutcome, the verdict, its reasons and the directory are printed. `problems` is {failed
    Airflow task: a sentence about it}.
    """

    def line(text: str | Text, style: str = "") -> None:
        console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    whole = outcome if isinstance(outcome, Outcome) else None
    met = ("as expected", "green") if outcome.met else ("not as expected", "red")
    line(Text.assemble("\n", (outcome.scenario, "bold"), ": ", _format_verdict(outcome.verdict, "bold"), ", ", met))
    if whole and whole.story:
        line(whole.story)
    if not (whole and whole.story and outcome.met and outcome.verdict is Verdict.PASSED):
        line(outcome.why)
    for note in whole.notes if whole else ():
        line(note)
    for task, sentence in problems.items():
        line(f"task {task} failed: {sentence}", "red")
    if whole:
        line(_format_counts(whole))
        if whole.suites:
            suites = [Text(f"{name} ") + _format_verdict(verdict) for name, verdict in whole.suites.items()]
            line(Text("suites: ") + Text(", ").join(suites))
        for name, why in whole.unknown_suites.items():
            line(f"suite {name} is unknown: {shorten(why, _LONGEST_REASON)}")
        for why in dict.fromkeys(whole.not_applicable.values()):
            names = [name for name, reason in whole.not_applicable.items() if reason == why]
            line(f"not applicable: {', '.join(names)} ({why})")
        for node in whole.restarts:
            line(describe_restarts(node))
        if len(whole.recovery) > _MOST_FAULTS:
            line(f"recovery: the report has it of all {len(whole.recovery)} faults")
        elif whole.recovery:
            console.print(_tabulate_recovery(whole))
            for reason, names in _group_unmeasured(whole).items():
                line(f"not measured: {', '.join(names)} ({reason})")
        if whole.latency:
            console.print(_tabulate_latencies(whole.latency, "publish latency, p50 and p99 in ms"))
            if whole.link:
                title = "added by the link beyond its delay, p50 and p99 in ms"
                console.print(_tabulate_latencies(whole.link, title))
            line(f"picture: {whole.run_dir}/{PICTURE}")
        steps = (f"{step} {took:.0f}" for step, took in whole.seconds.steps.items() if took is not None)
        line(f"seconds: {format_value(whole.seconds.total)} ({', '.join(steps)})")
    if whole and whole.triggered_by:
        line(f"triggered by: {whole.triggered_by}")
    line(f"run dir: {outcome.run_dir}")
    if whole:
        line(f"report: {whole.report}")


def _format_verdict(verdict: Verdict, more: str = "") -> Text:
    style = VERDICT_STYLES[verdict]
    return Text(style.word, style=f"{more} {style.terminal}".strip())


def _format_counts(outcome: Outcome) -> str:
    totals = {name: count for name, count in outcome.counts.items() if isinstance(count, int)}
    parts = [
        f"{totals[name]:,} {name}"
        for name in ("publishes", "acked", "unknown", "stored", "deliveries")
        if name in totals
    ]
    parts += [f"{totals['not_sent']:,} not sent"] if totals.get("not_sent") else []
    for kind in ("illegal", "legal"):
        found = outcome.counts.get(kind)
        parts += [
            f"{count:,} {name} ({kind})" for name, count in (found if isinstance(found, dict) else {}).items() if count
        ]
    return "messages: " + (", ".join(parts) or "nothing was counted")


def describe_restarts(restarts: NodeRestarts) -> str:
    """Return a sentence about the ends and restarts of a node, without a full stop."""
    ended = f"{restarts.node} ended by itself at {format_time(restarts.first_ended_at)} UTC"
    if restarts.first_restarted_at is None:
        return f"{ended} and was not started again by its service manager"
    after_s = (restarts.first_restarted_at - restarts.first_ended_at) / 1e6
    again = f"{ended} and was started again after {after_s:.0f} s"
    if restarts.ended == 1:
        return again
    return f"{again}; in all it ended {restarts.ended} times and was started {restarts.restarted} times"


def _tabulate_recovery(outcome: Outcome) -> Table:
    """Return a table with metrics as rows and faults as columns. A value is followed by its bounds, in parentheses.

    A value without a bound is grey, because nothing judges it.
    """
    table = Table(title="recovery", title_justify="left")
    table.add_column("metric")
    for fault in outcome.recovery:
        table.add_column(fault, justify="right")
    for name in dict.fromkeys(name for measured in outcome.recovery.values() for name in measured):
        cells = []
        for fault, measured in outcome.recovery.items():
            value = format_value(measured.get(name), METRICS[name].unit if name in METRICS else "")
            bounds = format_bounds(*outcome.bounds.get(fault, {}).get(name, (None, None)))
            is_free = not bounds and measured.get(name) is not None
            more = f" ({', '.join(bounds) or 'no bound'})" if bounds or is_free else ""
            cells.append(Text(f"{value}{more}", style="" if bounds else "dim"))
        table.add_row(name, *cells)
    table.caption = "– is not measured"
    return table


def _group_unmeasured(outcome: Outcome) -> dict[str, list[str]]:
    """Return the measurements without a value as {reason: [`METRIC of FAULT`, …]}."""
    names: dict[str, list[str]] = {}
    for fault, reasons in outcome.unmeasured.items():
        for metric, reason in reasons.items():
            names.setdefault(reason, []).append(f"{metric} of {fault}")
    return names


def _tabulate_latencies(latency: LatenciesByTime, title: str) -> Table:
    """Return a table of p50 and p99. Rows are faults and phases, and columns are clusters or links (`REGION>OTHER`)."""
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
