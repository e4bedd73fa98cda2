"""Submits a Spark job on this machine, outside Airflow, and finds the exception that explains why the job failed.

Each job has a directory for its temporary files, such as shuffles. They may take gigabytes, and a killed job leaves
them. So the directory's name contains the id and start time of the process that submitted the job. The next job, or
`brokerproof down`, removes the directories of processes that have ended.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from brokerproof.errors import RunError
from brokerproof.machine.processes import find_process, read_start
from brokerproof.settings import Settings
from brokerproof.spark.job_configuration import build_spark_conf, build_spark_environment

# `some.module.SomeError: a sentence` is the last line of a traceback in Python. In Java it is the first one or a cause.
_EXCEPTION = re.compile(
    r"^(?P<wraps>Caused by: )?(?P<module>(?:[A-Za-z_]\w*\.)*)"
    r"(?P<name>[A-Z]\w*(?:Error|Exception|Interrupt)): (?P<message>.+)"
)

# Numbers the jobs of this process, which may run at the same time.
_jobs = itertools.count()


class LastException:
    """Finds the last exception in a Spark job's output. `sentence` describes it, and is empty if there is none.

    An exception of Brokerproof takes precedence over later ones of Spark, which follow while the job's other tasks end.
    For an exception of Spark or Java, `sentence` includes the cause, even if the output repeats the exception without
    it.
    """

    def __init__(self) -> None:
        self.sentence = ""
        self._is_ours = False
        # {words of an exception: words of its innermost cause}, and the exception whose causes are being printed.
        self._causes: dict[str, str] = {}
        self._wrapping = ""

    def watch(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines unchanged, and update `sentence` if a line contains an exception."""
        for line in lines:
            if match := _EXCEPTION.match(line.strip()):
                self._remember(match)
            yield line

    def _remember(self, match: re.Match[str]) -> None:
        is_ours = match["module"].startswith("brokerproof")
        words = match["message"] if is_ours else f"{match['name']}: {match['message']}"
        if match["wraps"]:
            self._causes[self._wrapping] = words
        else:
            self._wrapping = words
        if is_ours or not self._is_ours:
            cause = self._causes.get(self._wrapping)
            self.sentence = f"{self._wrapping}; its cause is {cause}" if cause and not is_ours else words
            self._is_ours = is_ours


def submit_locally(
    settings: Settings,
    job: str,
    arguments: Sequence[str],
    *,
    conf: Mapping[str, str] = MappingProxyType({}),
    log: Callable[[str], None] = lambda _: None,
) -> None:
    """Run the job `spark_jobs/JOB.py` and wait for its end.

    `conf` is added to the job's usual configuration and overrides it. `log` is called with each line of the job's
    output. If the job fails, raises RunError with the last exception, or else the last line, of the output.
    """
    with temporary_directory(settings.spark_temporary) as temporary:
        whole_conf = {**build_spark_conf(settings, temporary, local=True), **conf}
        conf_arguments = [part for key, value in whole_conf.items() for part in ("--conf", f"{key}={value}")]
        options = ["--master", "local[*]", "--driver-memory", settings.spark_driver_memory, *conf_arguments]
        command, environment = build_local_command(settings, options, job, arguments)
        process = subprocess.Popen(
            command,
            env={**os.environ, **build_spark_environment(settings, temporary, local=True), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        last, line = LastException(), ""
        assert process.stdout is not None
        try:
            for line in last.watch(process.stdout):
                log(line.rstrip())
            status = process.wait()
        except BaseException:
            # Airflow ends a task with an exception, and the job must not outlive the task.
            process.terminate()
            raise
    if status:
        raise RunError(last.sentence or f"the Spark job {job} ended with status {status}: {line.strip()}")


def build_local_command(
    settings: Settings, options: Sequence[str], job: str, arguments: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs `spark_jobs/JOB.py` on this machine, and environment variables that it needs.

    `options` are those of spark-submit.
    """
    files = [str(settings.spark_jobs / f"{name}.py") for name in ("run_locally", job)]
    return [sys.executable, *files, *arguments], {"PYSPARK_SUBMIT_ARGS": shlex.join((*options, "pyspark-shell"))}


@contextmanager
def temporary_directory(parent: Path) -> Iterator[Path]:
    """Make a directory for one job below `parent`, yield it, and remove it at the end of the block.

    Before that, directories below `parent` that belong to ended processes are removed.
    """
    remove_abandoned_directories(parent)
    directory = parent / f"{os.getpid()}-{read_start(os.getpid()):.2f}-{next(_jobs)}"
    # The rows of a run's tables are in it.
    directory.mkdir(mode=0o700, parents=True)
    try:
        yield directory
    finally:
        # Errors are ignored, because Python workers of the job may still write. The next job removes their files.
        shutil.rmtree(directory, ignore_errors=True)


def remove_abandoned_directories(parent: Path) -> None:
    """Remove each directory below `parent` that belongs to a process that has ended. All others stay.

    A directory's name contains the process id and start time of its process.
    """
    for directory in parent.glob("*"):
        if not _has_living_owner(directory.name):
            shutil.rmtree(directory, ignore_errors=True)


def _has_living_owner(name: str) -> bool:
    owner = re.fullmatch(r"(\d+)-(\d+\.\d+)-\d+", name)
    return owner is None or find_process(int(owner[1]), float(owner[2])) is not None
