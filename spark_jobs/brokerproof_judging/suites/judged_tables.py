"""The tables that judging wrote. The suites read each of them once, at its first use."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pandas as pd
from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Suite
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS
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
        self._require("measurements")
        return list(table_io.iterate_rows(self._run, "measurements"))

    def select_measurements(self, suite: Suite) -> pd.DataFrame:
        """The suite's measurements. As objects, because numbers of pandas know no difference between null and NaN."""
        rows = [row for row in self.measurements if row["suite"] == suite]
        return pd.DataFrame(rows, columns=SCHEMAS["measurements"].names, dtype=object)

    def _read(self, name: str) -> DataFrame:
        self._require(name)
        return table_io.read_table(self._spark, self._run, name)

    def _require(self, name: str) -> None:
        if not self._run.exists("tables", name):
            raise RunError(f"{self._run.table(name)} is missing; did `verify` write it?")
