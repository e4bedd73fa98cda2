"""The Spark session of a job."""

from __future__ import annotations

import sys

from brokerproof.errors import BrokerproofError
from brokerproof.run import Run
from brokerproof.tables import SCHEMAS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


def session(name: str) -> SparkSession:
    """The session; everything else comes from spark-submit."""
    return SparkSession.builder.appName(f"brokerproof-{name}").config("spark.sql.session.timeZone", "UTC").getOrCreate()


def schema(table: str) -> StructType:
    """A table's schema in Spark's terms."""
    return from_arrow_schema(SCHEMAS[table])


def append(frame: DataFrame, run: Run, table: str) -> None:
    """Write what a job made. One action a job: an action repeats side effects."""
    frame.write.mode("append").parquet(run.table(table))


def run_argument() -> Run:
    """The run whose directory is the job's first argument."""
    if len(sys.argv) < 2:
        raise SystemExit(f"usage: {sys.argv[0]} RUN_DIR")
    try:
        run = Run(sys.argv[1])
        _ = run.facts
    except BrokerproofError as error:
        raise SystemExit(str(error)) from None
    return run
