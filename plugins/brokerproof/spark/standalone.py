"""A process of a Spark cluster: `python -m brokerproof.spark.standalone master` or `… worker spark://HOST:7077`.

It becomes Spark's own program, on the Java and with the modules that jobs have here, so that what a job sends to a
worker is known there.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from brokerproof.settings import from_environment
from brokerproof.spark.job_configuration import build_spark_environment

_PROGRAMS = {
    "master": "org.apache.spark.deploy.master.Master",
    "worker": "org.apache.spark.deploy.worker.Worker",
}


def build_command(arguments: Sequence[str]) -> list[str]:
    """Spark's program and its arguments. Ends with status 2 where the first one is neither `master` nor `worker`."""
    if not arguments or arguments[0] not in _PROGRAMS:
        print(f"usage: python -m {__spec__.name} {{{','.join(_PROGRAMS)}}} [ARGUMENT ...]", file=sys.stderr)
        raise SystemExit(2)
    return ["spark-class", _PROGRAMS[arguments[0]], *arguments[1:]]


def main() -> None:
    """Become Spark's program."""
    command = build_command(sys.argv[1:])
    # Not where jobs of this installation have theirs, which other machines may see too.
    temporary = Path(tempfile.gettempdir()) / "brokerproof-spark"
    temporary.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **build_spark_environment(from_environment(), temporary, local=False)}
    os.execvpe(command[0], command, environment)


if __name__ == "__main__":
    main()
