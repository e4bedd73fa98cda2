"""Makes Spark's class data archive: `python -m brokerproof.spark.warm_up` runs a job of a few rows and keeps it."""

from __future__ import annotations

import os
import sys

from brokerproof.errors import BrokerproofError, RunError
from brokerproof.settings import from_environment
from brokerproof.spark.class_data_archive import archive
from brokerproof.spark.submission import submit_here


def make() -> None:
    """Run the warm-up job and keep what Java learned. Raises RunError where it fails or Java kept nothing."""
    path = archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    options = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={temporary} -Xlog:disable"
    try:
        submit_here(from_environment(), "warm_up", [], conf={"spark.driver.extraJavaOptions": options})
        if not temporary.exists():
            raise RunError(f"Java kept no class data in {temporary}; is there room on the disk?")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


if __name__ == "__main__":
    try:
        make()
    except BrokerproofError as error:
        sys.exit(f"Spark's class data could not be kept: {error}")
