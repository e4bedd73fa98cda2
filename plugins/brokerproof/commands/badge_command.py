"""`badge`: prints or writes an SVG image with the last verdict of a scenario, or of all scenarios."""

from __future__ import annotations

import argparse

from brokerproof.commands.output import ExitStatus, deliver_text
from brokerproof.reports.badge import render_history_badge
from brokerproof.results.history import open_history
from brokerproof.settings import Settings


def execute(options: argparse.Namespace, settings: Settings) -> int:
    with open_history() as history:
        badge = render_history_badge(history, options.scenario)
    deliver_text(badge, "badge", options.output, as_json=options.json)
    return ExitStatus.OK
