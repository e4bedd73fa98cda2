"""What tasks prove reaches their job through records of their own, and what they left no record of is not proven."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import consume
import load
import pytest
import read_back
from brokerproof.checks import load_scenario
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from brokerproof.run.records import (
    ConsumerEnd,
    LoadEnd,
    LogRead,
    ProducerEnd,
    Record,
    ReplicationDrains,
    SubscriptionDrains,
    read_record,
    write_record,
)
from brokerproof.systems.protocols import Log

ROOT = Path(__file__).parents[3]


class Cluster:
    """A cluster without messages, of which everything is drained."""

    def replicated(self) -> list[Any]:
        return []

    def drained(self) -> list[Any]:
        return []

    def logs(self) -> list[Log]:
        return [Log(cluster="mycluster", partition=-1)]

    def unload(self, cluster: str) -> None:
        pass


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    scenario, topology = load_scenario(ROOT / "dags/scenarios/sync_nominal.yaml", ROOT / "topologies")
    run = Run.create(str(tmp_path / "run"), run_id="r", scenario=scenario, topology=topology, addresses={})
    monkeypatch.setattr(sys, "argv", ["job", run.directory])
    for job in (load, consume, read_back):
        monkeypatch.setattr(job, "start_session", lambda name: SimpleNamespace(stop=lambda: None))
    for job in (consume, read_back):
        monkeypatch.setattr(job, "observation_of", lambda run: Cluster())
    monkeypatch.setattr(read_back, "administration_of", lambda run: Cluster())
    return run


def let_tasks_leave(monkeypatch: pytest.MonkeyPatch, job: Any, *records: Record) -> None:
    """Have the tasks of a job leave these records, and do nothing else."""

    def run_tasks(spark: Any, run: Run, *_: Any, **__: Any) -> None:
        for record in records:
            write_record(run, record)

    monkeypatch.setattr(job, "run_tasks", run_tasks)


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


def test_a_load_has_finished_where_every_producer_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    let_tasks_leave(monkeypatch, load, producer_end(0), producer_end(1))
    load.main()
    assert (end_of_load(run).finished, end_of_load(run).scheduled, end_of_load(run).why) == (True, 20, "")


def test_a_producer_with_a_problem_is_the_load_s(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    let_tasks_leave(monkeypatch, load, producer_end(0), producer_end(1, problem="p1: it broke"))
    with pytest.raises(SystemExit, match="p1: it broke"):
        load.main()
    assert (end_of_load(run).finished, end_of_load(run).why) == (False, "p1: it broke")


def test_a_producer_that_left_nothing_did_not_finish_whatever_it_showed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    LiveStatus(run, "load-1").show(finished=True, scheduled=10, acked=10, problem=None)
    let_tasks_leave(monkeypatch, load, producer_end(0))
    with pytest.raises(SystemExit, match="mycluster-p1 left no record of its end"):
        load.main()
    assert (end_of_load(run).finished, end_of_load(run).scheduled) == (False, 10)


def test_what_an_earlier_attempt_left_proves_nothing_of_this_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for left in (
        producer_end(0),
        producer_end(1),
        ConsumerEnd(task=0, consumer="audit-c0", delivered=1, problem=None, at=1),
        log_read(),
    ):
        write_record(run, left)
    for job in (load, consume, read_back):
        let_tasks_leave(monkeypatch, job)
    with pytest.raises(SystemExit, match="mycluster-p0 left no record of its end; mycluster-p1 left no record"):
        load.main()
    with pytest.raises(SystemExit, match="audit-c0 left no record of its end"):
        consume.main()
    (log,) = read_back.read_logs(run).logs
    assert (log.read_to_end, log.why) == (False, "its reader left no record")


def test_a_log_is_read_to_its_end_where_its_reader_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    let_tasks_leave(monkeypatch, read_back, log_read())
    (log,) = read_back.read_logs(run).logs
    assert log == log_read()
    drains = read_record(run, ReplicationDrains)
    assert drains is not None
    assert drains.drains == ()


def test_a_log_is_not_read_to_its_end_whatever_its_reader_showed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    LiveStatus(run, "read-back-0").show(read_to_end=True, why="read to the end")
    let_tasks_leave(monkeypatch, read_back)
    (log,) = read_back.read_logs(run).logs
    assert not log.read_to_end


def test_where_no_log_can_be_read_the_job_says_why(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(cluster="mycluster", partition=-1, why="no node answers")
    monkeypatch.setattr(Cluster, "logs", lambda _: [log])
    let_tasks_leave(monkeypatch, read_back)
    with pytest.raises(SystemExit, match="no log can be read back: no node answers"):
        read_back.main()


def test_without_subscriptions_everything_that_there_is_has_drained(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume, "plan_consumers", lambda run: [])
    consume.main()
    drains = read_record(run, SubscriptionDrains)
    assert drains is not None
    assert drains.subscriptions == ()
