"""Writing a run's outcome down: into the history, and into the run's own directory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from brokerproof.errors import BrokerproofError
from brokerproof.results.history import open_history
from brokerproof.results.latency_picture import PICTURE, draw_picture
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import read_record, write_record

log = logging.getLogger(__name__)


def record_outcome(run: Run) -> Outcome:
    """Record a run, in the place of what was recorded of it before.

    Its outcome is in its directory also where the history cannot be written, and otherwise only when the history has
    the run. Raises RunError or InputError where its run.json cannot be used, MachineError, and HistoryError.
    """
    outcome = compose_outcome(run)
    if outcome.latency:
        run.write_text(PICTURE, draw_picture(outcome.latency, run.scenario.title))
    try:
        with open_history() as history:
            history.record(run)
    finally:
        write_record(run, outcome)
    return outcome


def record_unrecorded_runs(runs: Path) -> Iterator[Outcome]:
    """Record the runs below a directory whose outcome nobody wrote down, because Airflow was ended before.

    None of them may go on. One that cannot be recorded is left and told in the log.
    """
    for facts in sorted(runs.glob("*/run.json")):
        run = Run(str(facts.parent))
        try:
            if read_record(run, Outcome) is None:
                yield record_outcome(run)
        except BrokerproofError as error:
            log.warning("%s was not recorded: %s", run.directory, error)
