"""The tables that judging wrote. The suites read each of them once, at its first use."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Suite
from brokerproof.run.directory import Run
from pyspark.sql import DataFrame, SparkSession

from brokerproof_judging import table_io
from brokerproof_judging.suites.message_counts import MessageCounts, count_messages


class JudgedTables:
    """`messages`, `anomalies` and `measurements` of a run. Raises RunError where one is missing."""

    def __init__(self, spark: SparkSession, run: Run) -> None:
        self._spark, self._run = spark, run

    @cached_property
    def messages(self) -> DataFrame:
        """The table `messages`."""
        return self._read("messages")

    @cached_property
    def message_counts(self) -> MessageCounts:
        """`messages` and `anomalies`, counted."""
        return count_messages(self.messages, self._read("anomalies"), self._run.run_id)

    @cached_property
    def measurements(self) -> list[dict[str, Any]]:
        """All rows of `measurements`: one per metric and fault, phase or moment."""
        return [row.asDict() for row in self._read("measurements").collect()]

    def select_measurements(self, suite: Suite) -> DataFrame:
        """The suite's measurements, as a frame that one task reads from memory: a third of the time of Parquet."""
        rows = [tuple(row.values()) for row in self.measurements if row["suite"] == suite]
        return self._spark.createDataFrame(rows, table_io.make_table_schema("measurements")).coalesce(1)

    def _read(self, name: str) -> DataFrame:
        if not self._run.exists("tables", name):
            raise RunError(f"{self._run.table(name)} is missing; did `verify` write it?")
        return table_io.read_table(self._spark, self._run, name)
