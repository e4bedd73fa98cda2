"""`history`: shows earlier runs, their regressions, and the effects of settings."""

from __future__ import annotations

import argparse

from rich.console import Console

from brokerproof.commands.exit_status import ExitStatus
from brokerproof.commands.output import print_json
from brokerproof.results.history import open_history
from brokerproof.results.history_json import list_plain_runs
from brokerproof.results.history_table import print_history
from brokerproof.settings import Settings


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Print the last runs of all scenarios, or of the given ones."""
    with open_history() as history:
        if options.json:
            print_json(list_plain_runs(history, options.scenarios, options.limit))
        else:
            print_history(history, options.scenarios, options.limit, Console())
    return ExitStatus.OK
