"""`history`: shows earlier runs with their regressions, or compares two runs, or groups of runs."""

from __future__ import annotations

import argparse

from rich.console import Console

from brokerproof.commands.output import ExitStatus, print_json
from brokerproof.errors import InputError, shorten
from brokerproof.reports.history_view import list_plain_runs, print_difference, print_groups, print_history
from brokerproof.results.history import History, open_history
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.run_groups import GROUPED_RUNS, GroupBy
from brokerproof.settings import Settings


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Print the last runs of the given scenarios, or of all scenarios if none is given.

    With `--compare`, print the difference of two runs. With `--by`, print the given scenarios' runs in groups. Raises
    InputError if the options contradict each other or a run is not recorded.
    """
    if options.compare and options.scenarios:
        raise InputError(
            "two runs are compared even if their scenarios differ", field="--compare", remedy="leave out the scenarios"
        )
    if options.by and (options.compare or not options.scenarios):
        raise InputError(
            "groups the runs of scenarios", field="--by", remedy="name a scenario, and leave out `--compare`"
        )
    with open_history() as history:
        if options.by:
            _print_groups(history, options)
        elif options.compare:
            difference = history.compare_two(*(_find_run(history, run_id) for run_id in options.compare))
            if options.json:
                print_json(difference.model_dump(mode="json"))
            else:
                print_difference(difference, Console())
        elif options.json:
            print_json(list_plain_runs(history, options.scenarios, options.limit))
        else:
            print_history(history, options.scenarios, options.limit, Console())
    return ExitStatus.OK


def _print_groups(history: History, options: argparse.Namespace) -> None:
    by = GroupBy(options.by)
    groups = history.group(options.scenarios, by, limit=max(options.limit, GROUPED_RUNS))
    if options.json:
        print_json([group.model_dump(mode="json") for group in groups])
    else:
        print_groups(groups, by, Console())


def _find_run(history: History, run_id: str) -> RecordedRun:
    run = history.find_run(run_id)
    if run is None:
        raise InputError(
            f"no run `{shorten(run_id)}` is recorded",
            field="--compare",
            remedy="`brokerproof history --json` has the ids of the runs",
        )
    return run
