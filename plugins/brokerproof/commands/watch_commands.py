"""The command `watch`, and what it shares with `run`: showing a run until its end, and printing the run's outcome."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from rich.console import Console

from brokerproof.commands.output import ExitStatus, derive_exit_status, print_json
from brokerproof.commands.run_argument import find_run, name_run, refuse_run
from brokerproof.errors import InputError
from brokerproof.machine.processes import find_marked_processes
from brokerproof.orchestration.embedded.embedded_airflow import EmbeddedAirflow
from brokerproof.orchestration.follow.airflow_client import AirflowError, AirflowGoneError
from brokerproof.orchestration.follow.progress import Progress
from brokerproof.orchestration.follow.scenario_run import ScenarioRun, has_recorded_outcome
from brokerproof.reports.outcome_view import print_outcome
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.outcome import BriefOutcome, make_unknown_outcome
from brokerproof.settings import Settings


def execute_watch(options: argparse.Namespace, settings: Settings) -> int:
    """Show a run that another command or Airflow started, until it ends, and print its outcome."""
    run_id = name_run(options.run)
    # A run that waits for its start has no directory yet, so its id may be known to Airflow only.
    recorded = find_run(options.run, settings) or find_run(run_id, settings)
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,200}", run_id):
        raise refuse_run(options.run, settings)
    console = Console(stderr=True)
    with Progress(console, run_id) as progress:
        end = _watch(run_id, recorded, settings, progress)
    print_end(end, console if options.json else Console())
    if options.json:
        print_json(end.outcome.model_dump(mode="json"))
    return end.status


def _watch(run_id: str, recorded: Run | None, settings: Settings, progress: Progress) -> WatchEnd:
    if recorded is not None and has_recorded_outcome(recorded.directory):
        outcome = compose_outcome(recorded)
        return WatchEnd(outcome=outcome, status=derive_exit_status(outcome))
    directory = settings.runs / run_id
    if recorded is not None and "://" not in recorded.directory:
        directory = Path(recorded.directory)
    airflow = EmbeddedAirflow(settings, progress.print_sentence)
    try:
        client = airflow.connect()
        found = client.find_run(run_id)
    except AirflowGoneError as error:
        if recorded is None:
            raise refuse_run(run_id, settings) from None
        return make_end_without_airflow(run_id, recorded.scenario.name, directory, error)
    if found is None:
        if recorded is None:
            raise refuse_run(run_id, settings)
        remedy = f"`brokerproof verify {run_id}` judges its tables"
        raise InputError("the run has no outcome, and Airflow does not run it", file=recorded.directory, remedy=remedy)
    run = ScenarioRun(
        client=client,
        scenario=found.dag_id,
        run_id=run_id,
        dag_run_id=found.dag_run_id,
        directory=directory,
        scheduler_log=airflow.scheduler_log,
        check_scheduler=airflow.check_scheduler,
    )
    return watch_run(run, progress)


@dataclass(frozen=True, kw_only=True)
class WatchEnd:
    """The outcome of a watched run, and the exit status of the command that watched it.

    If the command ended before the run, the outcome is `unknown`.
    """

    outcome: BriefOutcome
    status: ExitStatus
    # {task id: sentence with the reason} for the tasks that could not do their work.
    problems: Mapping[str, str] = field(default_factory=dict)
    # Whether the user stopped the run, left it, or ended its Airflow. If so, no further run begins.
    is_stopped: bool = False


def watch_run(run: ScenarioRun, progress: Progress, begin: Callable[[], None] = lambda: None) -> WatchEnd:
    """Call `begin`, which may start the run. Show the run until it ends, the user stops watching, or Airflow is gone.

    After Ctrl-C, the user is asked whether to stop the run, to stop watching, or to go on. After SIGTERM, or after
    Ctrl-C without a terminal for the question, the run is stopped and shown until it ends.
    """
    try:
        with SignalHandler() as handler:
            return _watch_until_end(run, progress, handler, begin)
    except AirflowError as error:
        return _make_end_after(run, error)


def _make_end_after(run: ScenarioRun, error: AirflowError) -> WatchEnd:
    """Return the end of a run whose Airflow cannot be asked any more."""
    if not isinstance(error, AirflowGoneError):
        return _make_unknown_end(run.run_id, run.scenario, run.directory, str(error))
    if has_recorded_outcome(run.directory):
        end = _make_end(run)
    else:
        end = make_end_without_airflow(run.run_id, run.scenario, run.directory, error)
    # A further run would start Airflow again, which `brokerproof down` may have stopped.
    return replace(end, is_stopped=error.ended)


def make_end_without_airflow(run_id: str, scenario: str, directory: Path, error: AirflowGoneError) -> WatchEnd:
    """Return a `WatchEnd` with an unknown outcome, for a run that was unfinished when Airflow ended or fell silent.

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


