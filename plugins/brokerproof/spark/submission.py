"""How a Spark job of this project is submitted: its configuration, its environment, and what it says when it fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from brokerproof.errors import RunError
from brokerproof.settings import Settings
from brokerproof.spark import class_data_archive
from brokerproof.spark.temporary_files import scratch_directory

# `some.module.SomeError: a sentence`, as Python ends a traceback.
_RAISED = re.compile(r"^(?P<module>(?:[A-Za-z_]\w*\.)*)(?P<name>[A-Z]\w*(?:Error|Exception|Interrupt)): (?P<said>.+)")


# Up to here the time that the JVM's second compiler takes is not earned back; measured, a job that does next to
# nothing takes 11 s of CPU instead of 18.
_FEW_MESSAGES = 3_000_000


def spark_conf(settings: Settings, scratch: Path, *, local: bool, messages: int = 0) -> dict[str, str]:
    """What every job needs.

    `scratch` is for what the driver writes for itself; `local` where driver and executors are one process on this
    machine; `messages` is how many the job has to judge.
    """
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark tells several thousand lines a job otherwise, which Airflow would store.
        "spark.log.level": "WARN",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        # What is kept between passes is read once or twice; looking for its best encoding costs more than it saves.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
    }
    if local:
        conf |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.warehouse.dir": str(settings.var / "spark-warehouse"),
        }
        # A tenth less CPU than with the default collector, measured on two cores; and what Spark generates in methods
        # of more than 8,000 bytes is compiled too.
        options = ["-XX:+UseParallelGC", "-XX:-DontCompileHugeMethods", f"-Djava.io.tmpdir={scratch}"]
        options += class_data_archive.java_options()
        if messages < _FEW_MESSAGES:
            # A task costs more than its share of so few rows; `verify` raises it where there are more.
            conf["spark.sql.shuffle.partitions"] = str(min(8, max(2, os.cpu_count() or 2)))
            # Its code cache would be 48 MiB then, which the code that Spark generates fills.
            options += ["-XX:TieredStopAtLevel=1", "-XX:CICompilerCount=1", "-XX:ReservedCodeCacheSize=240m"]
        conf["spark.driver.extraJavaOptions"] = " ".join(options)
    return conf


def spark_environment(settings: Settings, scratch: Path) -> dict[str, str]:
    """What spark-submit needs: this Python, the Java that was installed with it, the project's modules.

    `scratch` is for what the job writes for itself on this machine.
    """
    # Not above: looking up where Java is takes a while, and every parse of the DAG files would pay for it.
    from brokerproof.machine.java import spark_java_home

    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "JAVA_HOME": str(spark_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(settings.plugins), str(settings.spark_jobs)]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch),
        "TMPDIR": str(scratch),
        # Great Expectations reports its use to its makers unless it is told not to.
        "GX_ANALYTICS_ENABLED": "false",
    }


class LastWords:
    """Remembers the last exception that a job's output names."""

    def __init__(self) -> None:
        self.sentence = ""

    def listen(self, lines: Iterable[str]) -> Iterator[str]:
        """The same lines, overheard."""
        for line in lines:
            if found := _RAISED.match(line.strip()):
                ours = found["module"].startswith("brokerproof")
                self.sentence = found["said"] if ours else f"{found['name']}: {found['said']}"
            yield line


def submit_here(
    settings: Settings,
    job: str,
    arguments: Sequence[str],
    *,
    conf: Mapping[str, str] = MappingProxyType({}),
    log: Callable[[str], None] = lambda _: None,
) -> None:
    """Run a job on this machine, outside Airflow; `log` gets its output. Raises RunError with the job's last words.

    `conf` has what is particular to this job.
    """
    with scratch_directory(settings.scratch) as scratch:
        settled = {**spark_conf(settings, scratch, local=True), **conf}.items()
        conf_arguments = [part for key, value in settled for part in ("--conf", f"{key}={value}")]
        process = subprocess.Popen(
            [
                "spark-submit",
                *("--master", "local[*]", "--driver-memory", settings.spark_driver_memory, *conf_arguments),
                *(str(settings.spark_jobs / f"{job}.py"), *arguments),
            ],
            env={**os.environ, **spark_environment(settings, scratch)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        words = LastWords()
        assert process.stdout is not None
        for line in words.listen(process.stdout):
            log(line.rstrip())
        status = process.wait()
    if status:
        raise RunError(words.sentence or f"spark-submit {job} ended with status {status}")
