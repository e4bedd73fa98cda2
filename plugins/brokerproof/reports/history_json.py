"""The history as plain values, for `history --json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from brokerproof.experiment.verdict import Verdict
from brokerproof.results.history import History
from brokerproof.results.history_schema import MEASUREMENT_COLUMNS, RecordedRun
from brokerproof.results.regressions import RunComparison
from brokerproof.run.counts import TOTALS

_NAMES = ("run_id", "scenario", "topology", "runtime", "system", "system_version", "guarantee")


def list_plain_runs(history: History, scenarios: Sequence[str], limit: int) -> list[dict[str, Any]]:
    """Return the last runs, newest first, as plain values."""
    return [_make_plain(run, history.compare(run)) for run in history.list_runs(scenarios, limit)]


def _make_plain(run: RecordedRun, comparison: RunComparison) -> dict[str, Any]:
    return {
        **{name: getattr(run, name) for name in _NAMES},
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
