"""The jobs over several clusters: who publishes and consumes where, and when they stop waiting."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import consume
import load
import pytest
import read_back
from brokerproof import clock, monitor
from brokerproof.clients.consuming import MovingConsumer
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus, read_live_status
from brokerproof.run.records import (
    ClustersConfigured,
    ConsumersStop,
    FaultsUndone,
    LoadEnd,
    Record,
    ReplicationDrain,
    ReplicationDrains,
    StepProblem,
    SubscriptionDrain,
    SubscriptionDrains,
    read_record,
    remove_record,
    write_record,
)
from brokerproof.systems.protocols import TopicLog
from builders import make_run

from ..planted_system import ON_PLANTED, PlantedSystem, plant_system

EU, US = "cluster-eu", "cluster-us"


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_system(monkeypatch, PlantedSystem())


def run_of(tmp_path: Path, **settings: Any) -> Run:
    run = make_run(tmp_path / "run", "geo_nominal", {**settings, **ON_PLANTED})
    write_record(run, ClustersConfigured(at=0))
    return run


class Clusters:
    """Clusters whose replication and subscriptions drain when they are told to."""

    def __init__(self, *, replicated_after: int, drained_after: int = 0) -> None:
        self.replicated_after, self.drained_after = replicated_after, drained_after
        self.asked: list[str] = []
        self.unloaded: list[str] = []
        self.unread: str | None = None

    def find_replication_drains(self) -> list[ReplicationDrain]:
        self.asked.append("replicated")
        drained = self.asked.count("replicated") > self.replicated_after
        return [ReplicationDrain(topic="t", sender=EU, receiver=US, drained=drained, backlog=0, why="12 behind")]

    def find_subscription_drains(self) -> list[SubscriptionDrain]:
        self.asked.append("drained")
        drained = self.asked.count("drained") > self.drained_after
        return [SubscriptionDrain(cluster=US, topic="t", partition=-1, subscription="audit", drained=drained, why="")]

    def find_logs(self, cluster: str | None = None) -> list[TopicLog]:
        return [TopicLog(cluster=name, partition=-1, why=self.unread if name == EU else None) for name in (EU, US)]

    def unload(self, cluster: str) -> None:
        self.unloaded.append(cluster)


def test_every_cluster_gets_its_producers_and_a_key_belongs_to_one_of_all(tmp_path: Path) -> None:
    tasks = load.plan_producers(run_of(tmp_path))
    assert [(task.cluster, task.producer) for task in tasks] == [
        (EU, "cluster-eu-p0"),
        (EU, "cluster-eu-p1"),
        (US, "cluster-us-p0"),
        (US, "cluster-us-p1"),
    ]
    keys = [key for task in tasks for key in task.keys]
    assert len(keys) == len(set(keys)) == 100
    assert sum(task.rate for task in tasks) == 1000


def test_subscriptions_of_one_name_are_consumed_on_both_clusters(tmp_path: Path) -> None:
    run = run_of(tmp_path, **{"workload.subscriptions.1.type": "exclusive"})
    tasks = consume.plan_consumers(run)
    assert [(task.cluster, task.subscription) for task in tasks] == [(EU, "audit"), (US, "audit")]
    types = [MovingConsumer(run, task).subscription.type for task in tasks]
    assert types == ["failover", "exclusive"]


def left_by(run: Run) -> tuple[SubscriptionDrain, ...]:
    """What is left about the subscriptions."""
    drains = read_record(run, SubscriptionDrains)
    assert drains is not None
    return drains.subscriptions


def replication_of(run: Run) -> tuple[ReplicationDrain, ...]:
    """What is left about replication."""
    replication = read_record(run, ReplicationDrains)
    assert replication is not None
    return replication.drains


def watched(run: Run, clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_system(monkeypatch, PlantedSystem(cluster=clusters))
    write_record(run, LoadEnd(finished=True, why="", scheduled=0, producers=(), at=0))
    consume.watch_drains(run, threading.Event())


def test_consuming_goes_on_until_replication_has_drained_although_the_subscriptions_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, clusters = run_of(tmp_path), Clusters(replicated_after=2)
    watched(run, clusters, monkeypatch)
    # In each round replication is asked first: what it brings later would not be seen as a backlog.
    assert clusters.asked == ["replicated", "drained"] * 3
    assert [drain.drained for drain in left_by(run)] == [True]


@pytest.mark.parametrize(
    "end",
    [FaultsUndone(undone=True, problems=(), at=0), StepProblem(step="break_it", problem="killed")],
    ids=["undone", "broken"],
)
def test_subscriptions_are_asked_again_after_the_timeline_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Record
) -> None:
    fault = {"name": "gone", "kind": "kill", "targets": {"region": "eu"}}
    run, clusters = run_of(tmp_path, faults=[fault]), Clusters(replicated_after=0)
    plant_system(monkeypatch, PlantedSystem(cluster=clusters))
    write_record(run, LoadEnd(finished=True, why="", scheduled=0, producers=(), at=0))
    watching = threading.Thread(target=consume.watch_drains, args=(run, threading.Event()))
    watching.start()
    watching.join(1.5)
    assert clusters.asked == []
    assert read_record(run, ConsumersStop) is None

    write_record(run, end)
    watching.join(10)

    assert clusters.asked == ["replicated", "drained"]
    assert [drain.drained for drain in left_by(run)] == [True]


def test_the_deadline_of_consuming_counts_from_the_configuration_of_the_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job starts while the nodes start, which may take longer than the deadline allows."""
    monkeypatch.setattr(consume, "_SLACK_S", -1000)
    run, clusters = run_of(tmp_path), Clusters(replicated_after=0)
    remove_record(run, ClustersConfigured)
    plant_system(monkeypatch, PlantedSystem(cluster=clusters))
    watching = threading.Thread(target=consume.watch_drains, args=(run, threading.Event()))
    watching.start()
    watching.join(1.5)
    assert clusters.asked == []
    assert read_record(run, ConsumersStop) is None

    write_record(run, ClustersConfigured(at=0))
    watching.join(10)

    assert read_record(run, ConsumersStop) is not None


