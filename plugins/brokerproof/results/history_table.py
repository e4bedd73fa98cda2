"""The history as a person reads it in a terminal, and as a list of plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from brokerproof.experiment.verdict import Verdict
from brokerproof.experiment.yaml_models import closest
from brokerproof.results.configurations import Variant, effects, variants
from brokerproof.results.history import History
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.regressions import Comparison

_COLOURS = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.UNKNOWN: "yellow", Verdict.NO_DATA: "yellow"}
_NOTHING = "–"
# A scenario that was rewritten differs in everything.
_DIFFERENCES = 4


def render_history(history: History, scenarios: Sequence[str], limit: int, console: Console) -> None:
    """Print the last runs, newest first, then what got worse in which of them and why.

    Where the scenarios are named and their runs were set up differently, also what that changed. RTO, RPO and the
    longest gap in acks are those of the run's worst fault.
    """
    runs = history.runs(scenarios, limit)
    if not runs:
        console.print(_what_to_do(history, scenarios))
        return
    found = variants(runs, scenarios) if scenarios else []
    variant_of = {run.run_id: variant.name for variant in found for run in variant.runs} if len(found) > 1 else {}
    comparisons = {run.run_id: history.regressions(run) for run in runs}
    title = f"last runs of {escape(', '.join(scenarios))}" if scenarios else "last runs"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    # Only the first columns give way on a narrow terminal, so that every number can be read on 80 columns.
    table.add_column("started (UTC)", min_width=10)
    if len(scenarios) != 1:
        table.add_column("scenario", overflow="fold", min_width=8)
    table.add_column("verdict", min_width=9)
    for name in ("acked", "lost", "RTO\ns", "RPO\nmsgs", "RPO\ns", "ack\ngap s", "took\ns", "worse"):
        table.add_column(name, justify="right", no_wrap=True)
    if variant_of:
        table.add_column("as")
    for run in runs:
        marks = len(comparisons[run.run_id].marks)
        table.add_row(
            f"{run.started_at:%Y-%m-%d %H:%M}",
            *([escape(run.scenario)] if len(scenarios) != 1 else []),
            _verdict(run),
            _number(run.acked),
            _lost(run),
            _number(run.worst("rto_s"), 1),
            _number(run.worst("rpo_messages")),
            _number(run.worst("rpo_s"), 1),
            _number(run.worst("longest_ack_gap_s"), 1),
            _number(run.total_s),
            Text(f"▲ {marks}", style="red") if marks else "",
            *([variant_of.get(run.run_id, "")] if variant_of else []),
        )
    if any(run.count("lost", legal=True) for run in runs):
        table.caption = "lost +n: n more that a destroyed cluster took along; RPO counts what no other one holds"
        table.caption_justify = "left"
    console.print(table)
    for run in runs:
        _print_comparison(run, comparisons[run.run_id], console, newest=run is runs[0])
    if variant_of:
        _print_variants(found, console)


def history_json(history: History, scenarios: Sequence[str], limit: int) -> list[dict[str, Any]]:
    """The last runs, newest first, as plain values: what `--json` prints.

    `variant` tells what a run was set up as, among those listed; None where no scenario was named.
    """
    runs = history.runs(scenarios, limit)
    told = {
        run.run_id: {"name": variant.name, "differs": list(variant.differs)}
        for variant in (variants(runs, scenarios) if scenarios else [])
        for run in variant.runs
    }
    return [_plain(run, history.regressions(run)) | {"variant": told.get(run.run_id)} for run in runs]


def _what_to_do(history: History, scenarios: Sequence[str]) -> str:
    known = history.scenarios()
    if scenarios and known:
        of = " or ".join(f"[bold]{escape(scenario)}[/]" for scenario in scenarios)
        return (
            f"No run of {of} is recorded; {escape(closest(scenarios[0], known))}\n"
            f"Run it with: python -m brokerproof run {escape(scenarios[0])}"
        )
    return (
        f"No run is recorded yet in {escape(history.database)}.\n"
        f"Make one with: python -m brokerproof run {escape(scenarios[0] if scenarios else 'SCENARIO')}\n"
        "What there is to run: python -m brokerproof scenarios"
    )


def _verdict(run: RecordedRun) -> Text:
    """Coloured by whether it is what the scenario expects: a control that fails as it must is good news."""
    if run.met:
        return Text(f"✓ {run.verdict}", style="green") + Text(" as expected" if run.verdict != Verdict.PASSED else "")
    colour = _COLOURS[Verdict(run.verdict)] if run.verdict != Verdict.PASSED else "red"
    what = "not as expected" if run.verdict == run.expected_verdict else f"expected {run.expected_verdict}"
    return Text(f"✗ {run.verdict}", style=colour) + Text(f" {what}", style="default")


def _print_comparison(run: RecordedRun, comparison: Comparison, console: Console, *, newest: bool) -> None:
    """What got worse in a run; for the newest also why something was not compared."""
    heading = Text.assemble("\n", f"{run.started_at:%Y-%m-%d %H:%M} ", (run.run_id, "bold"))
    lines = [Text(f"  ▲ {mark.reason}", style="red") for mark in comparison.marks]
    if comparison.marks and comparison.changed_versions:
        lines.append(Text(f"  changed since the run before: {', '.join(comparison.changed_versions)}"))
    if not run.met:
        lines.append(Text(f"  {run.why}"))
    if newest:
        lines += [Text(f"  {note}", style="dim") for note in comparison.notes]
    if lines:
        console.print(heading, *lines, sep="\n", soft_wrap=True)


def _print_variants(found: Sequence[Variant], console: Console) -> None:
    """What recovery came to with each set-up, where it matters, and how the set-ups differ."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("medians by set-up", overflow="fold")
    for variant in found:
        table.add_column(variant.name, justify="right", no_wrap=True)
    table.add_row("judged runs", *(str(len(variant.judged)) for variant in found))
    for metric, fault, medians in effects(found):
        table.add_row(escape(f"{metric} of {fault}"), *(_number(value, 1) for value in medians))
    console.print("", table, sep="\n")
    for variant in found[1:]:
        more = f"; and {len(variant.differs) - _DIFFERENCES} more" if len(variant.differs) > _DIFFERENCES else ""
        said = "; ".join(variant.differs[:_DIFFERENCES]) + more
        console.print(Text(f"{variant.name} is a with {said}", style="dim"), soft_wrap=True)


