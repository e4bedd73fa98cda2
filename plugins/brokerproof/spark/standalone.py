"""Starts a process of a Spark cluster: `python -m brokerproof.spark.standalone master` or `… worker spark://HOST:7077`.

The process executes Spark's own program with the same Java as the jobs, and the same Python modules, so a worker can
load a job's code.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from brokerproof.settings import from_environment
from brokerproof.spark.job_configuration import build_spark_environment

_PROGRAMS = {"master": "org.apache.spark.deploy.master.Master", "worker": "org.apache.spark.deploy.worker.Worker"}


def build_command(arguments: Sequence[str]) -> list[str]:
    """Return the command that starts Spark's program for a master or a worker.

    Exits with status 2 if the first argument is not `master` or `worker`.
    """
    if not arguments or arguments[0] not in _PROGRAMS:
        print(f"usage: python -m {__spec__.name} {{{','.join(_PROGRAMS)}}} [ARGUMENT ...]", file=sys.stderr)
        raise SystemExit(2)
    return ["spark-class", _PROGRAMS[arguments[0]], *arguments[1:]]


def main() -> None:
    """Replace this process by the program of a Spark master or worker."""
    command = build_command(sys.argv[1:])
    # The directory of the jobs' temporary files is not used, because other machines may share it.
    temporary = Path(tempfile.gettempdir()) / "brokerproof-spark"
    temporary.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **build_spark_environment(from_environment(), temporary, local=False)}
    os.execvpe(command[0], command, environment)


if __name__ == "__main__":
    main()
