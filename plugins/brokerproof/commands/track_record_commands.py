"""The command `track-record`: it reproduces known bugs of messaging systems, and prints what came of all tries."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from brokerproof.checks import load_cases, load_scenario
from brokerproof.commands.output import ExitStatus, print_json
from brokerproof.commands.scenario_commands import execute_run
from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.results.history import open_history_to_read
from brokerproof.results.track_record import TRACK_RULE, TrackRow, make_track_row, select_bugs
from brokerproof.settings import Settings


def execute_track_record(options: argparse.Namespace, settings: Settings) -> int:
    """Run the scenarios of one known bug, or of all, and print the track record. With `--list`, only print it.

    Raises InputError if no scenario is about the issue.
    """
    settings.check_directories()
    files = {file.stem: file for file in settings.scenario_files()}
    scenarios = [load_scenario(file, settings.topologies)[0] for file in files.values()]
    chosen = select_bugs(scenarios, options.issue)
    if not chosen:
        known = [each.bug.issue for each in select_bugs(scenarios, None) if each.bug is not None]
        raise InputError(
            f"no scenario is about the issue `{options.issue}`"
            if options.issue
            else "no scenario is about a known bug",
            remedy=suggest_name(options.issue or "", known) if known else "give a scenario a `bug`",
        )
    options.scenarios = [scenario.name for scenario in chosen]
    status = ExitStatus.OK if options.list else execute_run(options, settings)
    rows: list[TrackRow] = []
    with open_history_to_read() as history:
        for scenario in chosen:
            runs = history.list_runs([scenario.name], limit=1000)
            cases = load_cases(files[scenario.name], settings.topologies)
            rows += [make_track_row(case, runs) for case, _, _ in cases]
    if options.json and options.list:
        print_json([asdict(row) | {"at": row.at.isoformat() if row.at else None} for row in rows])
    elif not options.json:
        _print_rows(rows, Console())
    return status


def _print_rows(rows: list[TrackRow], console: Console) -> None:
    last = ""
    for row in rows:
        if row.bug.issue != last:
            mended = f"mended in {row.bug.mended}" if row.bug.mended else "not mended in a release that is known"
            console.print(Text.assemble("\n", (row.bug.issue, "bold"), f"  {', '.join(row.bug.hit)}, {mended}"))
            console.print(Padding(Text(row.bug.claim), (0, 0, 0, 4)))
            last = row.bug.issue
        seen = f"{row.expected} in {row.as_expected} of {row.reached}; reached in {row.reached} of {row.tries} tries"
        newest = f", last {row.at:%Y-%m-%d} ({row.newest})" if row.at else ""
        console.print(Padding(Text(f"{row.name}: {seen}{newest}"), (0, 0, 0, 4)), soft_wrap=True)
    for surprise in filter(None, (row.surprise for row in rows)):
        console.print(Text(surprise, style="red"), soft_wrap=True)
    console.print(Text(TRACK_RULE, style="dim"))
