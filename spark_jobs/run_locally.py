"""Runs a Spark job on this machine: `python run_locally.py JOB.py ARGUMENT…`.

`spark-submit` starts Java first and Python afterwards. Here Python is first, and imports the job's modules while Java
starts. Java gets its options from the environment variable PYSPARK_SUBMIT_ARGS, and ends when this process has ended.
"""

from __future__ import annotations

import gc
import runpy
import sys
from threading import Thread

from pyspark import SparkContext


def main() -> None:
    """Run the job in this process. Its own errors and its exit status are those of this process."""
    # The job's own SparkContext waits for this start. If it failed, the job tries it again and reports the error.
    Thread(target=SparkContext._ensure_initialized, daemon=True).start()
    del sys.argv[0]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        # At its end Python would look for cycles in all modules, which takes a second after Great Expectations.
        gc.freeze()


if __name__ == "__main__":
    main()
