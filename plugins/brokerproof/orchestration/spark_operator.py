"""The steps that run on Spark, through the connection `spark_default`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from brokerproof.errors import RunError
from brokerproof.orchestration.step import RUN_DIRECTORY, Step
from brokerproof.run.directory import Run
from brokerproof.settings import Settings, from_environment
from brokerproof.spark.submission import LastWords, spark_conf, spark_environment
from brokerproof.spark.temporary_files import scratch_directory

if TYPE_CHECKING:
    from airflow.sdk import Context

CONNECTION = "spark_default"


class SparkStepOperator(Step, SparkSubmitOperator):
    """Submit spark_jobs/<task id>.py with the run's directory as its first argument.

    Everything of this machine is read when the task runs, so that nothing of it is stored with the DAG.
    """

    template_fields: Sequence[str] = ("application_args", "run_directory")

    def __init__(
        self, *, task_id: str, arguments: Sequence[str] = (), run_directory: str = RUN_DIRECTORY, **kwargs: Any
    ) -> None:
        super().__init__(task_id=task_id, conn_id=CONNECTION, application_args=[run_directory, *arguments], **kwargs)
        self.run_directory = run_directory

    def execute(self, context: Context) -> None:
        """Submit the job and wait for it; its output is the task's log. Fails with the job's own last sentence."""
        settings = from_environment()
        words = LastWords()
        with self.recorded(context), scratch_directory(settings.scratch) as scratch:
            self._hook = _spark_hook(settings, scratch, words, self.task_id, self.application_args or [])
            try:
                self._hook.submit(str(settings.spark_jobs / f"{self.task_id}.py"))
            except AirflowException as error:
                # The provider's own message is the whole command and a number.
                raise RunError(words.sentence or str(error)) from None

    def end(self) -> None:
        """End the driver and its Python workers; the provider ends a driver that runs on a cluster."""
        super().end()
        if self._hook is not None:
            self._hook.on_kill()


def _spark_hook(
    settings: Settings, scratch: Path, words: LastWords, job: str, arguments: Sequence[str]
) -> SparkSubmitHook:
    # The connection says whether Spark is here or on a cluster, and with that what the job needs.
    master = str(SparkSubmitHook(conn_id=CONNECTION)._connection["master"])
    local = master.startswith("local")
    return _ListeningHook(
        words=words,
        conn_id=CONNECTION,
        name=f"brokerproof {job}",
        conf=spark_conf(settings, scratch, local=local, messages=_messages(arguments[0])) | _cores(master, job),
        driver_memory=settings.spark_driver_memory,
        application_args=list(arguments),
        env_vars=spark_environment(settings, scratch),
    )


def _cores(master: str, job: str) -> dict[str, str]:
    """What keeps judging from running more tasks than there are cores.

    The connection has more slots than cores, because a producer or consumer needs one and mostly waits. Sorting does
    not wait: 230,000 messages were judged in 59 s with eight tasks at a time on two cores, in 54 s with two.
    """
    slots = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master)
    if job != "verify" or slots is None:
        return {}
    return {"spark.task.cpus": str(max(1, int(slots[1]) // (os.cpu_count() or 1)))}


def _messages(run_directory: str) -> int:
    """How many messages the run has so far."""
    load = Run(run_directory).state("load")
    return int(load["scheduled"]) if load else 0


class _ListeningHook(SparkSubmitHook):
    """The provider's hook; it also hears what the job raised."""

    def __init__(self, *, words: LastWords, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._words = words

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        super()._process_spark_submit_log(self._words.listen(itr))
