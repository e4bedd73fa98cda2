"""`metrics`: the last run of every scenario, in Prometheus' text format."""

from __future__ import annotations

import argparse

from brokerproof.commands.exit_status import ExitStatus
from brokerproof.commands.output import deliver_text
from brokerproof.reports.metrics import render_metrics
from brokerproof.results.history import open_history
from brokerproof.settings import Settings


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Print the metrics, or write them into a file, whole or not at all."""
    with open_history() as history:
        metrics = render_metrics(history)
    deliver_text(metrics, "metrics", options.output, as_json=options.json)
    return ExitStatus.OK
