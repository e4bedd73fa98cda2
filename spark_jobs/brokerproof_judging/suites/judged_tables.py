"""The tables of a judged run. What several suites need from them is read once, at its first use."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

import pandas as pd
from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Suite
from brokerproof.run.directory import Run
from brokerproof.run.table_rows import iterate_rows
from brokerproof.run.tables import SCHEMAS
from pyspark.sql import DataFrame, SparkSession

from brokerproof_judging import table_io
from brokerproof_judging.suites.message_counts import MessageCounts, count_messages


class JudgedTables:
    """The tables of a run. Reading a table raises RunError if it is missing."""

    def __init__(self, spark: SparkSession, run: Run) -> None:
        self._spark, self._run = spark, run

    @cached_property
    def messages(self) -> DataFrame:
        return self.read("messages")

    @cached_property
    def message_counts(self) -> MessageCounts:
        """The counts of `messages` and `anomalies`."""
        return count_messages(self.messages, self.read("anomalies"), self._run.run_id)

    @cached_property
    def measurements(self) -> list[dict[str, Any]]:
        """All rows of `measurements`: one per metric and subject, such as a fault or a phase."""
        self._require("measurements")
        return list(iterate_rows(self._run, "measurements"))

    def select_measurements(self, suites: Collection[Suite]) -> pd.DataFrame:
        """Return the rows of `measurements` that belong to `suites`, with columns of Python objects.

        In a column of numbers, pandas does not tell null from NaN.
        """
        rows = [row for row in self.measurements if row["suite"] in suites]
        return pd.DataFrame(rows, columns=SCHEMAS["measurements"].names, dtype=object)

    def read(self, name: str) -> DataFrame:
        self._require(name)
        return table_io.read_table(self._spark, self._run, name)

    def _require(self, name: str) -> None:
        if not self._run.exists("tables", name):
            raise RunError(f"{self._run.table(name)} is missing; did `verify` write it?")
