"""Makes the class data archive with which Spark jobs start faster: `python -m brokerproof.spark.class_data_dump`.

Java writes the archive at the end of the job `warm_up`.
"""

from __future__ import annotations

import sys

from brokerproof.errors import BrokerproofError, RunError
from brokerproof.machine.files import stage_file
from brokerproof.settings import from_environment
from brokerproof.spark.job_configuration import locate_archive
from brokerproof.spark.submission import submit_locally


def dump_archive() -> None:
    """Run the job `warm_up`, at whose end Java writes the archive. Raises RunError if the job or the writing fails."""
    path = locate_archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    with stage_file(path) as unfinished:
        options = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
        submit_locally(from_environment(), "warm_up", [], conf={"spark.driver.extraJavaOptions": options})
        if not unfinished.exists():
            raise RunError(f"Java wrote no class data to {unfinished}; is there room on the disk?")


if __name__ == "__main__":
    try:
        dump_archive()
    except BrokerproofError as error:
        sys.exit(f"Spark's class data archive could not be made: {error}")
