"""A session of Spark in this process, as tests and generated runs judge with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from brokerproof.machine.java import find_spark_java_home
from brokerproof.spark.job_configuration import list_java_options
from pyspark.sql import SparkSession

# A third of the time went into the optimising compiler, for code that then ran for a second.
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def give_main_module_a_file() -> None:
    """Let PySpark and what uses it be imported in pytest-xdist's processes, whose main module has no file.

    PySpark takes such a process for its own doctests, and ends it.
    """
    vars(sys.modules["__main__"]).setdefault("__file__", __file__)


def start_local_spark(heap: Sequence[str]) -> SparkSession:
    """A session for tables of a few rows: compiling a query costs more than to interpret it.

    `heap` is the options of Java that say how large its heap is at first.
    """
    give_main_module_a_file()
    os.environ["JAVA_HOME"] = str(find_spark_java_home())
    # What runs in Spark's Python workers comes from here too.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = " ".join([*_OPTIONS, *heap, *list_java_options()])
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # As judging leaves it for a small run.
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session
