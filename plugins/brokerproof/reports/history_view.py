"""The output of `brokerproof history`: the last runs (also as JSON), groups of runs, and two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from brokerproof.errors import shorten
from brokerproof.experiment.numbers import NOTHING, format_value
from brokerproof.experiment.states import STATES
from brokerproof.experiment.verdict import Verdict
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.reports.verdict_style import VERDICT_STYLES
from brokerproof.results.history import History
from brokerproof.results.history_schema import MEASUREMENT_COLUMNS, RecordedRun
from brokerproof.results.matrix import MATRIX_RULE, make_matrix
from brokerproof.results.rates import RATE_RULE, RateRow
from brokerproof.results.regressions import RunComparison
from brokerproof.results.run_difference import RunDifference
from brokerproof.results.run_groups import GROUP_RULE, MOST_COLUMNS, GroupBy, GroupedMeasurement, RunGroup, list_rows
from brokerproof.results.state_search import StateCount, count_states
from brokerproof.run.judgement import TOTALS

# Further differences are only counted. If the scenario was rewritten, every parameter differs.
_MAX_DIFFERENCES = 4
# The fields of a run that JSON takes over unchanged.
_PLAIN = ("run_id", "scenario", "topology", "runtime", "system", "system_version", "guarantee")


def print_history(history: History, scenarios: Sequence[str], limit: int, console: Console) -> None:
    """Print a table of the last runs of `scenarios` (of all if empty), newest first, and then each run's regressions.

    A regression is a result that is worse than those of earlier runs. RTO, RPO and the longest gap in acks are those of
    the run's worst fault. If the runs have different settings, the last line names the command that compares them.
    """
    runs = history.list_runs(scenarios, limit)
    if not runs:
        console.print(_explain_no_run(history, scenarios))
        return
    is_any_deleted = any(run.deletion for run in runs)
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
    if is_any_deleted:
        table.add_column("deleted", no_wrap=True)
    for run in runs:
        table.add_row(
            f"{run.started_at:%Y-%m-%d %H:%M}",
            *([escape(run.scenario)] if len(scenarios) != 1 else []),
            _format_verdict(run),
            format_value(run.acked),
            _format_lost(run),
            format_value(run.find_worst("rto_s")),
            format_value(run.find_worst("rpo_messages")),
            format_value(run.find_worst("rpo_s")),
            format_value(run.find_worst("longest_ack_gap_s")),
            format_value(run.total_s),
            _format_worse(comparisons[run.run_id]),
            *([_format_deletion(run)] if is_any_deleted else []),
        )
    if any(run.count_anomaly("lost", legal=True) for run in runs):
        table.caption = "lost +n: n more were lost with a destroyed cluster; RPO counts messages that no cluster holds"
        table.caption_justify = "left"
    console.print(table)
    for run in runs:
        _print_comparison(run, comparisons[run.run_id], console, newest=run is runs[0])
    if searching := [run for run in runs if run.parameters["scenario"].get("draw")]:
        print_states(count_states(searching), console)
    if scenarios and len({run.comparable for run in runs}) > 1 and not searching:
        command = f"brokerproof history {escape(' '.join(scenarios))} --by settings"
        console.print(f"\nThese runs differ in their settings: {command}", soft_wrap=True)


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
    """Return the verdict in words. An expected outcome is green, even if its verdict is `failed`."""
    good, bad = VERDICT_STYLES[Verdict.PASSED], VERDICT_STYLES[Verdict.FAILED]
    style = VERDICT_STYLES[Verdict(run.verdict)]
    if run.met:
        what = "" if style is good else " as expected"
        return Text(f"{good.sign} {style.word}", style=good.terminal) + Text(what)
    colour = bad.terminal if style is good else style.terminal
    expected = VERDICT_STYLES[Verdict(run.expected_verdict)]
    what = "not as expected" if expected is style else f"expected {expected.word}"
    return Text(f"{bad.sign} {style.word}", style=colour) + Text(f" {what}", style="default")


def _format_deletion(run: RecordedRun) -> str:
    if run.run_deleted_at is not None:
        return f"all\n{run.run_deleted_at:%Y-%m-%d}"
    return f"tables\n{run.tables_deleted_at:%Y-%m-%d}" if run.tables_deleted_at is not None else ""


def _format_worse(comparison: RunComparison) -> Text:
    if comparison.marks:
        return Text(f"▲ {len(comparison.marks)}", style="red")
    return Text(f"△ {len(comparison.suspicions)}", style="yellow") if comparison.suspicions else Text()


def _print_comparison(run: RecordedRun, comparison: RunComparison, console: Console, *, newest: bool) -> None:
    """Print a run's certain and suspected regressions, and the reason if its result is not the expected one.

    For the newest run, also print the notes, such as why a metric was not compared.
    """
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


def _format_lost(run: RecordedRun) -> str:
    """Return how many losses break the guarantee. If it allows other losses, a second line has their number."""
    allowed = run.count_anomaly("lost", legal=True)
    return format_value(run.count_anomaly("lost", legal=False)) + (f"\n+{allowed:,}" if allowed else "")


def print_groups(groups: Sequence[RunGroup], by: GroupBy, console: Console) -> None:
    """Print a column for each group: the verdicts, and the median and number of runs of each measurement.

    A median that differs from the first group's by more than noise is marked as worse, better or other. The rule for
    this comes once, after the table.
    """
    if not groups:
        console.print("No such run is recorded yet.")
        return
    shown = groups[:MOST_COLUMNS]
    table = _make_table("median, runs", *(group.name for group in shown))
    table.add_row(
        "verdicts", *(", ".join(f"{count} {name}" for name, count in group.verdicts.items()) for group in shown)
    )
    table.add_row("failed", *(_format_rate(group.rate) for group in shown))
    for (metric, subject, _), cells in list_rows(shown):
        table.add_row(_name(metric, subject), *map(_format_cell, cells))
    console.print(table)
    if len(groups) > 1:
        console.print(Text(GROUP_RULE, style="dim"), Text(RATE_RULE, style="dim"), "", sep="\n")
    for group in groups[1:] if by is GroupBy.SETTINGS else ():
        differences = group.differences[:_MAX_DIFFERENCES]
        left_out = len(group.differences) - len(differences)
        more = f"; and {left_out} more" if left_out else ""
        console.print(Text(f"{group.name} is {groups[0].name} with {'; '.join(differences)}{more}"), soft_wrap=True)
    if left_out_names := [group.name for group in groups[MOST_COLUMNS:]]:
        console.print(Text(f"without a column: {', '.join(left_out_names)}"), soft_wrap=True)


def print_matrix(groups: Sequence[RunGroup], console: Console) -> None:
    """Print each case of a scenario's matrix: its verdict, and what its consumers lost and repeated.

    Subscriptions with the same result share a line. A table would be wider than most terminals.
    """
    _, rows = make_matrix(groups)
    if not rows:
        console.print("No such run is recorded yet.")
        return
    for row in rows:
        console.print(Text.assemble((row.case, "bold"), f"  {row.verdict}, reached in {row.reached}, {row.rate}"))
        names: dict[str, list[str]] = {}
        for name, text in row.cells.items():
            names.setdefault(text, []).append(name)
        for text, alike in names.items():
            console.print(Padding(Text(f"{', '.join(alike)}: {text}"), (0, 0, 0, 4)))
    console.print(Text(MATRIX_RULE, style="dim"), Text(RATE_RULE, style="dim"), sep="\n")


def print_states(counts: Sequence[StateCount], console: Console) -> None:
    """Print how many runs reached each state that is worth reaching, the rarest first."""
    table = _make_table("state", "runs", "what it is")
    for count in counts:
        style = "" if count.reached else "red"
        table.add_row(count.state, Text(f"{count.reached} of {count.runs}", style=style), STATES[count.state])
    console.print(table)


def print_difference(difference: RunDifference, console: Console) -> None:
    """Print the settings, versions and results in which run b differs from run a.

    For each result, also print whether it differs by more than noise. The rule for this comes once, at the end.
    """
    console.print(Text.assemble("a ", (difference.a, "bold"), "\nb ", (difference.b, "bold")), soft_wrap=True)
    if not difference.comparable:
        console.print("The two runs do not compare: the different settings may be the reason for different results.")
    for title, changes in (("different settings", difference.settings), ("versions", difference.versions)):
        table = _make_table(title, "a", "b")
        for change in changes:
            table.add_row(escape(change.field), *map(escape, change.texts))
        if table.row_count:
            console.print("", table, sep="\n")
    numbers = (*difference.counts, *difference.measurements)
    columns = ["different results", "a", "b", "b - a", "", "", "more than\nnoise?"]
    if any(word.why for word in difference.words) or any(number.why for number in numbers):
        columns.append("runs before")
    table = _make_table(*columns)
    for word in difference.words:
        answer = _format_answer(word.larger_than_noise)
        cells = (escape(word.name), word.a or NOTHING, word.b or NOTHING, "", "", "", answer, escape(word.why))
        table.add_row(*cells[: len(columns)])
    for number in numbers:
        cells = (
            _name(number.name, number.subject),
            format_value(number.a),
            format_value(number.b),
            format_value(number.difference, sign="+"),
            number.unit,
            "" if number.relative is None else f"{number.relative:+.0%}",
            _format_answer(number.larger_than_noise, worse=number.worse),
            escape(number.why),
        )
        table.add_row(*cells[: len(columns)])
    if table.row_count:
        console.print("", table, "", Text(difference.rule), sep="\n")
    else:
        console.print("\nAll results are equal.")


def _make_table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(escape(name), overflow="fold")
    return table


def _name(metric: str, subject: str) -> str:
    return escape(f"{metric} of {subject}" if subject else metric)


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


def _format_rate(row: RateRow) -> Text:
    rate, difference = row.rate, row.difference
    if not rate.n:
        return Text(NOTHING)
    cell = Text(f"{rate.failed} of {rate.n}\n{rate.low:.0%} to {rate.high:.0%}")
    if difference is not None:
        word, style = ("differs", "bold") if difference.differs else ("not told apart", "dim")
        cell.append(f"\n{word}, p {difference.probability:.2g}", style=style)
        if difference.runs_needed is not None:
            cell.append(f"\nruns needed: {difference.runs_needed}", style="dim")
    return cell


def _format_answer(larger: bool | None, *, worse: bool | None = None) -> Text:
    if larger is None:
        return Text("unknown", style="yellow")
    if not larger:
        return Text("no", style="dim")
    direction = {True: ", worse", False: ", better", None: ""}[worse]
    return Text(f"yes{direction}", style="red" if worse else "green" if worse is False else "bold")


def list_plain_runs(history: History, scenarios: Sequence[str], limit: int) -> list[dict[str, Any]]:
    """Return the last runs, newest first, as values for JSON."""
    return [_make_plain(run, history.compare(run)) for run in history.list_runs(scenarios, limit)]


def _make_plain(run: RecordedRun, comparison: RunComparison) -> dict[str, Any]:
    return {
        **{name: getattr(run, name) for name in _PLAIN},
        "started_at": run.started_at.isoformat(),
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "verdict": run.verdict,
        "expected": run.expected_verdict,
        "met": run.met,
        "why": run.why,
        "suites": dict(run.suites),
        "not_applicable": sorted(row.expectation for row in run.checks if row.verdict == Verdict.NOT_APPLICABLE),
        "counts": {
            **{name: getattr(run, name) for name in TOTALS},
            "legal": {row.anomaly: row.count for row in run.anomaly_counts if row.legal},
            "illegal": {row.anomaly: row.count for row in run.anomaly_counts if not row.legal},
        },
        "measurements": [
            {name: getattr(row, name) for name in MEASUREMENT_COLUMNS if name != "suite"} for row in run.measurements
        ],
        "seconds": {"total": run.total_s, "phases": run.phases_s, "overhead": run.overhead_s},
        "versions": dict(run.versions),
        "run_dir": run.run_dir,
        "report": run.report,
        "tables_deleted_at": run.tables_deleted_at.isoformat() if run.tables_deleted_at else None,
        "run_deleted_at": run.run_deleted_at.isoformat() if run.run_deleted_at else None,
        "deletion": run.deletion,
        "regressions": {name: value for name, value in asdict(comparison).items() if name != "run_id"},
    }
