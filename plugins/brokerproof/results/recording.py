"""Writes the outcome of a run to the history and to the run's directory, also if the run is judged again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from brokerproof import clock
from brokerproof.errors import BrokerproofError, RunError
from brokerproof.results.history import ForeignRunError, open_history
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.judgement import find_judgement, write_judgement
from brokerproof.run.outcome import FirstOutcome, Outcome
from brokerproof.run.records import RecordModel, StepProblem, read_record, remove_record, write_record
from brokerproof.run.step_record import record_step

log = logging.getLogger(__name__)


def record_outcome(run: Run, *, runs: Path | None = None) -> Outcome:
    """Write the outcome of a run to the history and to the run's directory, in place of an earlier one, and return it.

    If the history cannot be written, the outcome is still written to the directory, and HistoryError is raised. If
    `runs` is given, so is ForeignRunError for a directory that is neither the recorded one nor below `runs`. Raises
    RunError or InputError if run.json cannot be used, and MachineError if the directory cannot be written.
    """
    outcome = compose_outcome(run)
    try:
        with open_history() as history:
            if runs is not None:
                history.refuse_foreign(run, runs)
            history.record(run)
    finally:
        write_record(run, outcome)
    return outcome


class NewOutcome(NamedTuple):
    """The outcome of a run that was judged again, why judging failed, and why the history does not have the outcome."""

    outcome: Outcome
    failure: BrokerproofError | None
    not_recorded: str = ""


def judge_again(run: Run, judge: Callable[[], object], *, runs: Path | None = None) -> NewOutcome:
    """Judge a run by calling `judge`, record its outcome in place of the earlier one, and return the outcome.

    The record `FirstOutcome` keeps the verdict of the run's first outcome. If `judge` raises a BrokerproofError, it is
    returned too, and a run that was judged before keeps its judgement and outcome: the reason may be outside the run,
    such as too little memory. If `runs` is given, the history stays as it is for a directory from elsewhere. Raises the
    other errors of `record_outcome`.
    """
    judged, had_problem = find_judgement(run)[0], _find(run, StepProblem, "verify") is not None
    first, failure = _find(run, Outcome), None
    try:
        with record_step(run, "verify"):
            judge()
    except BrokerproofError as error:
        failure = error
        if judged is not None:
            write_judgement(run, judged)
            if not had_problem:
                remove_record(run, StepProblem, "verify")
            return NewOutcome(compose_outcome(run), failure)
    if first is not None and judged is not None:
        kept = _find(run, FirstOutcome)
        verdict, why = (kept.verdict, kept.why) if kept else (first.verdict, first.why)
        write_record(run, FirstOutcome(verdict=verdict, why=why, judged_again_at=clock.now_us()))
    try:
        return NewOutcome(record_outcome(run, runs=runs), failure)
    except ForeignRunError as error:
        return NewOutcome(compose_outcome(run), failure, str(error))


def _find(run: Run, record: type[RecordModel], key: str | None = None) -> RecordModel | None:
    """Return a record of a run; None if there is none, or if it is damaged."""
    try:
        return read_record(run, record, key)
    except RunError as error:
        log.warning("%s", error)
        return None


def record_unrecorded_runs(runs: Path) -> Iterator[Outcome]:
    """Record each run below `runs` that has no outcome, for example because Airflow was stopped, and yield the outcome.

    Call this only if no run is active. A run that cannot be recorded, or whose directory is from elsewhere, is skipped
    with a warning in the log.
    """
    for facts in sorted(runs.glob("*/run.json")):
        run = Run(str(facts.parent))
        try:
            if read_record(run, Outcome) is None:
                run.refuse_links()
                yield record_outcome(run, runs=runs)
        except BrokerproofError as error:
            log.warning("%s was not recorded: %s", run.directory, error)