def test_a_drain_from_before_the_end_of_load_and_faults_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "_SLACK_S", -1000)
    run = run_of(tmp_path)
    plant_system(monkeypatch, PlantedSystem(cluster=Clusters(replicated_after=0)))
    consume.watch_drains(run, threading.Event())
    (subscription,) = left_by(run)
    assert (subscription.drained, subscription.why) == (
        False,
        "load and faults had not ended when the consumers had to stop",
    )


def test_consuming_ends_at_its_deadline_where_replication_never_drains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(tmp_path, settle_s=0.6)
    watched(run, Clusters(replicated_after=1000), monkeypatch)
    assert read_record(run, ConsumersStop) is not None
    # The subscription had, but a message that is replicated later has no consumer any more.
    (subscription,) = left_by(run)
    assert not subscription.drained
    assert "replication had not drained from cluster-eu to cluster-us; not drained" in subscription.why


def test_a_subscription_that_does_not_drain_is_left_as_not_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(tmp_path, settle_s=0.6)
    watched(run, Clusters(replicated_after=0, drained_after=1000), monkeypatch)
    (subscription,) = left_by(run)
    assert (subscription.drained, subscription.why) == (False, "; not drained 1 s after load and faults had ended")


def test_nothing_is_proven_where_the_consumers_ended_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, ended = run_of(tmp_path), threading.Event()
    plant_system(monkeypatch, PlantedSystem(cluster=Clusters(replicated_after=0)))
    ended.set()
    consume.watch_drains(run, ended)
    (subscription,) = left_by(run)
    assert (subscription.drained, subscription.why) == (False, "the consumers ended by themselves")


def test_reading_back_waits_for_replication_and_leaves_the_proof(tmp_path: Path) -> None:
    run, clusters = run_of(tmp_path), Clusters(replicated_after=1)
    read_back.await_replication(run, clusters)  # type: ignore[arg-type]
    assert clusters.asked == ["replicated", "replicated"]
    (drain,) = replication_of(run)
    assert (drain.sender, drain.receiver, drain.drained) == (EU, US, True)


def test_replication_that_never_drains_is_left_as_not_drained(tmp_path: Path) -> None:
    run = run_of(tmp_path, settle_s=0.3)
    read_back.await_replication(run, Clusters(replicated_after=1000))  # type: ignore[arg-type]
    (drain,) = replication_of(run)
    assert not drain.drained
    assert drain.why == "12 behind; not drained after 0 s"


def test_a_log_that_cannot_be_read_does_not_hide_the_other(tmp_path: Path) -> None:
    clusters = Clusters(replicated_after=0)
    clusters.unread = "no node answers"
    run = run_of(tmp_path)
    logs = read_back.close_topic(run, clusters, clusters)  # type: ignore[arg-type]
    assert clusters.unloaded == [EU, US]
    assert [(log.cluster, log.why) for log in logs] == [(EU, "no node answers"), (US, None)]


def test_the_display_adds_the_clusters_up(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    for part in range(4):
        LiveStatus(run, f"load-{part}").show(acked=10, producer=f"p{part}", missed_rate=["why"] if part == 2 else None)
    at = "topic:persistent://world/global/orders@"
    latest = {
        (f"{at}{EU}", "owner"): "broker-eu-1",
        (f"{at}{US}", "owner:0"): "broker-us-2",
        (f"{at}{US}", "owner:1"): "broker-eu-1",
        (f"{at}{US}", "backlog:audit"): "3",
        (f"{at}{US}", "replication_backlog:cluster-us>cluster-eu"): "5",
        (f"cluster:{EU}", "alive:broker"): '["broker-eu-1"]',
        (f"cluster:{US}", "alive:broker"): '["broker-us-2"]',
        (f"cluster:{EU}", "under_replicated"): "1",
        (f"cluster:{US}", "under_replicated"): "2",
    }
    monitor._write_live_status(run, latest)
    live = read_live_status(run, "live")
    assert live["acked"] == 40
    assert live["missed_rates"] == {"p2": ["why"]}
    assert live["owner"] == "broker-eu-1, broker-us-2"
    assert live["alive"] == {"broker": ["broker-eu-1", "broker-us-2"]}
    assert live["under_replicated"] == "3"
    assert live["backlog"] == {"audit@cluster-us": "3", "cluster-us>cluster-eu": "5"}
    assert live["at"] <= clock.now_us()
