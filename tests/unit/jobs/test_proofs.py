"""What tasks prove reaches their job through records of their own, and what they left no record of is not proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import consume
import load
import pytest
import read_back
from brokerproof import clock
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from brokerproof.run.records import (
    ConsumerEnd,
    LoadEnd,
    LogRead,
    ObservationsRequested,
    ObservationsWritten,
    ProducerEnd,
    Record,
    ReplicationDrains,
    SubscriptionDrains,
    read_record,
    write_record,
)
from brokerproof.run.seals import check_seals
from brokerproof.systems.protocols import TopicLog
from builders import make_run

from ..planted_system import ON_PLANTED, PlantedSystem, plant_system


class Cluster:
    """A cluster without messages, of which everything is drained."""

    def __init__(self) -> None:
        self.log = TopicLog(cluster="mycluster", partition=-1)

    def find_replication_drains(self) -> list[Any]:
        return []

    def find_subscription_drains(self) -> list[Any]:
        return []

    def find_logs(self, cluster: str | None = None) -> list[TopicLog]:
        return [self.log]

    def unload(self, cluster: str) -> None:
        pass


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    plant_system(monkeypatch, PlantedSystem(cluster=cluster))
    return cluster


@pytest.fixture
def run(tmp_path: Path, cluster: Cluster) -> Run:
    return make_run(tmp_path / "run", "sync_nominal", ON_PLANTED)


class LeavesRecords:
    """Stands for Spark: the tasks of a job leave these records, and do nothing else."""

    def __init__(self, *records: Record) -> None:
        self._records = records

    def __call__(self, name: str) -> Any:
        return self

    def run(self, run: Run, *_: Any, **__: Any) -> None:
        for record in self._records:
            write_record(run, record)


def producer_end(task: int, **given: Any) -> ProducerEnd:
    fields = {"producer": f"mycluster-p{task}", "scheduled": 10, "acked": 10, "failed": 0, "unknown": 0}
    return ProducerEnd(task=task, **{**fields, "problem": None, "at": 1, **given})


def log_read(**given: Any) -> LogRead:
    fields = {"cluster": "mycluster", "topic": "t", "partition": -1, "end": None, "read_to_end": True, "why": "read"}
    return LogRead(task=0, **{**fields, "messages": 0, **given})


def end_of_load(run: Run) -> LoadEnd:
    end = read_record(run, LoadEnd)
    assert end is not None
    return end


def test_a_load_has_finished_where_every_producer_says_so(run: Run) -> None:
    load.main([run.directory], LeavesRecords(producer_end(0), producer_end(1)))
    assert (end_of_load(run).finished, end_of_load(run).scheduled, end_of_load(run).why) == (True, 20, "")


def test_a_producer_with_a_problem_is_the_load_s(run: Run) -> None:
    with pytest.raises(RunError, match="p1: it broke"):
        load.main([run.directory], LeavesRecords(producer_end(0), producer_end(1, problem="p1: it broke")))
    assert (end_of_load(run).finished, end_of_load(run).why) == (False, "p1: it broke")


def test_a_producer_that_left_nothing_did_not_finish_whatever_it_showed(run: Run) -> None:
    LiveStatus(run, "load-1").show(finished=True, scheduled=10, acked=10, problem=None)
    with pytest.raises(RunError, match="mycluster-p1 left no record of its end"):
        load.main([run.directory], LeavesRecords(producer_end(0)))
    assert (end_of_load(run).finished, end_of_load(run).scheduled) == (False, 10)


def test_what_an_earlier_attempt_left_proves_nothing_of_this_one(run: Run) -> None:
    for left in (
        producer_end(0),
        producer_end(1),
        ConsumerEnd(task=0, consumer="audit-c0", delivered=1, problem=None, at=1),
        log_read(),
    ):
        write_record(run, left)
    with pytest.raises(RunError, match="mycluster-p0 left no record of its end; mycluster-p1 left no record"):
        load.main([run.directory], LeavesRecords())
    with pytest.raises(RunError, match="audit-c0 left no record of its end"):
        consume.main([run.directory], LeavesRecords())
    (log,) = read_back.read_logs(run, LeavesRecords()).logs
    assert (log.read_to_end, log.why) == (False, "its reader left no record")


def test_a_log_is_read_to_its_end_where_its_reader_says_so(run: Run) -> None:
    (log,) = read_back.read_logs(run, LeavesRecords(log_read())).logs
    assert log == log_read()
    drains = read_record(run, ReplicationDrains)
    assert drains is not None
    assert drains.drains == ()


@pytest.mark.usefixtures("cluster")
def test_a_topic_that_stores_no_messages_has_nothing_to_read(tmp_path: Path) -> None:
    unstored = {"workload.stored": False, "guarantee": "at_most_once"}
    bound = {"bounds": {"missed_messages": {"max": 0}}, "workload.partitions": 2}
    run = make_run(tmp_path / "run", "sync_nominal", {**unstored, **bound})
    logs = read_back.read_logs(run, LeavesRecords()).logs
    assert [(log.partition, log.read_to_end, log.messages) for log in logs] == [(0, True, 0), (1, True, 0)]
    assert {log.why for log in logs} == {"the topic stores no messages"}
    assert not check_seals(run, ["stored"]).problems


def test_a_log_is_not_read_to_its_end_whatever_its_reader_showed(run: Run) -> None:
    LiveStatus(run, "read-back-0").show(read_to_end=True, why="read to the end")
    (log,) = read_back.read_logs(run, LeavesRecords()).logs
    assert not log.read_to_end


def test_where_no_log_can_be_read_the_job_says_why_and_the_samples_are_written_first(
    run: Run, cluster: Cluster
) -> None:
    cluster.log = TopicLog(cluster="mycluster", partition=-1, why="no node answers")
    write_record(run, ObservationsWritten(at=clock.now_us()))
    with pytest.raises(RunError, match="no log can be read back: no node answers"):
        read_back.main([run.directory], LeavesRecords())
    assert read_record(run, ObservationsRequested) is not None


@pytest.mark.usefixtures("cluster")
def test_without_subscriptions_everything_that_there_is_has_drained(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "sync_nominal", {"workload.subscriptions": [], **ON_PLANTED})
    consume.main([run.directory], LeavesRecords())
    drains = read_record(run, SubscriptionDrains)
    assert drains is not None
    assert drains.subscriptions == ()
