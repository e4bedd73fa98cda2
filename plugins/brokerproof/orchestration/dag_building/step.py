"""The common base of the tasks of a run: they open the run, set the time limit, and handle failures in one way."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTerminated, AirflowTaskTimeout

from brokerproof.errors import BrokerproofError, DeadlineError
from brokerproof.orchestration.dag_run import PROBLEM
from brokerproof.orchestration.steps import compute_time_limit, describe_step
from brokerproof.run.directory import Run
from brokerproof.run.step_record import record_step

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

RUN_DIRECTORY = "{{ ti.xcom_pull(task_ids='reserve') }}"


class Step:
    """Mixin for the operators of steps, the tasks of a run. Subclasses have a templated field `run_directory`."""

    task_id: str
    run_directory: str
    execution_timeout: Any

    def open_run(self) -> Run:
        """Return the run of this step. Raises AirflowFailException if the task `reserve` returned no directory."""
        if not self.run_directory or self.run_directory == "None":
            raise AirflowFailException("there is no run: the task reserve has not left its directory")
        return Run(self.run_directory)

    def pre_execute(self, context: Context) -> None:
        """Set the task's time limit from the scenario that is stored in the run, and log a sentence about the step.

        Airflow built the task from the scenario's file, which may have other values than the run.
        """
        with suppress(BrokerproofError):
            run = self.open_run()
            self.execution_timeout = compute_time_limit(self.task_id, run.scenario)
            if sentence := describe_step(self.task_id, run):
                log.info(sentence)

    def end_work(self) -> None:
        """End the processes that the task started."""
        end_children()

    def on_kill(self) -> None:
        """End the task's work and raise AirflowTaskTerminated.

        Airflow kills the task after 5 s. Without the exception, no `finally` would run before that.
        """
        self.end_work()
        raise AirflowTaskTerminated(f"{self.task_id} was ended from outside")

    @contextmanager
    def record_work(self, context: Context) -> Iterator[Run]:
        """Yield the run. When the block ends, write the step's times, and its problem if it failed, into the run.

        A BrokerproofError in the block fails the task with the error's message and without a traceback. At the task's
        time limit, the step's processes are ended and the task fails in the same way.
        """
        run = self.open_run()
        with fail_with_sentence(context), record_step(run, self.task_id):
            try:
                yield run
            except AirflowTaskTimeout:
                self.end_work()
                limit = self.execution_timeout.total_seconds()
                raise DeadlineError(f"took longer than its limit of {limit:.0f} s and was ended") from None


class StepOperator(Step, BaseOperator):
    """Base of the steps that run inside the Airflow task itself."""

    template_fields: Sequence[str] = ("run_directory",)

    def __init__(self, *, run_directory: str = RUN_DIRECTORY, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_directory = run_directory


@contextmanager
def fail_with_sentence(context: Context) -> Iterator[None]:
    """If the block raises a BrokerproofError, fail the task without a retry, with the error's sentence.

    The sentence is also stored as the XCom `problem`.
    """
    try:
        yield
    except BrokerproofError as error:
        # When Airflow ends, the XCom cannot be stored; the error itself must still appear.
        with suppress(Exception):
            context["ti"].xcom_push(key=PROBLEM, value=str(error))
        raise AirflowFailException(str(error)) from None


def end_children(timeout_s: float = 3) -> None:
    """End this process's descendants that share its session. Nodes are not ended, as each leads its own session."""
    session = os.getsid(0)
    children = [child for child in psutil.Process().children(recursive=True) if _read_session_id(child) == session]
    for child in children:
        with suppress(psutil.Error):
            child.terminate()
    _, alive = psutil.wait_procs(children, timeout=timeout_s)
    for child in alive:
        with suppress(psutil.Error):
            child.kill()


def _read_session_id(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except OSError:
        return None
