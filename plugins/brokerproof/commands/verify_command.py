"""`verify`: judges the stored tables of a run again."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from brokerproof.commands.exit_status import derive_exit_status
from brokerproof.commands.output import print_error, print_json
from brokerproof.errors import BrokerproofError, InputError
from brokerproof.results.outcome_view import print_outcome
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.step_record import record_step
from brokerproof.settings import Settings
from brokerproof.spark.submission import submit_locally


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Submit the job `verify` on this machine and print the outcome."""
    directory = Path(options.run_directory).resolve()
    if not _holds_run(directory):
        raise InputError("holds no run", file=str(directory), remedy="give a directory of var/runs/")
    run = Run(str(directory))
    console = Console(stderr=True)
    log: list[str] = []
    try:
        with console.status("judging"), record_step(run, "verify"):
            submit_locally(
                settings, "verify", [run.directory, "--expectations", str(settings.expectations)], log=log.append
            )
    except BrokerproofError as error:
        file = directory / "logs" / "verify-again.log"
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(log), encoding="utf-8")
        print_error(f"{error}; its output is in {file}")
    result = compose_outcome(run).model_dump(mode="json")
    print_outcome(result, {}, console if options.json else Console())
    if options.json:
        print_json(result)
    return derive_exit_status(result)


def _holds_run(directory: Path) -> bool:
    try:
        return (directory / "run.json").exists()
    except OSError:
        # The name is longer than any file's name can be.
        return False
