"""Judge a run's tables: `spark-submit verify.py RUN_DIR [--expectations DIR]`.

Needs no cluster, only the run's directory. Leaves state/judgement.json whatever happens; the exit status is 0 when the
run was judged, whatever the verdict, and 1 when it could not be or the directory is no run.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from threading import Thread

from brokerproof.run.directory import Run
from brokerproof.run.judgement import JudgingFailure
from brokerproof.run.records import write_record
from pyspark.sql import SparkSession

EXPECTATIONS = Path(__file__).resolve().parents[1] / "expectations"


def session() -> SparkSession:
    """The Spark session, with the settings that the tables' contract needs whoever submitted the job."""
    return (
        SparkSession.builder.appName("brokerproof verify")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .getOrCreate()
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge, leave the judgement, and return the exit status."""
    parser = argparse.ArgumentParser(description="Judge the tables of a run.")
    parser.add_argument("run_dir", help="the run's directory, any fsspec location")
    parser.add_argument("--expectations", default=str(EXPECTATIONS), help="directory of the suites")
    options = parser.parse_args(arguments)
    run = Run(options.run_dir.rstrip("/"))
    if not run.exists("run.json"):
        # Nothing is written there: a mistyped path must not become a directory that looks like a run.
        print(f"{run.directory} is no run: it holds no run.json", file=sys.stderr)
        return 1
    # Takes some five seconds, which Java takes as well until there is a session.
    Thread(target=import_module, args=("great_expectations",), daemon=True).start()
    try:
        from brokerproof_judging.run_judging import judge_run
        from brokerproof_judging.suites.evaluation import evaluate

        judgement = judge_run(session(), run, evaluate, options.expectations)
    except Exception as error:
        traceback.print_exc()
        # Spark's messages go on for pages; the first line says what happened, the log has the rest.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        write_record(run, JudgingFailure(why=f"The run could not be judged: {reason}", error=repr(error)[:2000]))
        return 1
    write_record(run, judgement)
    print(f"{judgement.verdict}: {judgement.why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
