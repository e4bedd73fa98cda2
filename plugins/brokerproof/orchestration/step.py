"""What every step of a run has in common as a task: where the run is, how long it may take, how it fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTerminated, AirflowTaskTimeout

from brokerproof.errors import BrokerproofError, DeadlineError
from brokerproof.orchestration.time_limits import longest
from brokerproof.run.directory import Run
from brokerproof.run.step_record import recorded

if TYPE_CHECKING:
    from airflow.sdk import Context

RUN_DIRECTORY = "{{ ti.xcom_pull(task_ids='reserve') }}"
# Where the command line finds the sentence of a task that failed, also of one that failed before there was a run.
PROBLEM = "problem"


class Step:
    """Mixin of operators; the task's id is the step's name. Subclasses have a templated `run_directory`."""

    task_id: str
    run_directory: str
    execution_timeout: Any

    def run_at(self) -> Run:
        """The run that this step belongs to. Raises AirflowFailException where there is none."""
        if not self.run_directory or self.run_directory == "None":
            raise AirflowFailException("there is no run: the task reserve has not left its directory")
        return Run(self.run_directory)

    def pre_execute(self, context: Context) -> None:
        """Set the longest duration from the scenario as it was in force, not as its file has it."""
        with suppress(BrokerproofError):
            self.execution_timeout = longest(self.task_id, self.run_at().scenario)

    def end(self) -> None:
        """End what the task started."""
        end_children()

    def on_kill(self) -> None:
        """End what the task started and unwind it: Airflow gives it 5 s and runs no `finally` by itself."""
        self.end()
        raise AirflowTaskTerminated(f"{self.task_id} was ended from outside")

    @contextmanager
    def recorded(self, context: Context) -> Iterator[Run]:
        """Record the step in the run's state; a problem fails the task with its sentence instead of a stack trace."""
        run = self.run_at()
        with failing_with_a_sentence(context), recorded(run, self.task_id):
            try:
                yield run
            except AirflowTaskTimeout:
                self.end()
                limit = self.execution_timeout.total_seconds()
                raise DeadlineError(f"took longer than its limit of {limit:.0f} s and was ended") from None


@contextmanager
def failing_with_a_sentence(context: Context) -> Iterator[None]:
    """Turn an error that a person is meant to read into a failed task, its sentence left as an XCom as well."""
    try:
        yield
    except BrokerproofError as error:
        # A convenience: a supervisor that is going down must not hide the error itself.
        with suppress(Exception):
            context["ti"].xcom_push(key=PROBLEM, value=str(error))
        raise AirflowFailException(str(error)) from None


def end_children(timeout_s: float = 3) -> None:
    """End the processes that this task started, but not the nodes: these lead sessions of their own."""
    session = os.getsid(0)
    children = [child for child in psutil.Process().children(recursive=True) if _session_of(child) == session]
    for child in children:
        with suppress(psutil.Error):
            child.terminate()
    _, alive = psutil.wait_procs(children, timeout=timeout_s)
    for child in alive:
        with suppress(psutil.Error):
            child.kill()


def _session_of(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except OSError:
        return None
