"""Makes Spark's class data archive: `python -m brokerproof.spark_rehearsal` runs a job of a few rows and keeps it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from brokerproof.errors import MachineError
from brokerproof.settings import from_environment
from brokerproof.spark_class_data import archive
from brokerproof.spark_submission import spark_environment

_TIMEOUT_S = 300.0


def make() -> None:
    """Run the rehearsal and keep what Java learned. Raises MachineError with the last lines where it fails."""
    settings = from_environment()
    path = archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    options = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={temporary} -Xlog:disable"
    try:
        result = subprocess.run(
            [
                *(str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"),
                *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
                *("--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.sql.shuffle.partitions=2"),
                *("--driver-memory", "512m", "--conf", f"spark.driver.extraJavaOptions={options}"),
                str(settings.spark_jobs / "rehearsal.py"),
            ],
            env={**os.environ, **spark_environment(settings)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
        if result.returncode != 0 or not temporary.exists():
            tail = "\n".join((result.stdout + result.stderr).splitlines()[-15:])
            raise MachineError(f"Spark's class data archive could not be made:\n{tail}")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


if __name__ == "__main__":
    make()
