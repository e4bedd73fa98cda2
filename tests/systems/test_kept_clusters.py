"""A cluster that stays for the next run: on real servers of the log server, and on its monitor and slot."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from brokerproof import clock, lifecycle
from brokerproof.checks import load_scenario
from brokerproof.clock import wait_until
from brokerproof.errors import AdminError, NodeError
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.kept_clusters import (
    ClusterChoice,
    _list_clusters_with_ensemble,
    choose_clusters,
    find_reason_against_keeping,
    has_ended_nodes,
    has_kept_cluster,
    list_differences,
    order_for_keeping,
)
from brokerproof.machine import slots
from brokerproof.machine.processes import end_processes, find_marked_processes, find_recorded_process
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClusterKept,
    ClusterReuse,
    ClustersConfigured,
    FaultsUndone,
    RunReleased,
    SubscriptionDrain,
    SubscriptionDrains,
    read_record,
    write_record,
)
from brokerproof.runtimes.protocols import PausesNodes
from brokerproof.runtimes.registry import make_runtime
from brokerproof.systems.clients import Settled, make_payload
from brokerproof.systems.registry import make_clients, make_observation, name_topic, use_own_names
from builders import load_shipped
from own_slots import own_slots

SYSTEMS = Path(__file__).resolve().parent


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """One slot of the test's own, and the log server in the registry."""
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "testlog=testlog_system.system:TESTLOG")
    monkeypatch.setenv("PYTHONPATH", str(SYSTEMS), prepend=os.pathsep)
    with own_slots(tmp_path / "leases", 1):
        yield
        end_processes(find_marked_processes(tmp_path))


@pytest.fixture
def reserve(tmp_path: Path) -> Callable[..., Run]:
    def reserve(name: str, choice: ClusterChoice, overrides: dict[str, Any] | None = None) -> Run:
        scenario, topology = load_scenario(
            SYSTEMS / "scenarios" / "nominal.yaml", SYSTEMS / "topologies", overrides or {}
        )
        directory = str(tmp_path / name)
        return lifecycle.reserve(scenario, topology, directory=directory, run_id=name, cluster_choice=choice)

    return reserve


@pytest.fixture
def kept(reserve: Callable[..., Run]) -> Run:
    """A run that is over and left its cluster."""
    run = reserve("first", ClusterChoice.KEEP)
    lifecycle.provision(run)
    lifecycle.configure(run)
    assert publish(run, 3) == [0, 1, 2]
    note_drains(run)
    assert lifecycle.release(run) == []
    return run


def publish(run: Run, count: int) -> list[int]:
    """Publish messages to the run's topic, and return the seqs that a fresh reader finds in it."""
    clients = make_clients(run, "log")
    settled: list[Settled] = []
    producer = clients.producer("p")
    for seq in range(count):
        producer.send(seq, "k", make_payload("p", seq, 50), settled.append)
    wait_until(lambda: len(settled) == count, timeout_s=20, what="the acks")
    producer.close()
    reader, found = clients.reader(-1), []
    while not reader.at_end():
        if (message := reader.read(0.2)) is not None:
            found.append(message)
    return list(clients.describe(found)["seq"])


def note_drains(run: Run, *drained: bool) -> None:
    """Record of some subscriptions whether each drained."""
    drains = tuple(
        SubscriptionDrain(cluster="log", topic="t", partition=0, subscription=f"s{index}", drained=each, why="")
        for index, each in enumerate(drained)
    )
    write_record(run, SubscriptionDrains(subscriptions=drains, at=clock.now_us()))


def list_servers(run: Run) -> dict[str, int]:
    runtime = make_runtime(run)
    return {name: runtime.pids()[name] for name in run.topology.nodes if runtime.is_alive(name)}  # type: ignore[attr-defined]