def print_end(end: WatchEnd, console: Console) -> None:
    """Print the outcome of a run, unless the user stopped watching, who has already read how to go on."""
    if end.status is not ExitStatus.INTERRUPTED:
        print_outcome(end.outcome, end.problems, console)


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
            why = "the run was cancelled before it began"
            return replace(_make_unknown_end(run.run_id, run.scenario, run.directory, why), is_stopped=True)
        if choice is Choice.STOP:
            run.follow(progress)
            return replace(_make_end(run), is_stopped=True)
    except AirflowError as error:
        return replace(_make_end_after(run, error), is_stopped=True)
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
    return WatchEnd(outcome=outcome, status=ExitStatus.INTERRUPTED, is_stopped=True)


def _make_end(run: ScenarioRun) -> WatchEnd:
    outcome = run.read_outcome()
    return WatchEnd(outcome=outcome, problems=run.read_problems(), status=derive_exit_status(outcome))


def _make_unknown_end(run_id: str, scenario: str, directory: Path, why: str) -> WatchEnd:
    return WatchEnd(outcome=make_unknown_outcome(run_id, scenario, directory, why), status=ExitStatus.UNKNOWN)


_QUESTION = "Stop the run and its cluster (s), only stop watching (w), or go on (Enter)? "


class TerminationRequest(KeyboardInterrupt):
    """SIGTERM came. The run is stopped, without the question to the user that follows Ctrl-C."""


class Choice(Enum):
    """The user's choice after Ctrl-C: whether to stop the run, to stop watching, or to go on."""

    STOP = "s"
    STOP_WATCHING = "w"
    GO_ON = ""
    # A second Ctrl-C instead of an answer.
    STOP_AND_LEAVE = "^C"


class SignalHandler:
    """Raises KeyboardInterrupt on SIGINT and TerminationRequest on SIGTERM, within a `with` block.

    A signal that this process already ignores, for example because its parent ignored it, stays ignored. Outside the
    main thread, the block has no effect.
    """

    def __init__(self) -> None:
        self._holding = False
        self._held: KeyboardInterrupt | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Delay the exception of the first signal until the `with` block ends. A second signal interrupts the block."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._held is not None:
            held, self._held = self._held, None
            raise held

    def _interrupt(self, number: int, _: FrameType | None) -> None:
        error = TerminationRequest() if number == signal.SIGTERM else KeyboardInterrupt()
        if self._holding and self._held is None:
            self._held = error
            return
        raise error


def ask_for_choice(interrupt: KeyboardInterrupt, progress: Progress) -> Choice:
    """Ask the user what to do after a signal. Without a terminal, or after SIGTERM, return `STOP` without asking."""
    if isinstance(interrupt, TerminationRequest) or not _is_terminal():
        return Choice.STOP
    try:
        with progress.pause():
            # Text that was typed before the question is no answer to it.
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
            while True:
                sys.stderr.write(f"\n{_QUESTION}")
                sys.stderr.flush()
                # The end of the input counts as Enter.
                answer = sys.stdin.readline().strip().lower()
                if answer in (Choice.STOP.value, Choice.STOP_WATCHING.value, Choice.GO_ON.value):
                    return Choice(answer)
    except TerminationRequest:
        return Choice.STOP
    except KeyboardInterrupt:
        return Choice.STOP_AND_LEAVE


def _is_terminal() -> bool:
    """Whether a terminal can show a question, and this process may read the user's answer from it."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        # The process has no standard input, or its terminal has gone.
        return False
