"""The command `track-record`: it reproduces known bugs of messaging systems, and prints what all tries came to."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from brokerproof.checks import load_scenario
from brokerproof.commands.output import ExitStatus, combine_exit_statuses, print_json, print_warning
from brokerproof.commands.recorded_run_commands import execute_verify
from brokerproof.commands.scenario_commands import execute_run
from brokerproof.errors import BrokerproofError, InputError
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.results.history import open_history_to_read
from brokerproof.results.track_record import TRACK_RULE, TrackRow, list_track_rows, select_bugs
from brokerproof.settings import Settings


def execute_track_record(options: argparse.Namespace, settings: Settings) -> int:
    """Run the scenarios of one known bug, or of all, and print the track record.

    With `--list`, only print it. With `--verify`, judge the recorded runs again by the present definitions before that.
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
    if options.verify:
        status = _verify_runs(_list_rows(options.scenarios, settings), settings, as_json=options.json)
    else:
        status = ExitStatus.OK if options.list else execute_run(options, settings)
    rows = _list_rows(options.scenarios, settings)
    if options.verify and any(row.surprise for row in rows):
        status = ExitStatus.NOT_EXPECTED
    if options.json and (options.list or options.verify):
        print_json([{**asdict(row), "bug": row.bug.model_dump(), "at": row.at and row.at.isoformat()} for row in rows])
    elif not options.json:
        _print_rows(rows, Console())
    return status


def _list_rows(names: Sequence[str], settings: Settings) -> list[TrackRow]:
    files = {file.stem: file for file in settings.scenario_files() if file.stem in names}
    with open_history_to_read() as history:
        return list_track_rows(files, settings.topologies, history)


def _verify_runs(rows: Sequence[TrackRow], settings: Settings, *, as_json: bool) -> int:
    """Judge the runs of the rows again. Return UNKNOWN if one of them could not be judged, or cannot be any more."""
    statuses = [ExitStatus.OK]
    for directory in (directory for row in rows for directory in row.run_dirs):
        options = argparse.Namespace(run=directory, record=False, json=False)
        try:
            # What each run came to is in the rows, so its own status does not count.
            failed = execute_verify(options, settings) is ExitStatus.UNKNOWN
        except BrokerproofError as error:
            print_warning(str(error))
            failed = True
        statuses += [ExitStatus.UNKNOWN] if failed else []
    return combine_exit_statuses(statuses)


def _print_rows(rows: list[TrackRow], console: Console) -> None:
    last = ""
    for row in rows:
        if row.bug.issue != last:
            mended = f"mended in {row.bug.mended}" if row.bug.mended else "not mended in a release that is known"
            console.print(Text.assemble("\n", (row.bug.issue, "bold"), f"  {', '.join(row.bug.hit)}, {mended}"))
            console.print(Padding(Text(row.bug.claim), (0, 0, 0, 4)))
            last = row.bug.issue
        newest = f", last {row.at:%Y-%m-%d} ({row.newest}: {row.found})" if row.at else ""
        # A line of a padding would be cut at the edge of a terminal.
        console.print(Text(f"    {row.name}: {row.seen}{newest}"), soft_wrap=True)
    for surprise in filter(None, (row.surprise for row in rows)):
        console.print(Text(surprise, style="red"), soft_wrap=True)
    console.print(Text(TRACK_RULE, style="dim"))
