"""`prune`: deletes the tables and the directories of runs that are older than the settings allow."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import asdict

import filelock
from rich.filesize import decimal

from brokerproof.commands.output import ExitStatus, print_json, print_warning
from brokerproof.errors import MachineError
from brokerproof.results.history import open_recorded_history
from brokerproof.results.retention import Deletion, LeftRun, prune_runs
from brokerproof.settings import Settings, variable


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Delete tables and directories that are old enough, and list them. With `--dry-run`, only list them.

    The exit status is UNKNOWN if a directory could not be read or deleted. Raises HistoryError, before anything is
    deleted, if the history cannot be used. Raises MachineError while another `prune` runs.
    """
    found = _prune(settings, dry_run=options.dry_run)
    deletions = [one for one in found if isinstance(one, Deletion)]
    left = [one for one in found if isinstance(one, LeftRun)]
    size = sum(deletion.size for deletion in deletions)
    if options.json:
        print_json(
            {
                "dry_run": options.dry_run,
                "deletions": [asdict(deletion) for deletion in deletions],
                "bytes": size,
                "left": [asdict(one) for one in left],
            }
        )
    else:
        for deletion in deletions:
            what = "run" if deletion.part == "run" else "tables of"
            print(f"{decimal(deletion.size):>9}  {what} {deletion.run_id}: {deletion.why}")
        if deletions:
            print(f"{decimal(size):>9}  {'would be deleted' if options.dry_run else 'deleted'} in all")
        elif settings.keep_tables_days is None and settings.keep_runs_days is None:
            names = f"{variable('keep_tables_days')} nor {variable('keep_runs_days')}"
            print(f"nothing is deleted: neither {names} is set, so everything is kept")
        else:
            print("nothing is old enough to be deleted")
        for one in left:
            print_warning(f"{one.directory} is left: {one.why}")
    return ExitStatus.UNKNOWN if any(one.is_problem for one in left) else ExitStatus.OK


def _prune(settings: Settings, *, dry_run: bool) -> list[Deletion | LeftRun]:
    if not settings.runs.is_dir():
        return []
    try:
        with (
            filelock.FileLock(settings.var / "prune.lock", timeout=0),
            open_recorded_history() or nullcontext() as history,
        ):
            return prune_runs(str(settings.runs), settings, history, dry_run=dry_run)
    except filelock.Timeout:
        raise MachineError(f"another `brokerproof prune` goes on in {settings.runs}; wait for its end") from None
