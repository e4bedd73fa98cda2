"""All measurements of some planted runs, whose rows are in the folder `expected_measurements`, with all columns.

Planted runs beside this file say which values are right. The evidence, the limits and the values of all other metrics
are checked only here: a change of measuring that changes one of them has to change these files too, where a reviewer
sees it. `make expected-rows` writes them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from brokerproof.experiment.topology import RegionLink
from brokerproof.run.records import ConsumerEnd, FaultsUndone, FaultTargets, LogsRead, PhaseTimes
from brokerproof.run.tables import SCHEMAS
from pyspark.sql import SparkSession

from ..history import SECOND, START, History
from ..judged import Judged, check_expected
from . import test_failover, test_interruptions, test_measurements, test_replication

EXPECTED = Path(__file__).with_name("expected_measurements")
BOUNDED = ("rto_s", "unavailable_s", "first_ack_s", "longest_ack_gap_s", "longest_delivery_gap_s")


def at(second: float) -> int:
    return START + int(second * SECOND)


def make_one_cluster() -> History:
    return test_measurements.planted()


def make_with_a_second_fault() -> History:
    """The second fault takes effect before the first one's repair and drain have ended."""
    history = test_measurements.planted()
    row = {"fault": "never", "kind": "kill", "targets": [test_measurements.HEIR], "state": "effective"}
    history.faults.append({**row, "at": at(35)})
    for fault, state, second in (("kill", "healing", 50), ("kill", "recovered", 58), ("never", "recovered", 70)):
        row = {"fault": fault, "kind": "kill", "targets": [test_measurements.OWNER], "state": state}
        history.faults.append({**row, "at": at(second)})
    return history


def make_with_a_silent_monitor() -> History:
    history = test_measurements.planted()
    history.observations = [row for row in history.observations if not at(24) < row["at"] < at(47)]
    return history


def make_with_a_monitor_that_ended_early() -> History:
    history = test_measurements.planted()
    history.observations = [row for row in history.observations if row["at"] < at(24)]
    return history


def make_without_samples_before_the_effect() -> History:
    history = test_measurements.planted()
    history.observations = [row for row in history.observations if row["at"] > at(21)]
    return history


def make_without_proofs() -> History:
    """Nothing proves that the faults were undone, that logs were read, or that subscriptions drained."""
    history = test_measurements.planted()
    history.leave(FaultsUndone(undone=False, problems=("it does not start",), at=START))
    history.records[LogsRead] = None
    history.not_drained()
    history.leave(FaultTargets(fault="kill", targets=("a",), known_at=START, why="no answer", at=at(1)))
    return history


def make_at_most_once() -> History:
    """Two messages are lost, which is legal."""
    return test_measurements.planted(guarantee="at_most_once", bounds={"missing_messages": {"max": 5}})


def make_with_a_consumer_that_stood_still() -> History:
    """It stood still while the backlog drained."""
    history = test_measurements.planted()
    rest: dict[str, Any] = {"delivered": None, "problem": None, "at": START}
    history.leave(ConsumerEnd(task=0, consumer="audit-c0", standstills=((at(40), at(44)),), **rest))
    return history


def make_with_a_link() -> History:
    """The link's samples are of the steady phase only."""
    history = test_measurements.planted()
    history.topology = history.topology.model_copy(update={"links": [RegionLink(between=["eu", "us"], delay_ms=10)]})
    for second in range(1, 15):
        for metric, value in {"timed": 100, "added_p50_ms": 0.1 * second, "added_p99_ms": second}.items():
            row = {"source": "link:eu>us", "metric": metric, "value": str(value)}
            history.observations.append({**row, "at": at(second)})
    return history


def make_destroyed_later() -> History:
    """Two faults destroy the cluster. A message that was sent between them is lost with the second one."""
    history = test_measurements.planted(destroyed=["main"], bounds={"rpo_messages": {"max": 5}}, kind="destroy")
    row = {"fault": "never", "kind": "destroy", "targets": [test_measurements.BOOKIE]}
    times = {"effective": 55, "healing": 57}
    history.faults += [{**row, "state": state, "at": at(second)} for state, second in times.items()]
    for number in (400, 570):
        history.stored.remove(next(row for row in history.stored if row["seq"] == number))
    return history


def make_never_destroyed() -> History:
    """The fault that would destroy the cluster never took effect."""
    history = test_replication.planted(destroyed=["main"], bounds={"rpo_messages": {"max": 5}})
    history.faults = [row for row in history.faults if (row["fault"], row["state"]) != ("gone", "effective")]
    return history


def make_never_steady() -> History:
    history = test_measurements.planted()
    history.records[PhaseTimes] = None
    return history


def make_two_clusters() -> History:
    return test_replication.planted(destroyed=["main"], bounds={"rpo_messages": {"max": 5}})


def make_two_clusters_without_proofs() -> History:
    history = test_replication.planted()
    history.topic = test_replication.TOPIC
    history.not_replicated()
    history.not_read_to_end("other")
    return history


def make_moved() -> History:
    history = test_failover.planted()
    times = {"steady_at": 0, "impact_at": 0.001, "recovery_at": 0.003, "ends_at": 0.2}
    history.leave(PhaseTimes(**{name: at(second) for name, second in times.items()}))
    row = {"fault": "gone", "kind": "kill", "targets": ["broker-eu-1-main"], "state": "effective"}
    history.faults.append({**row, "at": at(0.002)})
    return history


def make_interrupted() -> History:
    """Two faults, a partition that is silent, messages that were never acked, and clients that stood still."""
    history = test_interruptions.Clients(names=("first", "second"), bounds={name: {"max": 5} for name in BOUNDED})
    silent = test_interruptions.silence(1, 28, 33.3)
    history.load(acked_after=silent, is_acked=lambda partition, second: partition == 0 or not 60 <= second < 62)
    history.fault("first", injected=27, effective=27.5).fault("second", injected=59, effective=59.5)
    test_interruptions.stand_still(history, 30, 31)
    return test_interruptions.stand_still(history, 60, 70, client="c0")


HISTORIES: dict[str, Callable[[], History]] = {
    name.removeprefix("make_"): make for name, make in list(globals().items()) if name.startswith("make_")
}


@pytest.mark.parametrize("name", HISTORIES)
def test_judging_measures_the_expected_rows(spark: SparkSession, tmp_path: Path, name: str) -> None:
    rows = Judged(spark, tmp_path / "run", HISTORIES[name]()).table("measurements")
    columns = [column for column in SCHEMAS["measurements"].names if column != "run_id"]
    lines = [json.dumps(columns), *sorted(json.dumps([row[column] for column in columns]) for row in rows)]
    check_expected(lines, EXPECTED / f"{name}.jsonl")
