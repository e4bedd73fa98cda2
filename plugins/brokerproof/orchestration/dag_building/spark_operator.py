"""The operator of the steps that run on Spark, through the connection `spark_default`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from brokerproof.errors import RunError
from brokerproof.orchestration.dag_building.step import RUN_DIRECTORY, Step
from brokerproof.run.directory import Run
from brokerproof.run.records import LoadEnd, Record, name_file, read_record
from brokerproof.settings import Settings, from_environment
from brokerproof.spark.job_configuration import build_spark_conf, build_spark_environment
from brokerproof.spark.submission import LastException, build_local_command, temporary_directory

if TYPE_CHECKING:
    from airflow.sdk import Context

CONNECTION = "spark_default"


class SparkStepOperator(Step, SparkSubmitOperator):
    """Submit spark_jobs/<task id>.py with the run's directory as its first argument.

    The settings of this machine are read when the task runs, so that the DAG does not store them.
    """

    template_fields: Sequence[str] = ("application_args", "run_directory")

    def __init__(
        self,
        *,
        task_id: str,
        arguments: Sequence[str] = (),
        run_directory: str = RUN_DIRECTORY,
        after: type[Record] | None = None,
        **kwargs: Any,
    ) -> None:
        """`after` is a class of records. If no earlier step has written such a record, this step is skipped."""
        super().__init__(task_id=task_id, conn_id=CONNECTION, application_args=[run_directory, *arguments], **kwargs)
        self.run_directory = run_directory
        self._after = after

    def execute(self, context: Context) -> None:
        """Submit the job and wait for it. Its output is in the task's log. A failure names the job's last exception."""
        if self._after is not None and not _is_there(self.open_run(), self._after):
            raise AirflowSkipException(f"nothing to do: the run left no record {name_file(self._after)}")
        settings = from_environment()
        last = LastException()
        with self.record_work(context), temporary_directory(settings.spark_temporary) as temporary:
            self._hook = _make_hook(settings, temporary, last, self.task_id, self.application_args or [])
            try:
                self._hook.submit(str(settings.spark_jobs / f"{self.task_id}.py"))
            except AirflowException as error:
                raise RunError(last.sentence or describe_end(str(error))) from None

    def end_work(self) -> None:
        """End the Spark driver and its Python workers. A driver on a cluster is ended by the Spark provider's hook."""
        super().end_work()
        if self._hook is not None:
            self._hook.on_kill()


def describe_end(message: str) -> str:
    """Return a sentence that says how the Spark driver ended, for a job whose output names no exception.

    `message` is the error message of Airflow's Spark provider: the whole command and an error code. A message without
    an error code is returned unchanged. If a signal killed the driver, the script spark-submit reports 128 plus the
    signal's number.
    """
    found = re.search(r"Error code is: (-?\d+)\.?$", message)
    if found is None:
        return message
    status = int(found[1])
    killed = -status if status < 0 else status - 128
    if killed > 0:
        return f"the driver of Spark was ended by signal {killed}"
    return f"the driver of Spark ended with status {status} and named no exception"


def _is_there(run: Run, kind: type[Record]) -> bool:
    """Whether the run has a record of this class. A damaged record counts too."""
    try:
        return read_record(run, kind) is not None
    except RunError:
        return True


def _make_hook(
    settings: Settings, temporary: Path, last: LastException, job: str, arguments: Sequence[str]
) -> SparkSubmitHook:
    # The job's configuration depends on whether the connection leads to this machine or to a cluster.
    master = str(SparkSubmitHook(conn_id=CONNECTION)._connection["master"])
    local = master.startswith("local")
    conf = build_spark_conf(settings, temporary, local=local, messages=_count_messages(arguments[0]))
    return _WatchingHook(
        settings=settings,
        last=last,
        conn_id=CONNECTION,
        name=f"brokerproof {job}",
        conf=conf | _limit_tasks(master, job),
        driver_memory=settings.spark_driver_memory,
        application_args=list(arguments),
        env_vars=build_spark_environment(settings, temporary, local=local),
    )


def _limit_tasks(master: str, job: str) -> dict[str, str]:
    """Return settings that limit `verify` to about one Spark task per core; empty for other jobs or on a cluster.

    The connection `spark_default` allows more tasks than cores, because producers and consumers run as tasks that
    mostly wait. Sorting does not wait: on two cores, `verify` took 59 s for 230,000 messages with eight tasks at a
    time, and 54 s with two.
    """
    threads = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master)
    if job != "verify" or threads is None:
        return {}
    return {"spark.task.cpus": str(max(1, int(threads[1]) // (os.cpu_count() or 1)))}


def _count_messages(run_directory: str) -> int:
    """Return the number of messages that the load scheduled, or 0 before the load has ended."""
    load = read_record(Run(run_directory), LoadEnd)
    return load.scheduled if load else 0


class _WatchingHook(SparkSubmitHook):
    """The Spark provider's hook, which here also looks for the last exception in the job's output.

    If the job runs on this machine, it starts without spark-submit (spark_jobs/run_locally.py).
    """

    def __init__(self, *, settings: Settings, last: LastException, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._settings, self._last = settings, last

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command = super()._build_spark_submit_command(application)
        if not self._connection["master"].startswith("local"):
            return command
        _, *options = command[: command.index(application)]
        arguments = command[2 + len(options) :]
        local, environment = build_local_command(self._settings, options, Path(application).stem, arguments)
        self._env: dict[str, Any] | None = {**(self._env or {}), **environment}
        return local

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        super()._process_spark_submit_log(self._last.watch(itr))