def _lost(run: RecordedRun) -> str:
    """What was lost though it must not be, and beside it what a scenario gave up with a cluster's disks."""
    allowed = run.count("lost", legal=True)
    return _number(run.count("lost", legal=False)) + (f"\n+{allowed:,}" if allowed else "")


def _number(value: float | None, decimals: int = 0) -> str:
    return _NOTHING if value is None else f"{value:,.{decimals}f}"


def _plain(run: RecordedRun, comparison: Comparison) -> dict[str, Any]:
    counts = {
        name: getattr(run, name)
        for name in ("publishes", "messages", "acked", "failed", "unknown", "recovered", "stored", "deliveries")
    }
    return {
        "run_id": run.run_id,
        "scenario": run.scenario,
        "topology": run.topology,
        "runtime": run.runtime,
        "system": run.system,
        "system_version": run.system_version,
        "guarantee": run.guarantee,
        "started_at": run.started_at.isoformat(),
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "verdict": run.verdict,
        "expected": run.expected_verdict,
        "met": run.met,
        "why": run.why,
        "suites": dict(run.suites),
        "counts": {
            **counts,
            "legal": {row.anomaly: row.count for row in run.anomaly_counts if row.legal},
            "illegal": {row.anomaly: row.count for row in run.anomaly_counts if not row.legal},
        },
        "measurements": [
            {
                "metric": row.metric,
                "subject": row.subject,
                "value": row.value,
                "unit": row.unit,
                "minimum": row.minimum,
                "maximum": row.maximum,
            }
            for row in run.measurements
        ],
        "seconds": {"total": run.total_s, "phases": run.phases_s, "overhead": run.overhead_s},
        "versions": dict(run.versions),
        "run_dir": run.run_dir,
        "report": run.report,
        "regressions": {
            "marks": [
                {
                    "metric": mark.metric,
                    "subject": mark.subject,
                    "value": mark.value,
                    "usual": mark.usual,
                    "spread": mark.spread,
                    "unit": mark.unit,
                    "reason": mark.reason,
                }
                for mark in comparison.marks
            ],
            "notes": list(comparison.notes),
            "compared_with": list(comparison.compared_with),
            "changed_versions": list(comparison.changed_versions),
        },
    }
