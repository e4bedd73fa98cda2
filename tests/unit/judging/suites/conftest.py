"""Runs with planted tables."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from brokerproof.checks import load_topology
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.run.directory import Run
from brokerproof.run.records import Record, write_record
from local_spark import give_main_module_a_file
from pyspark.sql import SparkSession

# Tests import Great Expectations, which imports PySpark's client.
give_main_module_a_file()

PROJECT = Path(__file__).resolve().parents[4]
EXPECTATIONS = PROJECT / "expectations"
CLUSTER, SUBSCRIPTION = "mycluster", "audit"
RUN_ID = "planted"

Judge = Callable[..., dict[str, dict[str, Any]]]


def measurement(metric: str, subject: str, value: float | None, **columns: Any) -> dict[str, Any]:
    """A row of `measurements`."""
    known = METRICS[metric]
    row = {"run_id": RUN_ID, "suite": str(known.suite), "metric": metric, "subject": subject, "value": value}
    return {**row, "unit": known.unit, **columns}


def sound_measurements() -> list[dict[str, Any]]:
    """What a run without faults and bounds measures."""
    return [
        measurement("segments_not_spanning", "start", 0.0),
        measurement("segments_not_spanning", "end", 0.0),
        measurement("under_replicated_segments", "end", 0.0),
        measurement("publish_latency_p99_ms", "steady", 12.0),
        measurement("sampling_gap_s", "run", 0.6),
    ]


@dataclass
class Planted:
    """The tables of a run before they are written, to be changed by a test."""

    directory: str
    messages: list[dict[str, Any]]
    anomalies: list[dict[str, Any]]
    measurements: list[dict[str, Any]]
    scenario: dict[str, Any]
    topology: Topology
    # Rows of the recorded tables, which only standard expectations read.
    recorded: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)

    def mark(self, anomaly: str, *, legal: bool = False, count: int = 1, in_log: bool = True) -> None:
        """Give the anomaly to the first `count` messages of the log, or of the subscription."""
        rows = [row for row in self.messages if (row["subscription"] is None) is in_log]
        for row in rows[:count]:
            row["anomalies"] = [*row["anomalies"], anomaly]
            row["illegal"] = row["illegal"] if legal else [*row["illegal"], anomaly]
            place = {name: row[name] for name in ("cluster", "topic", "partition", "subscription", "producer", "seq")}
            self.anomalies.append({"run_id": RUN_ID, "anomaly": anomaly, "legal": legal, **place})

    def measure(self, metric: str, subject: str, value: float | None, **columns: Any) -> None:
        """Replace what was measured of the subject."""
        self.measurements = [row for row in self.measurements if (row["metric"], row["subject"]) != (metric, subject)]
        self.measurements.append(measurement(metric, subject, value, **columns))

    def write(self) -> Run:
        """The run's directory."""
        scenario = Scenario.model_validate(
            {
                "name": "planted",
                "title": "Planted",
                "description": "Tables written by a test.",
                "topology": "sync_active_passive",
                "workload": {
                    "namespace": "mytenant/eu",
                    # Anomalies of outputs apply only if consumers write some.
                    "subscriptions": [{"name": SUBSCRIPTION, "commit": "after"}],
                },
                **self.scenario,
            }
        )
        run = Run.create(self.directory, run_id=RUN_ID, scenario=scenario, topology=self.topology, **self.facts)
        for record in self.records:
            write_record(run, record)
        for table in ("messages", "anomalies", "measurements"):
            Path(run.table(table)).mkdir(parents=True)
            run.append(table, getattr(self, table))
        for table, rows in self.recorded.items():
            Path(run.table(table)).mkdir(parents=True)
            run.append(table, rows)
        return run


def message(seq: int, subscription: str | None) -> dict[str, Any]:
    """A row of `messages` with nothing wrong."""
    return {
        "run_id": RUN_ID,
        "cluster": CLUSTER,
        "topic": "persistent://mytenant/eu/orders",
        "partition": -1,
        "subscription": subscription,
        "home": CLUSTER,
        "producer": "producer-1",
        "seq": seq,
        "key": "key-1",
        "outcome": "acked",
        "attempts": 1,
        "sent_at": seq * 1000,
        "copies": 1,
        "deliveries": 1,
        "recovered": False,
        "anomalies": [],
        "illegal": [],
    }


def plant(directory: Path) -> Planted:
    """A sound run of twenty messages, at their log and their subscription."""
    rows = [message(seq, subscription) for seq in range(20) for subscription in (None, SUBSCRIPTION)]
    topology = load_topology("sync_active_passive", PROJECT / "topologies")
    return Planted(str(directory / "run"), rows, [], sound_measurements(), {}, topology)


def move_to_log_server(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """Make it a run of the log server of tests/systems, which replicates nothing and does not say where copies are."""
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "testlog=testlog_system.system:TESTLOG")
    planted.topology = load_topology("three_servers", PROJECT / "tests/systems/topologies")
    for row in planted.messages:
        row |= {"cluster": "log", "home": "log"}
    return planted


def judged_by(
    spark: SparkSession,
    planted: Planted | Run,
    directory: Path = EXPECTATIONS,
    only: str | Sequence[str] = tuple(Suite),
    *,
    data_docs: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """What the planted run comes to in one suite, in some or in all, as it is written; `directory` has the suites.

    Data Docs take longer than all else, so they are built only where a test is about them.
    """
    from brokerproof_judging.suites.evaluation import evaluate

    names = [only] if isinstance(only, str) else only
    suites = [Suite(name) if name in list(Suite) else name for name in names]
    run = planted if isinstance(planted, Run) else planted.write()
    judged = evaluate(spark, run, [str(directory)], suites=suites, data_docs=data_docs, **options)
    assert list(judged) == suites
    content = {str(suite): judgement.model_dump(mode="json") for suite, judgement in judged.items()}
    json.dumps(content, allow_nan=False)
    return content


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """A run with nothing wrong."""
    return plant(tmp_path)


@pytest.fixture
def judge(spark: SparkSession) -> Judge:
    """Writes the planted run, unless it is written, and evaluates it."""
    return functools.partial(judged_by, spark)


@pytest.fixture
def written_suites(tmp_path: Path) -> Path:
    """A copy of the suite files, to be broken by a test."""
    return Path(shutil.copytree(EXPECTATIONS, tmp_path / "expectations"))


def rewrite(directory: Path, suite: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a suite file."""
    path = directory / f"{suite}.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def about(judgement: dict[str, Any], name: str) -> dict[str, Any]:
    """What a suite says about one anomaly or metric."""
    return next(entry for entry in judgement["expectations"] if entry["name"] == name)


def suite_of(anomaly: Anomaly) -> str:
    """The suite that judges an anomaly."""
    return str(anomaly.facts.suite)
