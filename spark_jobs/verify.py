"""Judge a run's tables: `spark-submit verify.py RUN_DIR [--expectations DIR]… [--suite NAME]…`.

The job needs only the run's directory, and no cluster. It writes state/judgement.json, or state/judging_failure.json
with the reason if judging failed. If the directory is no run, has a link inside or its tables were deleted, it writes
neither. The exit status is 0 if the run was judged, with any verdict, and 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread

from brokerproof.errors import InputError
from brokerproof.run.directory import Run
from brokerproof.run.judgement import JudgingFailure, write_judgement
from brokerproof.run.records import TablesDeletion, read_record, write_record
from brokerproof.run.series import RunSeries
from brokerproof.run.time_axis import follow_time_axis
from pyspark.sql import SparkSession

EXPECTATIONS = Path(__file__).resolve().parents[1] / "expectations"


def session() -> SparkSession:
    """Return the Spark session, with the settings for times that the tables need.

    Spark must not replace `${env:NAME}` in the SQL of a suite.
    """
    return (
        SparkSession.builder.appName("brokerproof verify")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.variable.substitute", "false")
        .getOrCreate()
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the run, write the judgement, and return the exit status."""
    parser = argparse.ArgumentParser(description="Judge the tables of a run.")
    parser.add_argument("run_dir", help="the run's directory, any fsspec location")
    parser.add_argument(
        "--expectations",
        action="append",
        metavar="DIR",
        help="directory of suites; may be repeated, and the first one that has a suite's file counts",
    )
    parser.add_argument(
        "--suite",
        action="append",
        metavar="NAME",
        help="suite of a user that was there when the run began; may be repeated, and one without a file is unknown",
    )
    options = parser.parse_args(arguments)
    run = Run(options.run_dir.rstrip("/"))
    if not run.exists("run.json"):
        # No file is written: a mistyped path must not become a directory that looks like a run.
        print(f"{run.directory} is no run: it holds no run.json", file=sys.stderr)
        return 1
    try:
        run.refuse_links()
    except InputError as error:
        print(f"{run.directory} cannot be judged: {error}", file=sys.stderr)
        return 1
    if (deletion := read_record(run, TablesDeletion)) is not None:
        # An earlier judgement is kept, because the run cannot be judged without its tables.
        print(f"{run.directory} cannot be judged: {deletion.sentence}", file=sys.stderr)
        return 1
    # The import of Great Expectations and Java's start of the session each take about 5 s, so they run side by side.
    Thread(target=import_module, args=("brokerproof_judging.suites.message_expectation",), daemon=True).start()
    try:
        from brokerproof.clients.table_recovery import recover_tables
        from brokerproof_judging.run_judging import judge_run
        from brokerproof_judging.suites.evaluation import evaluate

        follow_time_axis(run)
        for table in recover_tables(run):
            print(f"{table}: its job did not get to its end; the table was made from the records of its clients")
        evaluate_suites = partial(evaluate, required=options.suite or [])
        judgement = judge_run(session(), run, evaluate_suites, options.expectations or [str(EXPECTATIONS)])
    except Exception as error:
        traceback.print_exc()
        # Spark's messages are pages long. The first line says what happened, and the log has the rest.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        write_judgement(run, JudgingFailure(why=f"The run could not be judged: {reason}", error=repr(error)[:2000]))
        return 1
    write_judgement(run, judgement)
    print(f"{judgement.verdict}: {judgement.why}")
    write_record(run, _make_series(run))
    return 0


def _make_series(run: Run) -> RunSeries:
    """Return the series that the run's page draws, or the reason why there are none. No verdict depends on them."""
    from brokerproof_judging.series.run_series import make_run_series

    try:
        return make_run_series(run)
    except Exception as error:
        traceback.print_exc()
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return RunSeries(problem=f"The series of the run could not be made: {reason}")


if __name__ == "__main__":
    sys.exit(main())
