"""Writes the outcome of a run to the history and to the run's directory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from brokerproof.errors import BrokerproofError
from brokerproof.results.history import open_history
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import read_record, write_record

log = logging.getLogger(__name__)


def record_outcome(run: Run) -> Outcome:
    """Write the outcome of a run to the history and to the run's directory, in place of an earlier one, and return it.

    If the history cannot be written, the outcome is still written to the directory, and HistoryError is raised. Raises
    RunError or InputError if run.json cannot be used, and MachineError if the directory cannot be written.
    """
    outcome = compose_outcome(run)
    try:
        with open_history() as history:
            history.record(run)
    finally:
        write_record(run, outcome)
    return outcome


def record_unrecorded_runs(runs: Path) -> Iterator[Outcome]:
    """Record each run below `runs` that has no outcome, for example because Airflow was stopped, and yield the outcome.

    Call this only if no run is active. A run that cannot be recorded is skipped with a warning in the log.
    """
    for facts in sorted(runs.glob("*/run.json")):
        run = Run(str(facts.parent))
        try:
            if read_record(run, Outcome) is None:
                yield record_outcome(run)
        except BrokerproofError as error:
            log.warning("%s was not recorded: %s", run.directory, error)
