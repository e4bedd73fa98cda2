"""`prune`: deletes the tables and the directories of runs that are older than the settings allow."""

from __future__ import annotations

import argparse
from dataclasses import asdict

import filelock

from brokerproof.commands.exit_status import ExitStatus
from brokerproof.commands.output import print_json, print_warning
from brokerproof.errors import MachineError
from brokerproof.results.history import open_recorded_history
from brokerproof.results.retention import Deletion, Part, Pruning, prune_runs
from brokerproof.settings import Settings, variable


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Delete the runs' data that is old enough, without asking; with `--dry-run` only list it.

    The exit status is UNKNOWN if a directory could not be read or deleted. Raises HistoryError if the history, which is
    opened first, cannot be used. Raises MachineError while another pruning goes on.
    """
    pruning = _prune(settings, dry_run=options.dry_run)
    if options.json:
        print_json(
            {
                "dry_run": options.dry_run,
                "deletions": [asdict(deletion) for deletion in pruning.deletions],
                "bytes": pruning.size,
                "left": [asdict(left) for left in pruning.left],
            }
        )
    else:
        _print_pruning(pruning, settings, dry_run=options.dry_run)
    return ExitStatus.UNKNOWN if any(left.is_problem for left in pruning.left) else ExitStatus.OK


def _prune(settings: Settings, *, dry_run: bool) -> Pruning:
    if not settings.runs.is_dir():
        return Pruning(deletions=(), left=())
    try:
        with filelock.FileLock(settings.var / "prune.lock", timeout=0):
            history = open_recorded_history()
            if history is None:
                return prune_runs(str(settings.runs), settings, None, dry_run=dry_run)
            with history:
                return prune_runs(str(settings.runs), settings, history, dry_run=dry_run)
    except filelock.Timeout:
        raise MachineError(f"another `brokerproof prune` goes on in {settings.runs}; wait for its end") from None


def _print_pruning(pruning: Pruning, settings: Settings, *, dry_run: bool) -> None:
    for deletion in pruning.deletions:
        print(f"{_format_size(deletion.size):>9}  {_describe(deletion)}: {deletion.why}")
    verb = "would be deleted" if dry_run else "deleted"
    if pruning.deletions:
        print(f"{_format_size(pruning.size):>9}  {verb} in all")
    elif settings.keep_tables_days is None and settings.keep_runs_days is None:
        names = f"{variable('keep_tables_days')} nor {variable('keep_runs_days')}"
        print(f"nothing is deleted: neither {names} is set, so everything is kept")
    else:
        print("nothing is old enough to be deleted")
    for left in pruning.left:
        print_warning(f"{left.directory} is left: {left.why}")


def _describe(deletion: Deletion) -> str:
    if deletion.run_id is None:
        return f"rest of deleted runs in {deletion.directory}"
    return f"tables of {deletion.run_id}" if deletion.part is Part.TABLES else f"run {deletion.run_id}"


def _format_size(size: int) -> str:
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
