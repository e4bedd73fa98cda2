"""The commands that read the history: `history`, `badge`, `metrics` and `prune`."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict

import filelock
from rich.console import Console
from rich.filesize import decimal

from brokerproof.commands.output import ExitStatus, deliver_text, print_json, print_warning
from brokerproof.commands.run_argument import find_run, name_run, open_run
from brokerproof.errors import InputError, MachineError
from brokerproof.experiment.yaml_models import suggest_file
from brokerproof.reports.badge import render_history_badge
from brokerproof.reports.history_view import (
    list_plain_runs,
    print_difference,
    print_groups,
    print_history,
    print_matrix,
)
from brokerproof.reports.last_run_metrics import render_metrics, serve_metrics
from brokerproof.results.history import History, open_history_to_read, open_recorded_history
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.retention import Deletion, LeftRun, prune_runs
from brokerproof.results.run_groups import GROUPED_RUNS, GroupBy
from brokerproof.settings import Settings, variable

_ENDING = {signal.SIGTERM, signal.SIGINT}


def execute_history(options: argparse.Namespace, settings: Settings) -> int:
    """Print the last runs of the given scenarios, by default of all scenarios, with the regressions in these runs.

    With `--compare`, print the differences between two runs. With `--by`, print the scenarios' runs in groups, such as
    by version. Raises InputError if the options contradict each other, or if a scenario or a run does not exist.
    """
    if options.compare and options.scenarios:
        raise InputError(
            "two runs are compared even if their scenarios differ", field="--compare", remedy="leave out the scenarios"
        )
    if options.by and (options.compare or not options.scenarios):
        raise InputError(
            "groups the runs of scenarios", field="--by", remedy="name a scenario, and leave out `--compare`"
        )
    with open_history_to_read() as history:
        if options.by:
            _print_groups(history, options, settings)
        elif options.compare:
            difference = history.compare_two(*(_find_recorded_run(history, run, settings) for run in options.compare))
            if options.json:
                print_json(difference.model_dump(mode="json"))
            else:
                print_difference(difference, Console())
        else:
            _check_scenarios(options.scenarios, history, settings)
            if options.json:
                print_json(list_plain_runs(history, options.scenarios, options.limit))
            else:
                print_history(history, options.scenarios, options.limit, Console())
    return ExitStatus.OK


def _check_scenarios(names: Sequence[str], history: History, settings: Settings) -> None:
    """Raises InputError for a name that neither a scenario's file nor a recorded run has."""
    recorded = history.count_runs()
    for name in names:
        if name not in recorded and settings.scenarios.find(name) is None:
            raise InputError(
                f"no scenario is called `{name}`, and none of its runs is recorded",
                remedy=suggest_file(name, settings.scenarios, recorded),
            )


def _print_groups(history: History, options: argparse.Namespace, settings: Settings) -> None:
    by = GroupBy(options.by)
    groups = history.group(options.scenarios, by, limit=max(options.limit, GROUPED_RUNS))
    _check_scenarios(options.scenarios, history, settings)
    if options.json:
        print_json([group.model_dump(mode="json") for group in groups])
    elif by is GroupBy.CASE:
        print_matrix(groups, Console())
    else:
        print_groups(groups, by, Console())


def _find_recorded_run(history: History, text: str, settings: Settings) -> RecordedRun:
    recorded = history.find_run(name_run(text))
    if recorded is not None and ("/" not in text or find_run(text, settings) is None):
        return recorded
    run = open_run(text, settings)
    run_id, recorded = run.run_id, history.find_run(run.run_id)
    if recorded is not None:
        history.refuse_foreign(run, settings.runs)
    else:
        remedy = f"`brokerproof verify {run_id}` judges and records it"
        raise InputError(f"the run `{run_id}` is not recorded", field="--compare", remedy=remedy)
    return recorded


def execute_badge(options: argparse.Namespace, settings: Settings) -> int:
    """Print or write an SVG image with the last verdict of a scenario, or of all scenarios.

    Raises InputError if the scenario does not exist.
    """
    with open_history_to_read() as history:
        _check_scenarios([options.scenario] if options.scenario else [], history, settings)
        badge = render_history_badge(history, options.scenario)
    deliver_text(badge, "badge", options.output, as_json=options.json)
    return ExitStatus.OK


def execute_metrics(options: argparse.Namespace, settings: Settings) -> int:
    """Print metrics of every scenario's last run in Prometheus' text format, or write them into the file of `--output`.

    With `--listen`, serve them over HTTP until SIGTERM or SIGINT.
    """
    with open_history_to_read() as history:
        if options.listen:
            address, port = parse_listen(options.listen)
            # The signals are blocked before the server's thread starts, so that the thread blocks them too.
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
            with serve_metrics(history, address, port) as bound:
                print(f"the metrics are at http://{address}:{bound}/metrics", flush=True)
                signal.sigwait(_ENDING)
            return ExitStatus.OK
        metrics = render_metrics(history)
    deliver_text(metrics, "metrics", options.output, as_json=options.json)
    return ExitStatus.OK


def parse_listen(value: str) -> tuple[str, int]:
    """Return (address, port) for the text `ADDRESS:PORT`. Raises InputError for any other text."""
    address, _, port = value.rpartition(":")
    if not address or not port.isdigit() or int(port) > 65535:
        raise InputError(f"{value!r} is no address with a port", field="--listen", remedy="write 127.0.0.1:9101")
    return address, int(port)


def execute_prune(options: argparse.Namespace, settings: Settings) -> int:
    """Delete tables and whole directories of runs that are older than the settings allow, and list the deletions.

    With `--dry-run`, only list what would be deleted. The exit status is UNKNOWN if a directory could not be read or
    deleted. Before deleting, raises HistoryError for an unusable history of runs, MachineError while another `prune`
    runs.
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
            open_recorded_history(to_write=True) or nullcontext() as history,
        ):
            return prune_runs(str(settings.runs), settings, history, dry_run=dry_run)
    except filelock.Timeout:
        raise MachineError(f"another `brokerproof prune` goes on in {settings.runs}; wait for its end") from None
