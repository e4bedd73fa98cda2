"""The common part of `run` and `watch`: show a run until it ends or the user stops watching; print its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from brokerproof.commands.output import ExitStatus, derive_exit_status, print_json
from brokerproof.commands.signals import Choice, SignalHandler, ask_for_choice
from brokerproof.machine.processes import find_marked_processes
from brokerproof.orchestration.follow.airflow_client import AirflowError, AirflowGoneError
from brokerproof.orchestration.follow.progress import Progress
from brokerproof.orchestration.follow.scenario_run import ScenarioRun, has_recorded_outcome
from brokerproof.reports.outcome_view import print_outcome
from brokerproof.run.outcome import BriefOutcome, make_unknown_outcome


@dataclass(frozen=True, kw_only=True)
class WatchEnd:
    """The outcome of a watched run, and the exit status of the command that watched it.

    If the command ended before the run, the outcome is `unknown`.
    """

    outcome: BriefOutcome
    status: ExitStatus
    # {task id: sentence with the reason} for the tasks that could not do their work.
    problems: Mapping[str, str] = field(default_factory=dict)


def watch_run(run: ScenarioRun, progress: Progress, begin: Callable[[], None] = lambda: None) -> WatchEnd:
    """Call `begin`, then show the run until it ends, the user stops watching, or Airflow is gone.

    After Ctrl-C, the user is asked whether to stop the run, to stop watching, or to go on. Without a terminal, or after
    SIGTERM, the run is stopped and shown to its end.
    """
    try:
        with SignalHandler() as handler:
            return _watch_until_end(run, progress, handler, begin)
    except AirflowGoneError as error:
        if has_recorded_outcome(run.directory):
            return _make_end(run)
        return make_end_without_airflow(run.run_id, run.scenario, run.directory, error)
    except AirflowError as error:
        return _make_unknown_end(run.run_id, run.scenario, run.directory, str(error))


def make_end_without_airflow(run_id: str, scenario: str, directory: Path, error: AirflowGoneError) -> WatchEnd:
    """Return an end with an unknown outcome, for a run that was not over when Airflow ended or fell silent.

    The outcome's reason says how many of the run's processes still run, and which commands help.
    """
    count = sum(1 for _ in find_marked_processes(directory.absolute()))
    left = f"{count} of its processes (nodes, clients, monitor) still run" if count else "none of its nodes runs"
    start = (
        "`brokerproof airflow start`" if error.ended else "`brokerproof airflow stop` and `brokerproof airflow start`"
    )
    why = (
        f"{error}, and the run was not over: {left}. {start} gets Airflow back, which cancels a run that had begun and "
        f"stops its cluster; then `brokerproof watch {run_id}` shows it. `brokerproof down` stops everything at once"
    )
    return _make_unknown_end(run_id, scenario, directory, why)


def print_end(end: WatchEnd, console: Console, *, json: bool) -> None:
    """Print the outcome of a run on stdout. With `json`, print it on `console` for people, and on stdout as JSON.

    For a user who stopped watching, only the JSON is printed.
    """
    # A user who left has already read how to go on.
    if end.status is not ExitStatus.INTERRUPTED:
        print_outcome(end.outcome, end.problems, console if json else Console())
    if json:
        print_json(end.outcome.model_dump(mode="json"))


def _watch_until_end(
    run: ScenarioRun, progress: Progress, handler: SignalHandler, begin: Callable[[], None]
) -> WatchEnd:
    choice = Choice.GO_ON
    try:
        # If a signal interrupted this request, a run could have started without the user's knowledge.
        with handler.hold():
            begin()
    except KeyboardInterrupt as interrupt:
        choice = ask_for_choice(interrupt, progress)
    while choice is Choice.GO_ON:
        try:
            run.follow(progress)
            return _make_end(run)
        except KeyboardInterrupt as interrupt:
            choice = ask_for_choice(interrupt, progress)
    if choice is Choice.STOP_WATCHING:
        return _leave(run, progress, f"the run goes on; `brokerproof watch {run.run_id}` shows it, and Ctrl-C stops it")
    try:
        progress.print_sentence("cancelling the run and stopping its cluster; Ctrl-C again leaves that to Airflow")
        if not run.cancel():
            return _make_unknown_end(run.run_id, run.scenario, run.directory, "the run was cancelled before it began")
        if choice is Choice.STOP:
            run.follow(progress)
            return _make_end(run)
    except KeyboardInterrupt:
        pass
    return _leave(
        run,
        progress,
        f"Airflow goes on with the teardown; `brokerproof watch {run.run_id}` shows it, and `brokerproof down` stops "
        "everything at once",
    )


def _leave(run: ScenarioRun, progress: Progress, sentence: str) -> WatchEnd:
    progress.print_sentence(sentence)
    outcome = make_unknown_outcome(run.run_id, run.scenario, run.directory, sentence)
    return WatchEnd(outcome=outcome, status=ExitStatus.INTERRUPTED)


def _make_end(run: ScenarioRun) -> WatchEnd:
    outcome = run.read_outcome()
    return WatchEnd(outcome=outcome, problems=run.read_problems(), status=derive_exit_status(outcome))


def _make_unknown_end(run_id: str, scenario: str, directory: Path, why: str) -> WatchEnd:
    return WatchEnd(outcome=make_unknown_outcome(run_id, scenario, directory, why), status=ExitStatus.UNKNOWN)