def test_the_next_run_uses_the_nodes_of_the_kept_cluster_and_a_topic_of_its_own(
    kept: Run, reserve: Callable[..., Run], tmp_path: Path
) -> None:
    servers = list_servers(kept)
    assert len(servers) == 3
    assert slots.are_all_held()
    assert has_kept_cluster()

    run = reserve("second", ClusterChoice.REUSE)
    assert (run.facts.cluster, run.facts.cluster_use, run.facts.addresses) == (kept.directory, 2, kept.facts.addresses)
    lifecycle.provision(run)
    lifecycle.configure(run)
    reuse = read_record(run, ClusterReuse)
    assert reuse is not None
    assert reuse.reused, reuse.why
    assert list_servers(run) == servers
    assert name_topic(run) != name_topic(kept)
    assert publish(run, 2) == [0, 1]
    # Results are compared by the scenario's content, which is that of its file.
    assert run.scenario == kept.scenario

    assert set(lifecycle.release(run)) >= set(servers)
    assert list(find_marked_processes(tmp_path)) == []
    assert slots.list_assigned_runs() == []
    assert not slots.are_all_held()


@pytest.mark.parametrize(("why", "reused"), [("", True), ("topics come back", False)])
def test_topics_of_earlier_runs_are_removed_before_the_next_one_and_a_cluster_that_keeps_them_is_started_anew(
    kept: Run, reserve: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, why: str, reused: bool
) -> None:
    asked: list[Run] = []
    make_real = lifecycle.make_administration

    def remove_topics(run: Run) -> None:
        asked.append(run)
        if why:
            raise AdminError(why)

    def make_administration(run: Run) -> Any:
        real = make_real(run)
        real.remove_other_topics = lambda: remove_topics(run)  # type: ignore[attr-defined]
        return real

    monkeypatch.setattr(lifecycle, "make_administration", make_administration)
    monkeypatch.setattr(lifecycle, "_AS_NEW_S", 1.0)
    servers = list_servers(kept)
    run = reserve("second", ClusterChoice.REUSE)
    lifecycle.provision(run)
    assert set(asked) == {run}
    reuse = read_record(run, ClusterReuse)
    assert reuse is not None
    assert (reuse.reused, reuse.why) == (reused, why)
    assert (list_servers(run) == servers) is reused
    lifecycle.release(run)


