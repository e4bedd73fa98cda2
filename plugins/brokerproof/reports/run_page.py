"""The HTML pages of one run and of each of its tables. The page of a table has its first rows and its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import fsspec
import pyarrow as pa
import yaml

from brokerproof import clock
from brokerproof.errors import InputError, RunError
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.numbers import format_seconds, format_value
from brokerproof.experiment.verdict import Verdict
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.reports.pages import Page, render
from brokerproof.reports.run_report import (
    NOT_MEASURED,
    ExpectationRow,
    RunReport,
    describe_measurement,
    explain_unmeasured,
)
from brokerproof.reports.timeline_chart import draw_timeline
from brokerproof.results.anomaly_samples import read_anomaly_samples
from brokerproof.run.directory import Run
from brokerproof.run.measurement import Measurement
from brokerproof.run.table_rows import iterate_rows
from brokerproof.run.tables import SCHEMAS

# The event at the end of each time after a fault, by metric. Times that clients see begin at the injection.
_MILESTONES = {
    "detect_s": "failure detected",
    "reassign_s": "topic reassigned",
    "first_ack_s": "first ack everywhere",
    "rto_s": "last interruption over",
    "backlog_drain_s": "backlog drained",
    "rereplicate_s": "data replicated again",
}
_SAMPLES = 200


def render_run_page(
    report: RunReport,
    page: Page,
    links: Sequence[tuple[str, str]] = (),
    logs: Sequence[tuple[str, str]] = (),
    *,
    worse: Sequence[str] = (),
    suspected: Sequence[str] = (),
) -> str:
    """Return the page of a run as HTML.

    `links` lead to related pages, and `logs` to the logs of the run's Airflow tasks; an item of either is (text,
    address). `worse` and `suspected` are the history's sentences about confirmed and about suspected regressions of the
    run.
    """
    values = _list_values(report) | {"links": links, "logs": logs, "worse": worse, "suspected": suspected}
    return render("run.html.j2", page, values)


def _list_values(report: RunReport) -> dict[str, Any]:
    series = report.series
    seconds = report.outcome.seconds
    return {
        "report": report,
        "started": f"{report.run.facts.created_at:%Y-%m-%d %H:%M:%S} UTC",
        "timeline": draw_timeline(series, report.faults, report.outcome.recovery)
        if series is not None and series.steps
        else None,
        "recovery": list(_list_recovery(report)),
        "regions": list(_list_regions(report)),
        "suites": list(_list_suites(report)),
        "anomalies": list(_list_anomalies(report)),
        "samples": _read_samples(report),
        "durations": {
            "total": format_seconds(seconds.total),
            "phases": format_seconds(seconds.phases),
            "steps": [
                *((step, format_value(took)) for step, took in seconds.steps.items()),
                *((f"verify: {part}", format_value(took)) for part, took in seconds.judging.items()),
            ],
        },
        "scenario_text": _to_yaml(report.run.facts.scenario),
        "topology_text": _to_yaml(report.run.facts.topology),
        "tables": [(name, report.run.table(name)) for name in SCHEMAS],
    }


def _list_recovery(report: RunReport) -> Iterator[dict[str, Any]]:
    judgement = report.judgement
    if judgement is None:
        return
    rows = [row for row in judgement.measurements if row.suite == "recovery"]
    for name in dict.fromkeys(row.subject for row in rows if METRICS[row.metric].is_per_fault):
        rows_of_fault = [row for row in rows if row.subject == name]
        parts = list(_divide_recovery(rows_of_fault))
        yield {
            "name": name,
            "parts": parts,
            "description": f"Recovery from {name}: {', '.join(part['title'] for part in parts) or 'nothing measured'}",
            "rows": [
                {
                    "metric": row.metric,
                    "meaning": METRICS[row.metric].meaning,
                    **describe_measurement(row, judgement.find_bounds(row))._asdict(),
                }
                for row in rows_of_fault
            ],
        }


def _divide_recovery(rows: Sequence[Measurement]) -> Iterator[dict[str, Any]]:
    """Yield the parts of the recovery from one fault. Each ends at a measured milestone, such as the first ack.

    The first part begins at the injection. `start` and `length` of a part are percentages of the time from the
    injection to the last milestone.
    """
    reached = sorted(
        (row.value, _MILESTONES[row.metric]) for row in rows if row.metric in _MILESTONES and row.value is not None
    )
    whole = reached[-1][0] if reached else 0.0
    before = 0.0
    for value, what in reached:
        start, end = (100 * at / whole if whole else 0.0 for at in (before, value))
        yield {
            "title": f"{what} after {format_seconds(value)}",
            "more": f"+{format_seconds(value - before)}",
            "start": f"{start:.2f}",
            "length": f"{end - start:.2f}",
        }
        before = value


def _list_regions(report: RunReport) -> Iterator[dict[str, Any]]:
    topology = report.run.topology
    done: dict[str, list[str]] = {}
    for fault in report.faults:
        if fault.course.effective_at is not None:
            for node in fault.course.targets:
                done.setdefault(node, []).append(fault.course.fault)
    for region in topology.regions:
        nodes = [
            {
                "name": name,
                "role": node.role,
                "rack": node.rack,
                "faults": done.get(name, []),
                "held": _describe_segments(report, name),
            }
            for name, node in topology.nodes.items()
            if node.region == region
        ]
        yield {"name": region, "nodes": nodes}


def _describe_segments(report: RunReport, node: str) -> str:
    parts = [
        f"{moment.moment}: {moment.holders.get(node, 0)} of {moment.count} segments"
        for moment in report.segments
        if any(node in one.holders for one in report.segments)
    ]
    return "; ".join(parts)


def _list_suites(report: RunReport) -> Iterator[dict[str, Any]]:
    rows = report.expectations
    for name, suite in report.judgement.suites.items() if report.judgement else ():
        rows_of_suite = [row for row in rows if row.suite == str(name)]
        yield {
            "name": str(name),
            "verdict": suite.worst,
            "why": suite.why,
            "rows": [row for row in rows_of_suite if not _explain_absence(row)],
            "absent": [(row.check, why) for row in rows_of_suite if (why := _explain_absence(row))],
        }


def _explain_absence(row: ExpectationRow) -> str:
    """Return why an expectation has nothing to judge; empty if it has."""
    if row.check.verdict is Verdict.NOT_APPLICABLE:
        return f"not applicable: {row.check.why}"
    return f"not measured: {explain_unmeasured(row.check)}" if row.gap == NOT_MEASURED else ""


def _list_anomalies(report: RunReport) -> Iterator[dict[str, Any]]:
    if report.judgement is None:
        return
    counts = report.judgement.counts
    for anomaly in dict.fromkeys([*counts.illegal, *counts.legal]):
        illegal, legal = counts.illegal.get(anomaly, 0), counts.legal.get(anomaly, 0)
        if illegal or legal:
            yield {"name": str(anomaly), "illegal": illegal, "legal": legal}


def _read_samples(report: RunReport) -> list[dict[str, Any]]:
    """Return samples of the run's anomalies, or one row with the reason if they cannot be read.

    If the run was not judged, the result is empty.
    """
    if report.judgement is None:
        return []
    try:
        return read_anomaly_samples(report.run, report.judgement.counts, _SAMPLES)
    except RunError as error:
        empty = dict.fromkeys(SCHEMAS["anomalies"].names)
        return [{**empty, "anomaly": "unreadable", "legal": False, "detail": f"{error}."}]


def _to_yaml(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)


_ROWS = 50
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class RawTable:
    """A table of a run. `files` are (name, size in bytes). `rows` are the first `_ROWS` rows, as {column: value}."""

    run_id: str
    name: str
    location: str
    files: tuple[tuple[str, int], ...]
    rows: tuple[dict[str, Any], ...]


def read_raw_table(run: Run, table: str) -> RawTable:
    """Return a table of a run. Raises InputError for an unknown table, and RunError for a damaged one."""
    files = tuple(_list_parts(run, table))
    times = [field.name for field in SCHEMAS[table] if pa.types.is_timestamp(field.type)]
    rows = [
        row | {name: clock.to_utc(row[name]) for name in times if row[name] is not None}
        for row in islice(iterate_rows(run, table), _ROWS)
    ]
    return RawTable(run_id=run.run_id, name=table, location=run.table(table), files=files, rows=tuple(rows))


def open_table_file(run: Run, table: str, name: str) -> Iterator[bytes]:
    """Return the content of a table's file, as blocks of bytes. Raises InputError if there is no such table or file."""
    names = [found for found, _ in _list_parts(run, table)]
    if name not in names:
        raise InputError(
            f"the table {table} has no file `{name}`", file=run.directory, remedy=suggest_name(name, names)
        )
    return _read_blocks(f"{run.table(table)}/{name}")


def render_table(table: RawTable, page: Page) -> str:
    return render("table.html.j2", page, {"table": table, "columns": SCHEMAS[table.name].names, "most": _ROWS})


def _list_parts(run: Run, table: str) -> Iterator[tuple[str, int]]:
    if table not in SCHEMAS:
        raise InputError(f"no run has a table `{table}`", field="table", remedy=suggest_name(table, SCHEMAS))
    filesystem, directory = fsspec.url_to_fs(run.table(table))
    for name in run.list_files(table):
        yield name, int(filesystem.size(f"{directory}/{name}") or 0)


def _read_blocks(location: str) -> Iterator[bytes]:
    with fsspec.open(location, "rb") as file:
        while block := file.read(_BLOCK):
            yield block
