"""What `judge_run` leaves of a synthetic run, as tests ask for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run
from brokerproof.run.judgement import SuiteJudgement
from brokerproof_judging.messages.publish_record import PartSummary
from brokerproof_judging.run_judging import judge_run
from pyspark.sql import SparkSession

from .history import History, Row, table

Found = tuple[str, bool, str, str | None, str | None, int | None]


def suite_judgement(verdict: Verdict, why: str = "") -> SuiteJudgement:
    """What a suite came to, without its expectations."""
    return SuiteJudgement(verdict=verdict, why=why, evaluated=0, written=0, expectations=())


def pass_suites(spark: SparkSession, run: Run, expectations: str) -> dict[Suite, SuiteJudgement]:
    """Suites that are content with everything, so that what is tested is what comes before them."""
    del spark, run, expectations
    return {suite: suite_judgement(Verdict.PASSED) for suite in Suite}


def summarize(**found: Any) -> PartSummary:
    """A part's summary in which nothing but the given things was found."""
    lists: dict[str, Any] = {name: [] for name in ("producers", "attempts", "deliveries", "logs", "recorded_twice")}
    return PartSummary(**(lists | dict.fromkeys(("two_homes", "two_payloads", "two_keys")) | found))


def check_expected(lines: list[str], file: Path) -> None:
    """Compare lines with those of a file, or write the file if `make expected-rows` runs the test."""
    if os.environ.get("BROKERPROOF_WRITE_EXPECTED_ROWS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        pytest.skip(f"{file} was written")
    assert lines == file.read_text(encoding="utf-8").splitlines()


class Judged:
    """A history, judged in a directory of its own."""

    def __init__(self, spark: SparkSession, directory: Path, history: History) -> None:
        self.run = history.write(directory)
        # As it is written.
        self.judgement = judge_run(spark, self.run, pass_suites, "no expectations").model_dump(mode="json")
        self._tables: dict[str, list[Row]] = {}

    def table(self, name: str) -> list[Row]:
        """The rows of a table."""
        return self._tables.setdefault(name, table(self.run, name))

    def anomalies(self, topic: str) -> set[Found]:
        """(anomaly, legal, cluster, subscription, producer, seq) of a topic, each of which must be told once."""
        columns = ("anomaly", "legal", "cluster", "subscription", "producer", "seq")
        rows: list[Found] = [
            tuple(row[column] for column in columns)  # type: ignore[misc]
            for row in self.table("anomalies")
            if row["topic"] == topic
        ]
        assert len(rows) == len(set(rows)), f"an anomaly was told twice: {rows}"
        return set(rows)

    def findings(self, topic: str) -> dict[Found, tuple[str, str]]:
        """The same with the cause and the detail of each."""
        rows = [row for row in self.table("anomalies") if row["topic"] == topic]
        keys = ("anomaly", "legal", "cluster", "subscription", "producer", "seq")
        findings = {tuple(row[key] for key in keys): (row["cause"], row["detail"]) for row in rows}
        assert findings.keys() == self.anomalies(topic)
        return findings  # type: ignore[return-value]

    def measured(self, metric: str, subject: str) -> Row:
        """The one measurement of a metric and subject."""
        rows = self.table("measurements")
        (row,) = (row for row in rows if (row["metric"], row["subject"]) == (metric, subject))
        return row