@pytest.mark.parametrize("harm", ["kill", "pause"])
def test_a_kept_cluster_that_is_not_as_a_new_one_is_started_anew(
    kept: Run, reserve: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    # A frozen node may wake up, but nobody starts a killed one.
    monkeypatch.setattr(lifecycle, "_AS_NEW_S", 1.0 if harm == "pause" else float("inf"))
    servers, runtime = list_servers(kept), make_runtime(kept)
    assert isinstance(runtime, PausesNodes)
    (runtime.kill if harm == "kill" else runtime.pause)("server-2")
    run = reserve("second", ClusterChoice.REUSE)
    lifecycle.provision(run)
    lifecycle.configure(run)
    reuse = read_record(run, ClusterReuse)
    assert reuse is not None
    assert not reuse.reused
    assert "server-2" in reuse.why
    assert set(list_servers(run).values()).isdisjoint(servers.values())
    assert publish(run, 2) == [0, 1]
    lifecycle.release(run)


@pytest.mark.parametrize(
    ("choice", "overrides"),
    [
        (ClusterChoice.NEW, {}),
        (ClusterChoice.REUSE, {"overrides": {"settings.server.answers_after_ms": 1}}),
        (ClusterChoice.REUSE, {"overrides": {"clusters.log.nodes.server-3.region": "elsewhere"}}),
    ],
)
def test_a_run_that_does_not_want_or_fit_the_kept_cluster_ends_it(
    kept: Run, reserve: Callable[..., Run], choice: ClusterChoice, overrides: dict[str, Any]
) -> None:
    run = reserve("second", choice, overrides)
    assert (run.facts.cluster, run.facts.cluster_use) == (None, 1)
    assert list_servers(kept) == {}
    assert name_topic(run) == name_topic(kept)
    lifecycle.release(run)
    assert slots.list_assigned_runs() == []


def test_a_kept_cluster_that_no_run_asks_for_is_ended_by_its_monitor(reserve: Callable[..., Run]) -> None:
    run = reserve("first", ClusterChoice.KEEP)
    lifecycle.provision(run)
    now = clock.now_us()
    write_record(run, ClusterKept(at=now, until=now + 500_000))
    write_record(run, RunReleased(at=now))
    assert len(list_servers(run)) == 3
    wait_until(lambda: not slots.are_all_held(), timeout_s=20, what="the monitor to end")
    assert list_servers(run) == {}


def test_the_run_after_two_that_died_on_one_cluster_ends_what_both_left(
    kept: Run, reserve: Callable[..., Run], tmp_path: Path
) -> None:
    run = reserve("second", ClusterChoice.KEEP)
    monitor = find_recorded_process(tmp_path / "second" / "monitor.json")
    assert monitor is not None
    end_processes([monitor])
    assert len(list_servers(run)) == 3
    third = reserve("third", ClusterChoice.REUSE)
    # A dead run hands nothing over, because nothing guards what it left.
    assert third.facts.cluster is None
    assert list_servers(run) == {}
    assert lifecycle.release(third) == []


def test_down_ends_a_kept_cluster(kept: Run, tmp_path: Path) -> None:
    assert set(lifecycle.down(tmp_path)) >= {"monitor", *kept.topology.nodes}
    assert list(find_marked_processes(tmp_path)) == []
    assert slots.list_assigned_runs() == []


def test_a_cluster_that_serves_as_a_new_one_has_no_differences(kept: Run) -> None:
    assert list(list_differences(kept)) == []
    make_runtime(kept).kill("server-1")
    found = list(list_differences(kept))
    assert "server-1 does not run" in found
    assert any("lists as server" in sentence for sentence in found) or len(found) > 1


def test_a_node_has_ended_only_if_it_does_not_run_and_is_not_on_standby(
    kept: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = make_runtime(kept)
    assert not has_ended_nodes(kept)
    runtime.kill("server-1")
    assert has_ended_nodes(kept)
    monkeypatch.setitem(vars(kept.topology.nodes["server-1"]), "standby", True)
    assert not has_ended_nodes(kept)


def test_a_runtime_that_does_not_answer_shows_no_ended_node(kept: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_alive(*_: object) -> bool:
        raise NodeError("no answer")

    monkeypatch.setattr(type(make_runtime(kept)), "is_alive", is_alive)
    assert not has_ended_nodes(kept)


@pytest.fixture
def begun(tmp_path: Path) -> Callable[..., Run]:
    def begun(
        scenario: str, undone: bool | None, *, configured: bool = True, drained: bool | None = True, **facts: Any
    ) -> Run:
        content, topology = load_shipped(scenario)
        run = Run.create(
            str(tmp_path / "run"), run_id="r", scenario=content, topology=topology, **{"keeps_cluster": True, **facts}
        )
        if configured:
            write_record(run, ClustersConfigured(at=clock.now_us(), restarted=()))
        if undone is not None:
            write_record(run, FaultsUndone(undone=undone, problems=(), at=clock.now_us()))
        if drained is not None:
            note_drains(run, True, drained)
        return run

    return begun


@pytest.mark.parametrize(
    ("scenario", "undone", "facts", "reason"),
    [
        ("sync_nominal", None, {}, None),
        ("sync_bookie_paused", True, {}, None),
        ("sync_nominal", None, {"keeps_cluster": False}, "was not asked"),
        ("sync_nominal", None, {"configured": False}, "was not configured"),
        ("sync_bookie_paused", False, {}, "every fault was undone"),
        ("sync_bookie_paused", None, {}, "every fault was undone"),
        ("sync_bookie_paused", True, {"drained": False}, "every subscription drained"),
        ("sync_bookie_paused", True, {"drained": None}, "every subscription drained"),
        ("sync_datacenter_loss", True, {}, "unlike a new one"),
        ("metadata_store_away", True, {}, "service managers"),
    ],
)
def test_a_cluster_stays_only_if_its_run_left_it_as_it_was(
    begun: Callable[..., Run], scenario: str, undone: bool | None, facts: dict[str, Any], reason: str | None
) -> None:
    found = find_reason_against_keeping(begun(scenario, undone, **facts))
    assert found is None if reason is None else reason in str(found)


def load_all(*names: str) -> list[tuple[Scenario, Topology]]:
    return [load_shipped(name) for name in names]


def test_a_run_keeps_its_cluster_only_if_the_next_one_can_use_it() -> None:
    keep, reuse, new = ClusterChoice.KEEP, ClusterChoice.REUSE, ClusterChoice.NEW
    planned = load_all(
        "sync_rolling_restart", "sync_owner_paused", "geo_nominal", "sync_datacenter_loss", "sync_owner_paused"
    )
    assert choose_clusters(planned, keep=True) == [keep, reuse, reuse, reuse, reuse]
    assert choose_clusters(planned[:2], keep=False) == [new, new]
    assert choose_clusters(planned[:1], keep=True) == [reuse]


def test_scenarios_of_one_cluster_follow_each_other_and_those_that_harm_it_come_last() -> None:
    planned = load_all("sync_datacenter_loss", "geo_nominal", "sync_owner_paused", "geo_link_cut", "sync_bookie_paused")
    assert [scenario.name for scenario, _ in order_for_keeping(planned)] == [
        "sync_owner_paused",
        "sync_bookie_paused",
        "sync_datacenter_loss",
        "geo_nominal",
        "geo_link_cut",
    ]


def test_a_segment_without_a_copy_is_a_difference(kept: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(make_observation(kept)), "count_under_replicated", lambda self: 2, raising=False)
    assert list(list_differences(kept)) == ["2 segments lack a copy"]


def test_a_later_run_on_a_cluster_of_pulsar_has_tenants_of_its_own(tmp_path: Path) -> None:
    scenario, topology = load_shipped("geo_nominal")
    run = Run.create(str(tmp_path / "run"), run_id="r", scenario=scenario, topology=topology, cluster_use=3)
    own = use_own_names(run)
    tenant, _, namespace = str(scenario.workload.namespace).partition("/")
    assert name_topic(run) == f"persistent://{tenant}-3/{namespace}/{scenario.workload.topic}"
    for name, cluster in topology.clusters.items():
        assert own.topology.clusters[name].policies["namespaces"] == {
            f"{each.replace('/', '-3/')}": policies for each, policies in cluster.policies["namespaces"].items()
        }
    # The names are not changed a second time.
    assert use_own_names(own).topology == own.topology
    assert make_observation(run) is not None


@pytest.mark.parametrize(
    ("reuse", "note"),
    [
        (ClusterReuse(reused=True, why="", at=clock.now_us()), "Run 2 on the cluster that first started"),
        (ClusterReuse(reused=False, why="server-2 is frozen", at=clock.now_us()), "anew, because server-2 is frozen"),
    ],
)
def test_the_outcome_says_which_cluster_a_run_used(
    begun: Callable[..., Run], tmp_path: Path, reuse: ClusterReuse, note: str
) -> None:
    run = begun("sync_nominal", None, cluster=str(tmp_path / "first"), cluster_use=2)
    write_record(run, reuse)
    assert [note in each for each in compose_outcome(run).notes] == [True]


def test_the_outcome_of_a_run_on_a_new_cluster_has_no_note_about_it(begun: Callable[..., Run]) -> None:
    assert compose_outcome(begun("sync_nominal", None)).notes == ()


def test_a_leader_is_asked_for_only_where_several_nodes_coordinate() -> None:
    names = ("sync_nominal", "geo_nominal", "metadata_leader_loss")
    assert {name: _list_clusters_with_ensemble(load_shipped(name)[1]) for name in names} == {
        "sync_nominal": [],
        "geo_nominal": [],
        "metadata_leader_loss": ["mycluster"],
    }
