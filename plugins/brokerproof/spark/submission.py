"""The submission of a Spark job on this machine, outside Airflow."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from brokerproof.errors import RunError
from brokerproof.settings import Settings
from brokerproof.spark.job_configuration import build_spark_conf, build_spark_environment
from brokerproof.spark.last_exception import LastException
from brokerproof.spark.temporary_files import temporary_directory


def submit_locally(
    settings: Settings,
    job: str,
    arguments: Sequence[str],
    *,
    conf: Mapping[str, str] = MappingProxyType({}),
    log: Callable[[str], None] = lambda _: None,
) -> None:
    """Run a job of `spark_jobs/` and wait for its end.

    `conf` is added to the job's usual configuration and overrides it. `log` is called with each line of the job's
    output. If the job fails, raises RunError with the last exception in the output.
    """
    with temporary_directory(settings.spark_temporary) as temporary:
        whole_conf = {**build_spark_conf(settings, temporary, local=True), **conf}
        conf_arguments = [part for key, value in whole_conf.items() for part in ("--conf", f"{key}={value}")]
        process = subprocess.Popen(
            [
                "spark-submit",
                *("--master", "local[*]", "--driver-memory", settings.spark_driver_memory, *conf_arguments),
                *(str(settings.spark_jobs / f"{job}.py"), *arguments),
            ],
            env={**os.environ, **build_spark_environment(settings, temporary, local=True)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        last = LastException()
        assert process.stdout is not None
        for line in last.watch(process.stdout):
            log(line.rstrip())
        status = process.wait()
    if status:
        raise RunError(last.sentence or f"spark-submit {job} ended with status {status}")
