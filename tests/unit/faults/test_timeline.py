"""The timeline against a stand-in for a cluster: order, evidence, undo."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from brokerproof import clock
from brokerproof.checks import load_scenario, load_topology
from brokerproof.clock import Clock
from brokerproof.errors import AdminError, BrokerproofError, DeadlineError, MachineError, NodeError, RunError
from brokerproof.experiment.fault import Fault, Targets
from brokerproof.faults import healing, on_nodes
from brokerproof.faults.kind import Surroundings
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.faults.stage import Stage
from brokerproof.faults.targets import list_possible_targets, read_doubts_about_targets, resolve_targets
from brokerproof.faults.timeline import Timeline
from brokerproof.network import Condition, Effect, State
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from brokerproof.run.records import (
    ConsumerEnd,
    EarlyEnd,
    FaultEffective,
    FaultsUndone,
    FaultTargets,
    FoundRate,
    LoadEnd,
    LoadRates,
    PhaseTimes,
    Record,
    StepProblem,
    read_record,
    write_record,
)
from brokerproof.runtimes.restarts import RestartEvent
from brokerproof.systems.destinations import list_present_partitions
from brokerproof.systems.protocols import Coordinators, SegmentCopies
from brokerproof.systems.pulsar.system import Pulsar
from simulated_clock import SimulatedClock

ROOT = Path(__file__).parents[3]


class InlineExecutor(Executor):
    """Does everything at once, so that a simulated clock stands still meanwhile."""

    def submit(self, act: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(act(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Nodes:
    """A runtime and a system in one: nodes are names in a set."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.up = set(run.topology.nodes)
        self.count = 0
        self.log: list[str] = []
        self.owners = ["broker-eu-1", "broker-us-1"]
        self.groups = ["1", "2"]
        self.frozen: set[str] = set()
        self.refuse_start = False
        self.rate = 100_000
        self.short = 0

    def specs(self) -> dict[str, Any]:
        return {name: _Spec(name, node.role, node.region) for name, node in self.run.topology.nodes.items()}

    def start_order(self) -> list[list[str]]:
        roles = ("metadata", "bookie", "broker")
        return [[name for name, node in self.run.topology.nodes.items() if node.role == role] for role in roles]

    def list_alive(self) -> dict[str, list[str]]:
        return {"nodes": sorted(self.up)}

    def count_published(self) -> int:
        self.count += self.rate
        return self.count

    def find_copies(self, without: Collection[str] = ()) -> list[SegmentCopies]:
        self.log.append(f"copies without {', '.join(without)}" if without else "copies")
        return [
            SegmentCopies(
                cluster="mycluster",
                partition=-1,
                segment=1,
                first_offset=0,
                state="OPEN",
                holders=["bookie-us-1"],
                in_sync=["bookie-us-1"],
                regions_required=["eu", "us"],
            )
        ]

    def find_parts(self, cluster: str, partition: int) -> list[Any]:
        raise AssertionError("no fault asks for the parts of a log")

    def count_under_replicated(self) -> int:
        return self.short

    def find_owner(self, cluster: str | None = None) -> str:
        return self.owners[0]

    def reassign(self) -> None:
        self.log.append("reassign")
        self.owners.append(self.owners.pop(0))

    def find_groups(self) -> list[str]:
        return list(self.groups)

    def split(self) -> None:
        self.log.append("split")
        self.groups = [f"{group}{half}" for group in self.groups for half in "ab"]

    def grow(self) -> None:
        self.log.append("grow")

    def has_grown(self) -> bool:
        return "grow" in self.log

    def find_holders(self, cluster: str | None = None) -> list[str]:
        return ["bookie-eu-2", "bookie-us-1"]

    def find_coordinators(self, cluster: str | None = None) -> Coordinators:
        names = [name for name, node in self.run.topology.nodes.items() if node.role == "metadata"]
        return Coordinators(leader=names[1], followers=[names[0], *names[2:]])

    def is_healthy(self, spec: Any) -> bool:
        return spec.name in self.up - self.frozen

    def pause(self, name: str) -> None:
        self.log.append(f"pause {name}")
        self.frozen.add(name)

    def resume(self, name: str) -> None:
        self.log.append(f"resume {name}")
        self.frozen.discard(name)

    def is_paused(self, name: str) -> bool:
        return name in self.frozen

    def kill(self, name: str) -> None:
        self.log.append(f"kill {name}")
        self.up.discard(name)

    def stop(self, name: str, *, grace_s: float) -> None:
        self.log.append(f"stop {name}")
        self.up.discard(name)

    def wipe(self, spec: Any) -> None:
        assert spec.name not in self.up
        self.log.append(f"wipe {spec.name}")

    def reset(self, spec: Any) -> None:
        self.log.append(f"reset {spec.name}")

    def start(self, spec: Any) -> None:
        if self.refuse_start:
            raise NodeError("it does not start")
        self.log.append(f"start {spec.name}")
        self.up.add(spec.name)

    def is_alive(self, name: str) -> bool:
        return name in self.up

    def supervise(self, specs: Any, after_s: Any) -> None:
        """Nobody starts these nodes again."""

    def check_supervision(self) -> None:
        """All is well."""

    def end_supervision(self) -> None:
        """There is nothing to end."""

    def list_restart_events(self) -> list[RestartEvent]:
        return []

    def evidence_of_death(self, spec: Any) -> str | None:
        return None if spec.name in self.up else f"process gone, {spec.address}:1 refuses connections"


class _Spec:
    def __init__(self, name: str, role: str, region: str) -> None:
        self.name, self.role, self.region = name, role, region
        self.address, self.ports = "127.0.0.1", (1,)
        self.health_source = f"http://{name}/health"


def make(tmp_path: Path, faults: list[dict[str, Any]], **settings: Any) -> tuple[Run, Nodes]:
    scenario, topology = load_scenario(
        ROOT / "dags/scenarios/sync_datacenter_loss.yaml",
        ROOT / "topologies",
        {
            "faults": faults,
            "phases": {"steady_s": 0.2, "impact_s": 0.6, "recovery_s": 0.1},
            "bounds": {},
            "settle_s": 0.3,
            **settings,
        },
    )
    run = Run.create(str(tmp_path / "run"), run_id="r", scenario=scenario, topology=topology, addresses={})
    for number in range(sum(subscription.consumers for subscription in scenario.workload.subscriptions)):
        LiveStatus(run, f"consume-{number}").show(subscribed=True)
    return run, Nodes(run)


def execute(
    run: Run,
    nodes: Nodes,
    link: Any = None,
    clock: Clock | None = None,
    pool: Executor | None = None,
    busy: float = 50.0,
) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    Timeline(
        run,
        provisioning=nodes,  # type: ignore[arg-type]
        administration=nodes,  # type: ignore[arg-type]
        observation=nodes,  # type: ignore[arg-type]
        runtime=nodes,  # type: ignore[arg-type]
        show=lambda **content: said.append(content),
        link=link,
        clock=clock or SimulatedClock(),
        pool=pool or InlineExecutor(),
        measure_utilization=lambda: busy,
    ).execute()
    return said


def left_by(run: Run) -> FaultsUndone:
    """The record that the timeline left."""
    record = read_record(run, FaultsUndone)
    assert record is not None
    return record


def recorded(run: Run) -> list[str]:
    """The moments at which it was recorded where the copies are."""
    rows = pq.read_table(run.table("copies")).to_pylist()
    return [row["moment"] for row in sorted(rows, key=lambda row: row["at"])]


def asked(nodes: Nodes) -> list[str]:
    """How often it was asked where the copies are, and which clusters were left out."""
    return [line for line in nodes.log if line.startswith("copies")]


def states(run: Run) -> list[tuple[str, str]]:
    rows = pq.read_table(run.table("faults")).to_pylist()
    return [(row["fault"], row["state"]) for row in sorted(rows, key=lambda row: row["at"])]


def test_a_fault_is_injected_in_the_impact_phase_seen_and_undone(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "gone", "kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}}])
    said = execute(run, nodes)
    assert states(run) == [("gone", state) for state in ("injecting", "effective", "healing", "recovered")]
    rows = pq.read_table(run.table("faults")).to_pylist()
    times = {row["state"]: clock.to_microseconds(row["at"]) for row in rows}
    phases = read_record(run, PhaseTimes)
    assert phases is not None
    assert times["injecting"] >= phases.impact_at
    assert times["healing"] >= phases.ends_at
    effect = next(row for row in rows if row["state"] == "effective")
    assert "refuses connections" in json.loads(effect["evidence"])["bookie-eu-1"]
    assert [one["phase"] for one in said if "phase" in one] == ["warm-up", "steady", "impact", "recovery", "settling"]
    left = left_by(run)
    assert (left.undone, left.problems) == (True, ())
    assert recorded(run) == ["before gone", "end"]
    row = pq.read_table(run.table("copies")).to_pylist()[0]
    assert (row["segment"], row["holders"], row["regions"]) == (1, ["bookie-us-1"], ["us"])
    assert row["regions_required"] == ["eu", "us"]
    assert (nodes.log[0], nodes.log[-1]) == ("copies", "copies")


def test_a_destroyed_region_is_wiped_after_it_died_and_stays_dead_where_it_is_permanent(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "gone", "kind": "destroy", "permanent": True, "targets": {"region": "eu"}}])
    execute(run, nodes)
    eu = sorted(name for name, node in run.topology.nodes.items() if node.region == "eu")
    assert sorted(line.split()[1] for line in nodes.log if line.startswith("wipe")) == eu
    assert not any(line.startswith("start") for line in nodes.log)
    assert left_by(run).undone


def test_a_destroyed_node_is_reset_before_it_comes_back(tmp_path: Path) -> None:
    fault = {"name": "gone", "kind": "destroy", "targets": {"nodes": ["bookie-eu-1"]}, "heal_at_s": 0.3}
    run, nodes = make(tmp_path, [fault])
    execute(run, nodes)
    assert [line for line in nodes.log if "bookie-eu-1" in line] == [
        "kill bookie-eu-1",
        "wipe bookie-eu-1",
        "reset bookie-eu-1",
        "start bookie-eu-1",
    ]


def test_what_coordinates_a_destroyed_region_starts_before_the_others_are_reset(tmp_path: Path) -> None:
    fault = {"name": "gone", "kind": "destroy", "targets": {"region": "eu"}, "heal_at_s": 0.3}
    run, nodes = make(tmp_path, [fault], topology="sync_ensemble_two_one")
    execute(run, nodes)
    back = [line for line in nodes.log if line.split()[0] in ("reset", "start")]
    metadata = {f"{does} metadata-eu-{number}" for does in ("reset", "start") for number in (1, 2)}
    assert set(back[:4]) == metadata
    # A broker starts when the bookies have been started.
    assert {line.split()[1].rsplit("-", 2)[0] for line in back[-4:]} == {"broker"}


def test_a_frozen_node_is_seen_stopped_and_goes_on(tmp_path: Path) -> None:
    fault = {"name": "froze", "kind": "pause", "targets": {"now": "topic_owner"}, "heal_at_s": 0.3}
    run, nodes = make(tmp_path, [fault])
    execute(run, nodes)
    assert states(run) == [("froze", state) for state in ("injecting", "effective", "healing", "recovered")]
    assert [line for line in nodes.log if "broker" in line] == ["pause broker-eu-1", "resume broker-eu-1"]


def test_a_node_that_ends_when_it_wakes_up_is_started_again(tmp_path: Path) -> None:
    fault = {"name": "froze", "kind": "pause", "targets": {"nodes": ["bookie-eu-1"]}, "heal_at_s": 0.3}
    run, nodes = make(tmp_path, [fault])
    nodes.resume = lambda name: (nodes.frozen.discard(name), nodes.up.discard(name))  # type: ignore[method-assign,assign,func-returns-value]
    execute(run, nodes)
    assert "start bookie-eu-1" in nodes.log
    rows = pq.read_table(run.table("faults")).to_pylist()
    evidence = next(row["evidence"] for row in rows if row["state"] == "recovered")
    assert json.loads(evidence)["started_again"] == ["bookie-eu-1"]


MANAGED = {"overrides": {"restart": {"bookie": {"after_s": 10}}}}


def test_a_node_that_ends_when_it_wakes_up_is_left_to_its_service_manager(tmp_path: Path) -> None:
    fault = {"name": "froze", "kind": "pause", "targets": {"nodes": ["bookie-eu-1"]}, "heal_at_s": 0.3}
    run, nodes = make(tmp_path, [fault], **MANAGED)
    nodes.resume = lambda name: (nodes.frozen.discard(name), nodes.up.discard(name))  # type: ignore[method-assign,assign,func-returns-value]
    asked = 0

    def is_healthy(spec: Any) -> bool:
        nonlocal asked
        asked += 1
        if asked > 5:
            nodes.up.add(spec.name)
        return spec.name in nodes.up

    nodes.is_healthy = is_healthy  # type: ignore[method-assign]
    execute(run, nodes)
    assert asked > 5
    assert "start bookie-eu-1" not in nodes.log
    assert left_by(run).undone


@pytest.mark.parametrize("managed", [True, False])
def test_a_fault_that_starts_a_node_may_come_after_its_service_manager_only(tmp_path: Path, managed: bool) -> None:
    run, nodes = make(tmp_path, [], **(MANAGED if managed else {}))

    def start(spec: Any) -> None:
        nodes.up.add(spec.name)
        raise NodeError("node bookie-eu-1 runs already")

    nodes.start = start  # type: ignore[method-assign]
    nodes.up.discard("bookie-eu-1")
    around = Surroundings(
        provisioning=nodes,  # type: ignore[arg-type]
        administration=nodes,  # type: ignore[arg-type]
        observation=nodes,  # type: ignore[arg-type]
        runtime=nodes,  # type: ignore[arg-type]
        specs=nodes.specs(),
        roles={},
        link=None,
        fault=Fault(name="help", kind="start", targets=Targets(nodes=["bookie-eu-1"])),
        managed=frozenset(run.topology.restarted_after_s),
    )
    with nullcontext() if managed else pytest.raises(NodeError, match="runs already"):
        FAULT_KINDS["start"].inject(around, ["bookie-eu-1"])


def test_a_node_that_cannot_be_started_is_an_error_though_it_has_a_service_manager(tmp_path: Path) -> None:
    fault = {"name": "gone", "kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}, "heal_at_s": 0.3}
    run, nodes = make(tmp_path, [fault], **MANAGED)
    nodes.refuse_start = True
    with pytest.raises(NodeError, match="it does not start"):
        execute(run, nodes)


@pytest.mark.parametrize("others", [True, False])
def test_a_healing_that_needs_a_node_of_another_fault_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: bool
) -> None:
    monkeypatch.setattr(healing, "_HEAL_EVERY_S", 0.05)
    wiped = {"name": "wiped", "kind": "destroy", "targets": {"nodes": ["bookie-eu-1"]}, "heal_at_s": 0.3}
    frozen = {"name": "frozen", "kind": "pause", "targets": {"nodes": ["metadata-1"]}, "heal_at_s": 0.6}
    run, nodes = make(tmp_path, [wiped, frozen] if others else [wiped])
    resets: list[str] = []

    def reset(spec: Any) -> None:
        resets.append(spec.name)
        if "metadata-1" in nodes.frozen or not others:
            raise NodeError("the metadata store does not answer")

    nodes.reset = reset  # type: ignore[method-assign]
    with nullcontext() if others else pytest.raises(NodeError, match="store does not answer"):
        execute(run, nodes)
    assert left_by(run).undone == others
    # Without another fault, the second try is that of the end of the load.
    assert len(resets) > 2 if others else len(resets) == 2


def test_a_service_manager_that_died_is_a_problem_though_every_fault_was_undone(tmp_path: Path) -> None:
    def check_supervision() -> None:
        raise NodeError("the supervisor does not run")

    run, nodes = make(tmp_path, [], **MANAGED)
    nodes.check_supervision = check_supervision  # type: ignore[method-assign]
    with pytest.raises(NodeError, match="does not run"):
        execute(run, nodes)
    assert left_by(run).undone
    assert left_by(run).problems == ("nodes have no service manager any more: the supervisor does not run",)


def test_nodes_that_ended_by_themselves_and_have_no_service_manager_are_not_waited_for(tmp_path: Path) -> None:
    fault = {"name": "gone", "kind": "kill", "targets": {"nodes": ["metadata-1"]}, "heal_at_s": 0.3}
    run, nodes = make(tmp_path, [fault])
    kill = nodes.kill

    def kill_all_that_depend_on_it(name: str) -> None:
        kill(name)
        nodes.up -= {"bookie-eu-1", "bookie-us-1"}

    nodes.kill = kill_all_that_depend_on_it  # type: ignore[method-assign]
    clock = SimulatedClock()
    began = clock.monotonic_s()
    execute(run, nodes, clock=clock)
    assert states(run)[-1] == ("gone", "recovered")
    assert not nodes.up & {"bookie-eu-1", "bookie-us-1"}
    assert clock.monotonic_s() - began < 30


def test_a_node_that_does_not_freeze_is_a_problem_and_is_undone(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "froze", "kind": "pause", "targets": {"nodes": ["broker-eu-1"]}}])
    nodes.is_paused = lambda name: False  # type: ignore[method-assign]
    with pytest.raises(BrokerproofError, match="froze"):
        execute(run, nodes)
    assert ("froze", "effective") not in states(run)
    assert "resume broker-eu-1" in nodes.log


def test_a_node_that_somebody_else_ended_breaks_the_run_and_not_the_system(tmp_path: Path) -> None:
    gone = {"name": "gone", "kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}, "permanent": True}
    run, nodes = make(tmp_path, [gone])

    def tell() -> None:
        raise NodeError("somebody outside the run ended node bookie-us-1: its container was removed")

    nodes.check_nobody_interfered = tell  # type: ignore[attr-defined]
    with pytest.raises(NodeError, match="somebody outside the run ended node bookie-us-1"):
        execute(run, nodes)
    left = left_by(run)
    assert not left.undisturbed
    assert any("its container was removed" in problem for problem in left.problems)


def test_who_ended_a_node_is_asked_where_the_timeline_broke_too(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "gone", "kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}}])
    nodes.check_nobody_interfered = lambda: None  # type: ignore[attr-defined]
    nodes.rate = 0
    with pytest.raises(BrokerproofError):
        execute(run, nodes)
    assert left_by(run).undisturbed
    run, nodes = make(tmp_path / "again", [{"name": "gone", "kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}}])

    def fail() -> None:
        raise MachineError("Docker's engine cannot be used")

    nodes.check_nobody_interfered = fail  # type: ignore[attr-defined]
    nodes.rate = 0
    with pytest.raises(BrokerproofError):
        execute(run, nodes)
    assert not left_by(run).undisturbed


def test_a_runtime_that_cannot_freeze_says_so(tmp_path: Path) -> None:
    _, nodes = make(tmp_path, [])
    fault = Fault(name="froze", kind="pause", targets=Targets(nodes=["broker-eu-1"]))
    around = Surroundings(
        provisioning=nodes,  # type: ignore[arg-type]
        administration=nodes,  # type: ignore[arg-type]
        observation=nodes,  # type: ignore[arg-type]
        runtime=object(),  # type: ignore[arg-type]
        specs=nodes.specs(),
        roles={},
        link=None,
        fault=fault,
    )
    with pytest.raises(RunError, match="the runtime object cannot freeze nodes"):
        FAULT_KINDS["pause"].inject(around, ["broker-eu-1"])


def test_an_unloaded_topic_is_seen_at_another_owner(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "back", "kind": "unload", "targets": {"now": "topic_owner"}}])
    execute(run, nodes)
    rows = pq.read_table(run.table("faults")).to_pylist()
    effect = next(row for row in rows if row["state"] == "effective")
    assert (effect["targets"], effect["evidence"]) == (["broker-eu-1"], '{"owner": "broker-us-1"}')
    assert "reassign" in nodes.log


def test_a_topic_that_the_cluster_gives_back_to_its_owner_was_unloaded(tmp_path: Path) -> None:
    """Seen: a load manager chose the same one of two brokers, and the run was unknown after 60 s."""
    run, nodes = make(tmp_path, [{"name": "back", "kind": "unload", "targets": {"now": "topic_owner"}}])
    nodes.owners = ["broker-eu-1"]
    execute(run, nodes)
    rows = pq.read_table(run.table("faults")).to_pylist()
    assert next(row["evidence"] for row in rows if row["state"] == "effective") == '{"owner": "broker-eu-1"}'


def test_what_takes_long_the_first_time_is_done_before_the_load_is_steady(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, nodes = make(tmp_path, [{"name": "back", "kind": "unload", "targets": {"now": "topic_owner"}}])
    phases: list[PhaseTimes | None] = []
    monkeypatch.setattr(Stage, "warm_up", lambda stage: phases.append(read_record(run, PhaseTimes)))
    execute(run, nodes)
    assert phases == [None]


def test_an_unload_without_a_positive_answer_has_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_nodes, "_OWNER_ANSWERS_S", 0.3)
    run, nodes = make(tmp_path, [{"name": "back", "kind": "unload", "targets": {"now": "topic_owner"}}])

    def refuse(cluster: str | None = None) -> None:
        raise AdminError("the broker answered 500")

    nodes.reassign = refuse  # type: ignore[method-assign]
    with pytest.raises(AdminError, match="500"):
        execute(run, nodes)
    assert "effective" not in pq.read_table(run.table("faults"))["state"].to_pylist()


def test_an_unloaded_topic_without_an_owner_is_an_error(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "back", "kind": "unload", "targets": {"now": "topic_owner"}}])
    find_owner = nodes.find_owner
    nodes.find_owner = lambda cluster=None: None if "reassign" in nodes.log else find_owner()  # type: ignore[assign,method-assign,return-value]
    with pytest.raises(DeadlineError, match="the effect of back on broker-eu-1"):
        execute(run, nodes, clock=SimulatedClock())


SPLIT = {"name": "halved", "kind": "split", "targets": {"now": "topic_owner"}}


def test_a_split_is_seen_in_the_groups_that_hold_the_topic(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [SPLIT])
    execute(run, nodes)
    rows = pq.read_table(run.table("faults")).to_pylist()
    effect = next(row for row in rows if row["state"] == "effective")
    assert effect["targets"] == ["broker-eu-1"]
    assert json.loads(effect["evidence"]) == {"before": ["1", "2"], "after": ["1a", "1b", "2a", "2b"]}


@pytest.mark.parametrize("after", [["1", "2"], ["1a", "1b", "2"], []], ids=["all stay", "one stays", "no group"])
def test_a_split_that_leaves_the_topic_in_a_group_that_it_had_before_has_no_effect(
    tmp_path: Path, after: list[str]
) -> None:
    run, nodes = make(tmp_path, [SPLIT])

    def split() -> None:
        nodes.groups = after

    nodes.split = split  # type: ignore[method-assign]
    with pytest.raises(DeadlineError, match="the effect of halved on broker-eu-1"):
        execute(run, nodes, clock=SimulatedClock())
    assert "effective" not in pq.read_table(run.table("faults"))["state"].to_pylist()


def test_a_split_waits_for_an_answer_about_the_groups(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [SPLIT])
    find_groups, silences = nodes.find_groups, iter([False, True, True])

    def find() -> list[str]:
        if next(silences, False):
            raise AdminError("no broker answers")
        return find_groups()

    nodes.find_groups = find  # type: ignore[method-assign]
    execute(run, nodes)
    assert "effective" in pq.read_table(run.table("faults"))["state"].to_pylist()


GROW = {"name": "grown", "kind": "grow", "targets": {"now": "topic_owner"}}
GROWING = {"workload.partitions": 2, "workload.grows_to": 4}


def test_a_topic_has_more_partitions_from_the_effect_of_the_fault_on(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [GROW], **GROWING)
    known: dict[str, list[int]] = {"before": list_present_partitions(run)}
    grow, has_grown, answers = nodes.grow, nodes.has_grown, iter(["none", "not yet"])

    def inject() -> None:
        grow()
        known["injected"] = list_present_partitions(run)

    def find() -> bool:
        answer = next(answers, "yes")
        if answer == "none":
            raise AdminError("a partition is not served")
        return answer == "yes" and has_grown()

    nodes.grow, nodes.has_grown = inject, find  # type: ignore[method-assign]
    execute(run, nodes)
    assert known == {"before": [0, 1], "injected": [0, 1]}
    assert list_present_partitions(run) == [0, 1, 2, 3]
    assert nodes.log.count("grow") == 1
    rows = pq.read_table(run.table("faults")).to_pylist()
    effect = next(row for row in rows if row["state"] == "effective")
    assert (effect["targets"], json.loads(effect["evidence"])) == (["broker-eu-1"], {"has_grown": True})
    # Nothing has to be undone.
    assert left_by(run).undone


def test_a_topic_that_does_not_get_its_partitions_did_not_grow(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [GROW], **GROWING)
    nodes.has_grown = lambda: False  # type: ignore[method-assign]
    with pytest.raises(DeadlineError, match="the effect of grown on broker-eu-1"):
        execute(run, nodes, clock=SimulatedClock())
    assert "effective" not in pq.read_table(run.table("faults"))["state"].to_pylist()
    assert list_present_partitions(run) == [0, 1]


def test_a_growth_that_the_system_refuses_is_an_error(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [GROW], **GROWING)

    def refuse() -> None:
        raise AdminError("the broker answered 500")

    nodes.grow = refuse  # type: ignore[method-assign]
    with pytest.raises(AdminError, match="500"):
        execute(run, nodes)
    assert list_present_partitions(run) == [0, 1]


def test_a_topic_that_does_not_grow_has_all_its_partitions_from_the_beginning_on(tmp_path: Path) -> None:
    run, _ = make(tmp_path, [], **{"workload.partitions": 2})
    assert list_present_partitions(run) == [0, 1]
    without, _ = make(tmp_path / "without", [])
    assert list_present_partitions(without) == [-1]


def test_the_effect_of_another_fault_adds_no_partition(tmp_path: Path) -> None:
    gone = {"name": "gone", "kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}}
    run, _ = make(tmp_path, [gone, GROW], **GROWING)
    write_record(run, FaultEffective(fault="gone", at=0))
    assert list_present_partitions(run) == [0, 1]
    write_record(run, FaultEffective(fault="grown", at=0))
    assert list_present_partitions(run) == [0, 1, 2, 3]


def test_an_undo_that_fails_is_reported_and_proves_nothing(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "gone", "kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}}])
    nodes.refuse_start = True
    execute(run, nodes)
    left = left_by(run)
    assert not left.undone
    assert left.problems == ("gone was not undone: it does not start",)


def test_what_was_injected_is_undone_though_the_timeline_failed(tmp_path: Path) -> None:
    faults = [
        {"name": "first", "kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}},
        {"name": "second", "kind": "kill", "targets": {"nodes": ["bookie-eu-2"]}, "at_s": 0.1},
    ]
    run, nodes = make(tmp_path, faults)
    nodes.find_holders = lambda cluster=None: []  # type: ignore[method-assign]
    real = nodes.kill

    def kill(name: str) -> None:
        if name == "bookie-eu-2":
            raise NodeError("cannot be killed")
        real(name)

    nodes.kill = kill  # type: ignore[method-assign]
    with pytest.raises(NodeError, match="cannot be killed"):
        execute(run, nodes)
    assert "bookie-eu-1" in nodes.up
    assert left_by(run).problems[0] == "NodeError: cannot be killed"


def test_a_load_that_never_reaches_its_rate_is_reported_with_what_it_reached(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [])
    nodes.rate = 0
    with pytest.raises(DeadlineError, match="never held 900 messages/s"):
        execute(run, nodes)
    assert read_record(run, PhaseTimes) is None
    assert left_by(run).problems


@pytest.mark.parametrize(
    ("busy", "pending", "why"),
    [
        (97.0, 10_000, "this machine can do no more: its processors were 97 % busy; lower workload.rate"),
        (40.0, 9_999, "the cluster takes in no more, with this machine's processors 40 % busy; lower workload.rate"),
        (
            40.0,
            10_000,
            "its producers waited for answers with 10000 messages unanswered each, with this machine's processors "
            "40 % busy; raise workload.client.max_pending",
        ),
    ],
)
def test_a_load_that_stays_below_its_rate_is_given_up_at_once_with_the_reason(
    tmp_path: Path, busy: float, pending: int, why: str
) -> None:
    run, nodes = make(tmp_path, [])
    nodes.rate = 700
    for producer in (0, 1):
        LiveStatus(run, f"load-{producer}").show(pending=pending * producer)
    time = SimulatedClock()
    began = time.monotonic_s()
    sentence = rf"never held 900 messages/s for 3 s in 4\d s; the best rate was 700/s, and {why}"
    with pytest.raises(DeadlineError, match=sentence):
        execute(run, nodes, clock=time, busy=busy)
    assert time.monotonic_s() - began < 60
    assert read_record(run, EarlyEnd) is not None


def test_the_phases_wait_until_every_consumer_has_subscribed(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [], **{"workload.subscriptions": [{"name": "audit", "type": "shared", "consumers": 2}]})
    LiveStatus(run, "consume-1").show(subscribed=False)

    class LateConsumer(SimulatedClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.monotonic_s() - began > 20:
                LiveStatus(run, "consume-1").show(subscribed=True)

    time = LateConsumer()
    began, began_us = time.monotonic_s(), time.now_us()
    said = execute(run, nodes, clock=time)
    phases = read_record(run, PhaseTimes)
    assert phases is not None
    assert phases.steady_at > began_us + 20e6
    assert {"text": "waiting for audit-c1 to subscribe"} in said


def test_a_consumer_that_never_subscribes_is_named(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [])
    LiveStatus(run, "consume-0").show(subscribed=False)
    with pytest.raises(DeadlineError, match="audit-c0 did not subscribe in 180 s: see the log of the step consume"):
        execute(run, nodes)
    assert read_record(run, PhaseTimes) is None


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (StepProblem(step="consume", problem="no slots"), "the consumers failed before they had subscribed: no slots"),
        (
            ConsumerEnd(task=0, consumer="audit-c0", delivered=0, problem="audit-c0: refused", at=1),
            "a consumer ended before it had subscribed: audit-c0: refused",
        ),
    ],
)
def test_a_consumer_that_ends_before_it_subscribes_ends_the_wait(tmp_path: Path, record: Record, why: str) -> None:
    run, nodes = make(tmp_path, [])
    LiveStatus(run, "consume-0").show(subscribed=False)
    write_record(run, record)
    with pytest.raises(RunError, match=why):
        execute(run, nodes)


def test_a_rate_that_still_grows_is_waited_for(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [])
    nodes.rate = 300
    grown = iter(range(10**6))

    def count() -> int:
        nodes.count += int(300 * 1.06 ** (next(grown) / 5))
        return nodes.count

    nodes.count_published = count  # type: ignore[method-assign]
    said = execute(run, nodes)
    assert any(one.get("text", "").endswith("of 900 messages/s") for one in said)
    assert read_record(run, PhaseTimes) is not None


def test_a_load_that_finds_its_rate_has_found_it_before_the_phases_begin(tmp_path: Path) -> None:
    """Producers that are never behind have no limit, and the cluster takes in what the highest rate needs."""

    class Prompt(SimulatedClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            for number in range(run.scenario.workload.producer_count):
                LiveStatus(run, f"load-{number}").show(due=1, due_us=self.now_us(), acked=1)

    run, nodes = make(tmp_path, [], **{"workload.rate": "max"})
    nodes.rate = 10_000_000
    execute(run, nodes, clock=Prompt())
    rates, phases = read_record(run, LoadRates), read_record(run, PhaseTimes)
    assert rates is not None
    assert phases is not None
    assert rates.found == FoundRate(rate=9_000_000, held=10_000_000, missed=None, busy=None)
    assert rates.steps[-1].at < phases.steady_at


def test_a_failed_load_ends_the_wait_at_once(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [])
    nodes.rate = 0
    write_record(run, StepProblem(step="load", problem="no slots"))
    with pytest.raises(RunError, match="no slots"):
        execute(run, nodes)


def test_a_link_that_died_is_a_problem_though_every_fault_was_undone(tmp_path: Path) -> None:
    class Dead:
        def ping(self) -> int:
            raise NodeError("the link process (pid 1) does not answer `ping`")

    run, nodes = make(tmp_path, [])
    # Nobody knows since when it was dead, so every time that was measured is in doubt.
    with pytest.raises(NodeError, match="does not answer"):
        execute(run, nodes, link=Dead())
    assert left_by(run).undone
    assert left_by(run).problems == (
        "the network between the regions does not answer any more: the link process (pid 1) does not answer `ping`",
    )


def test_a_fault_leaves_down_what_another_one_keeps_down(tmp_path: Path) -> None:
    faults = [
        {"name": "gone", "kind": "kill", "permanent": True, "targets": {"nodes": ["bookie-eu-1"]}},
        {"name": "froze", "kind": "pause", "at_s": 0.1, "heal_at_s": 0.3, "targets": {"nodes": ["bookie-eu-1"]}},
    ]
    run, nodes = make(tmp_path, faults)
    nodes.is_healthy = lambda spec: True  # type: ignore[method-assign]
    execute(run, nodes)
    assert "start bookie-eu-1" not in nodes.log


def test_repair_that_does_not_end_is_a_problem_and_not_overlooked(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [])
    nodes.short = 3
    execute(run, nodes)
    assert "under-replicated" in left_by(run).problems[0]


def plant_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system called `plain`, which is Pulsar without the abilities that it declares, such as the repair of copies."""
    system = Pulsar()
    system.name, system.declared_abilities = "plain", frozenset()
    monkeypatch.setitem(sys.modules, "planted_system", SimpleNamespace(PLAIN=system))
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "plain=planted_system:PLAIN")


PLAIN = {"overrides": {"system": "plain"}}
GONE = {"name": "gone", "kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}}


def test_a_system_that_says_nothing_of_copies_is_not_asked_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(Nodes):
        # A method that is None counts as missing.
        find_copies = count_under_replicated = None  # type: ignore[assignment]

    plant_system(monkeypatch)
    run, _ = make(tmp_path, [GONE], **PLAIN)
    execute(run, Silent(run))
    assert not run.exists("tables", "copies")
    assert (left_by(run).undone, left_by(run).problems) == (True, ())


def test_copies_that_nobody_makes_anew_are_waited_for_where_their_nodes_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_system(monkeypatch)
    run, nodes = make(tmp_path, [GONE], **PLAIN)
    nodes.short = 3
    execute(run, nodes)
    assert "under-replicated" in left_by(run).problems[0]


def test_copies_that_nobody_makes_anew_are_not_waited_for_where_their_nodes_stay_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_system(monkeypatch)
    run, nodes = make(tmp_path, [{**GONE, "permanent": True}], **PLAIN)
    nodes.short = 3
    execute(run, nodes)
    assert (left_by(run).undone, left_by(run).problems) == (True, ())


def test_a_fault_that_waits_for_repair_fails_where_it_does_not_come(tmp_path: Path) -> None:
    faults = [
        {"name": "first", "kind": "kill", "targets": {"nodes": ["bookie-us-1"]}},
        {
            "name": "second",
            "kind": "kill",
            "targets": {"nodes": ["bookie-eu-2"]},
            "when": {"rereplicated": "first", "within_s": 0.2},
        },
    ]
    run, nodes = make(tmp_path, faults)  # its copies name bookie-us-1 for ever
    with pytest.raises(BrokerproofError, match="replicated again, before second"):
        execute(run, nodes)
    assert ("second", "injecting") not in states(run)


def test_a_condition_and_the_effect_before_it_share_one_limit(tmp_path: Path) -> None:
    second = {
        "name": "second",
        "kind": "kill",
        "targets": {"nodes": ["bookie-eu-2"]},
        "when": {"rereplicated": "first", "within_s": 10},
    }
    run, nodes = make(
        tmp_path,
        [{"name": "first", "kind": "kill", "targets": {"nodes": ["bookie-us-1"]}}, second],
        phases={"steady_s": 0.2, "impact_s": 30, "recovery_s": 0.1},
    )
    simulated = SimulatedClock()
    effective_after_s = 8

    def find_evidence(spec: Any) -> str | None:
        phases = read_record(run, PhaseTimes)
        assert phases is not None
        due = simulated.now_us() >= phases.impact_at + effective_after_s * 1e6
        return "process gone" if due and spec.name not in nodes.up else None

    nodes.evidence_of_death = find_evidence  # type: ignore[method-assign]
    with pytest.raises(DeadlineError, match="replicated again, before second"):
        execute(run, nodes, clock=simulated)
    end, phases = read_record(run, EarlyEnd), read_record(run, PhaseTimes)
    assert end is not None
    assert phases is not None
    assert ("first", "effective") in states(run)
    assert 10 <= (end.at - phases.impact_at) / 1e6 < 11


EU = {"name": "gone", "kind": "kill", "permanent": True, "targets": {"region": "eu"}}


def test_a_fault_that_waits_for_a_monitor_comes_after_so_long_without_an_answer(tmp_path: Path) -> None:
    help_ = {
        "name": "help",
        "kind": "start",
        "targets": {"nodes": ["broker-us-2"]},
        "when": {"unhealthy": "gone", "for_s": 0.2},
    }
    run, nodes = make(tmp_path, [EU, help_])
    nodes.up.discard("broker-us-2")
    execute(run, nodes)
    rows = pq.read_table(run.table("faults")).to_pylist()
    times = {(row["fault"], row["state"]): clock.to_microseconds(row["at"]) for row in rows}
    assert times["help", "injecting"] - times["gone", "effective"] >= 0.2 * 1e6
    assert "start broker-us-2" in nodes.log
    assert not any(line.startswith(("kill broker-us", "stop broker-us")) for line in nodes.log)


def test_one_node_that_answers_is_enough_for_a_monitor(tmp_path: Path) -> None:
    when = {"unhealthy": "gone", "for_s": 0.1, "within_s": 0.3}
    run, nodes = make(
        tmp_path, [EU, {"name": "help", "kind": "start", "targets": {"nodes": ["broker-us-2"]}, "when": when}]
    )
    nodes.is_healthy = lambda spec: spec.name == "broker-eu-2"  # type: ignore[method-assign]
    with pytest.raises(BrokerproofError, match="to fail their health checks"):
        execute(run, nodes)
    assert ("help", "injecting") not in states(run)


def make_rolling_restart(**when: Any) -> list[dict[str, Any]]:
    """Two brokers that are restarted, the second one once the first one is healthy again."""
    return [
        {"name": "first", "kind": "kill", "targets": {"nodes": ["broker-eu-1"]}, "heal_after_s": 3},
        {
            "name": "second",
            "kind": "stop",
            "targets": {"nodes": ["broker-eu-2"]},
            "when": {"healthy": "first", **when},
            "heal_after_s": 0,
        },
    ]


def test_a_rolling_restart_waits_until_the_earlier_node_is_back_and_stays_healthy(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, make_rolling_restart(for_s=5), **LONG)
    time = SimulatedClock()
    make_slow(nodes, time, "broker-eu-1", healing_s=7)
    execute(run, nodes, clock=time)
    times = times_of(run)
    assert times["first", "healing"] - times["first", "effective"] == pytest.approx(3, abs=0.1)
    assert times["first", "recovered"] - times["first", "healing"] >= 7
    assert times["second", "injecting"] - times["first", "recovered"] == pytest.approx(5, abs=0.6)
    assert times["second", "healing"] - times["second", "effective"] == pytest.approx(0, abs=0.1)
    assert left_by(run).undone


def test_a_node_that_falls_ill_again_begins_the_healthy_time_anew(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, make_rolling_restart(for_s=5), **LONG)
    time, is_healthy = SimulatedClock(), nodes.is_healthy
    ill_from_s, ill_until_s = 6, 8

    def fall_ill(spec: Any) -> bool:
        phases = read_record(run, PhaseTimes)
        assert phases is not None
        since_s = (time.now_us() - phases.impact_at) / 1e6
        return is_healthy(spec) and not (spec.name == "broker-eu-1" and ill_from_s <= since_s < ill_until_s)

    nodes.is_healthy = fall_ill  # type: ignore[method-assign]
    execute(run, nodes, clock=time)
    assert times_of(run)["second", "injecting"] == pytest.approx(ill_until_s + 5, abs=0.6)


def test_a_node_that_does_not_come_back_lets_the_next_restart_fail(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, make_rolling_restart(for_s=5, within_s=20), **LONG)
    nodes.is_healthy = lambda spec: spec.name != "broker-eu-1"  # type: ignore[method-assign]
    with pytest.raises(DeadlineError, match="waited 20 s for first"):
        execute(run, nodes, clock=SimulatedClock())
    assert ("second", "injecting") not in states(run)


@pytest.mark.parametrize("recovery_s", [1, 10])
def test_the_load_goes_on_until_a_fault_that_waits_has_recovered(tmp_path: Path, recovery_s: int) -> None:
    phases = {"steady_s": 1, "impact_s": 20, "recovery_s": recovery_s}
    run, nodes = make(tmp_path, make_rolling_restart(for_s=5, within_s=60), phases=phases)
    time, written = SimulatedClock(), list[tuple[int, int]]()
    make_slow(nodes, time, "broker-eu-1", healing_s=30)
    is_healthy = nodes.is_healthy

    def watch(spec: Any) -> bool:
        phases = read_record(run, PhaseTimes)
        assert phases is not None
        if not written or written[-1][1] != phases.ends_at:
            written.append((time.now_us(), phases.ends_at))
        return is_healthy(spec)

    nodes.is_healthy = watch  # type: ignore[method-assign]
    execute(run, nodes, clock=time)
    times, last = times_of(run), read_record(run, PhaseTimes)
    assert last is not None
    recovery_at = (last.recovery_at - last.impact_at) / 1e6
    assert times["second", "recovered"] < recovery_at <= times["second", "recovered"] + 7
    assert last.ends_at - last.recovery_at == recovery_s * 1e6
    # No producer has ended before it can have read that it goes on.
    assert len(written) > 2
    assert all(at <= ends_at - 2.5e6 for (at, _), (_, ends_at) in zip(written[1:], written, strict=False))


def test_a_fault_that_waits_and_never_recovers_does_not_keep_the_load_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerproof.faults.healing._HEAL_TIMEOUT_S", 20)
    phases = {"steady_s": 1, "impact_s": 15, "recovery_s": 10}
    run, nodes = make(tmp_path, make_rolling_restart(for_s=5), phases=phases)
    is_healthy = nodes.is_healthy
    stopped = lambda: ("second", "effective") in states(run)  # noqa: E731
    nodes.is_healthy = lambda spec: (
        is_healthy(spec)
        and not (  # type: ignore[method-assign]
            spec.name == "broker-eu-2" and stopped()
        )
    )
    execute(run, nodes, clock=SimulatedClock())
    times, last = times_of(run), read_record(run, PhaseTimes)
    assert last is not None
    assert (last.recovery_at - last.impact_at) / 1e6 == pytest.approx(times["second", "effective"] + 20, abs=6)
    assert any("broker-eu-2" in problem for problem in left_by(run).problems)


def test_a_fault_is_healed_when_an_earlier_one_is_healthy_again(tmp_path: Path) -> None:
    first = {"name": "first", "kind": "kill", "targets": {"nodes": ["broker-eu-1"]}, "heal_after_s": 3}
    held = {"name": "held", "kind": "pause", "targets": {"nodes": ["bookie-eu-1"]}, "at_s": 1}
    run, nodes = make(tmp_path, [first, {**held, "heal_when": {"healthy": "first", "for_s": 5}}], **LONG)
    time = SimulatedClock()
    make_slow(nodes, time, "broker-eu-1", healing_s=7)
    execute(run, nodes, clock=time)
    times = times_of(run)
    assert times["held", "injecting"] == pytest.approx(1, abs=0.1)
    assert times["held", "healing"] - times["first", "recovered"] == pytest.approx(5, abs=0.6)
    assert left_by(run).undone


def test_a_fault_whose_condition_for_healing_never_comes_breaks_the_run(tmp_path: Path) -> None:
    first = {"name": "first", "kind": "kill", "targets": {"nodes": ["broker-eu-1"]}, "heal_after_s": 3}
    held = {"name": "held", "kind": "pause", "targets": {"nodes": ["bookie-eu-1"]}}
    when = {"healthy": "first", "for_s": 5, "within_s": 20}
    run, nodes = make(tmp_path, [first, {**held, "heal_when": when}], **LONG)
    nodes.is_healthy = lambda spec: spec.name != "broker-eu-1"  # type: ignore[method-assign]
    with pytest.raises(DeadlineError, match="waited 20 s for first"):
        execute(run, nodes, clock=SimulatedClock())


def test_brokers_that_stand_by_are_nobody_to_ask_until_they_are_started(tmp_path: Path) -> None:
    when = {"unhealthy": "gone", "for_s": 0.1}
    run, nodes = make(
        tmp_path,
        [
            EU,
            {"name": "help", "kind": "start", "targets": {"region": "us", "role": "broker"}, "when": when},
            {"name": "late", "kind": "kill", "at_s": 0.4, "targets": {"nodes": ["bookie-us-1"]}},
        ],
        topology="sync_active_passive_cold",
    )
    nodes.up -= {"broker-us-1", "broker-us-2"}
    execute(run, nodes)
    assert recorded(run) == ["before gone", "before help", "before late", "end"]
    assert asked(nodes) == ["copies", "copies without mycluster", "copies", "copies"]
    assert {"start broker-us-1", "start broker-us-2"} <= set(nodes.log)


def test_a_cluster_of_which_nobody_is_left_is_not_asked_before_the_next_fault(tmp_path: Path) -> None:
    all_brokers = {"name": "gone", "kind": "kill", "heal_at_s": 0.3, "targets": {"role": "broker"}}
    later = {"kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}}
    run, nodes = make(
        tmp_path,
        [all_brokers, {"name": "during", "at_s": 0.1, **later}, {"name": "after", "at_s": 0.4, **later}],
        phases={"steady_s": 0.2, "impact_s": 0.6, "recovery_s": 0.1},
    )
    execute(run, nodes)
    assert recorded(run) == ["before gone", "before during", "before after", "end"]
    assert asked(nodes) == ["copies", "copies without mycluster", "copies", "copies"]


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        (Targets(now="topic_owner"), ["broker-eu-1"]),
        (Targets(now="topic_holders", region="eu"), ["bookie-eu-2"]),
        (Targets(region="us", role="broker", count=1), ["broker-us-1"]),  # type: ignore[arg-type]
        (Targets(nodes=["metadata-1"]), ["metadata-1"]),
    ],
)
def test_targets_are_found(tmp_path: Path, targets: Targets, names: list[str]) -> None:
    run, nodes = make(tmp_path, [])
    assert resolve_targets(targets, run.topology, nodes) == names  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        (Targets(now="coordination_leader"), ["metadata-us-1"]),
        (Targets(now="coordination_followers"), ["metadata-eu-1", "metadata-witness-1"]),
        (Targets(now="coordination_followers", count=1), ["metadata-eu-1"]),
        (Targets(now="coordination_followers", region="witness"), ["metadata-witness-1"]),
        (Targets(now="coordination_followers", cluster="mycluster", count=1), ["metadata-eu-1"]),
    ],
)
def test_who_leads_those_that_coordinate_is_asked(tmp_path: Path, targets: Targets, names: list[str]) -> None:
    run, nodes = make(tmp_path, [], topology="sync_ensemble_witness")
    assert resolve_targets(targets, run.topology, nodes) == names  # type: ignore[arg-type]


def test_a_leader_elsewhere_is_no_target(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [], topology="sync_ensemble_witness")
    with pytest.raises(RunError, match="no node is"):
        resolve_targets(Targets(now="coordination_leader", region="eu"), run.topology, nodes)  # type: ignore[arg-type]


def test_a_leader_that_all_clusters_share_belongs_to_each(tmp_path: Path) -> None:
    three = {f"shared_metadata.metadata-{number}": {"role": "metadata", "region": "witness"} for number in (2, 3)}
    topology = load_topology("geo_replication", ROOT / "topologies", three)
    asked = SimpleNamespace(find_coordinators=lambda cluster: Coordinators(leader="metadata-3", followers=[]))
    targets = Targets(now="coordination_leader", cluster="cluster-us")
    assert resolve_targets(targets, topology, asked) == ["metadata-3"]  # type: ignore[arg-type]
    assert list_possible_targets(targets, topology) == ["metadata-1", "metadata-2", "metadata-3"]


def test_an_election_is_waited_for(tmp_path: Path) -> None:
    fault = {"name": "gone", "kind": "kill", "targets": {"now": "coordination_leader"}}
    run, nodes = make(tmp_path, [fault], topology="sync_ensemble_witness", **LONG)
    leader, asked = nodes.find_coordinators, iter(range(1, 9))

    def find_coordinators(cluster: str | None = None) -> Coordinators:
        if next(asked, None) is not None:
            raise AdminError("no node of the metadata store says that it leads")
        return leader(cluster)

    nodes.find_coordinators = find_coordinators  # type: ignore[method-assign]
    execute(run, nodes)
    assert "kill metadata-us-1" in nodes.log
    assert left_by(run).undone


def test_no_target_is_an_error(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [])
    with pytest.raises(RunError, match="no node is"):
        resolve_targets(Targets(now="topic_owner", region="us"), run.topology, nodes)  # type: ignore[arg-type]


def test_the_kinds_are_there() -> None:
    assert {"stop", "kill", "destroy", "start", "pause"} <= set(FAULT_KINDS)


def times_of(run: Run) -> dict[tuple[str, str], float]:
    """The seconds after the impact phase began at which each fault came into each state."""
    phases = read_record(run, PhaseTimes)
    assert phases is not None
    rows = pq.read_table(run.table("faults")).to_pylist()
    return {(row["fault"], row["state"]): (clock.to_microseconds(row["at"]) - phases.impact_at) / 1e6 for row in rows}


LONG = {"phases": {"steady_s": 1, "impact_s": 100, "recovery_s": 10}}


def make_slow(nodes: Nodes, time: SimulatedClock, node: str, *, dying_s: float = 0, healing_s: float = 0) -> None:
    """A node that is seen dead, and healthy again, only so many seconds after it was killed and started."""
    died: list[float] = []
    started: list[float] = []
    kill, start, find_death, is_healthy = nodes.kill, nodes.start, nodes.evidence_of_death, nodes.is_healthy
    is_other = lambda spec: spec.name != node  # noqa: E731

    nodes.kill = lambda name: (died.append(time.monotonic_s()), kill(name))  # type: ignore[assign,method-assign,func-returns-value]
    nodes.start = lambda spec: (started.append(time.monotonic_s()), start(spec))  # type: ignore[assign,method-assign,func-returns-value]
    nodes.evidence_of_death = lambda spec: (  # type: ignore[method-assign]
        find_death(spec) if is_other(spec) or time.monotonic_s() > died[0] + dying_s else None
    )
    nodes.is_healthy = lambda spec: (  # type: ignore[method-assign]
        is_healthy(spec) and (is_other(spec) or not started or time.monotonic_s() > started[0] + healing_s)
    )


def kill_at(name: str, node: str, at_s: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "kill", "targets": {"nodes": [node]}, "at_s": at_s, **more}


def test_an_effect_that_takes_long_delays_no_other_fault(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [kill_at("slow", "bookie-eu-1", 0), kill_at("next", "bookie-us-1", 10)], **LONG)
    time = SimulatedClock()
    make_slow(nodes, time, "bookie-eu-1", dying_s=30)
    execute(run, nodes, clock=time)
    times = times_of(run)
    assert times["slow", "effective"] == pytest.approx(30, abs=0.2)
    assert times["next", "injecting"] == pytest.approx(10, abs=0.05)


def test_a_healing_that_takes_long_delays_no_other_fault(tmp_path: Path) -> None:
    faults = [kill_at("slow", "bookie-eu-1", 0, heal_at_s=10), kill_at("next", "bookie-us-1", 20, heal_at_s=30)]
    run, nodes = make(tmp_path, faults, **LONG)
    time = SimulatedClock()
    make_slow(nodes, time, "bookie-eu-1", healing_s=60)
    execute(run, nodes, clock=time)
    times = times_of(run)
    assert times["slow", "recovered"] == pytest.approx(70, abs=0.3)
    assert times["next", "injecting"] == pytest.approx(20, abs=0.05)
    assert times["next", "healing"] == pytest.approx(30, abs=0.05)


def test_nodes_that_do_not_come_back_in_time_end_neither_the_other_faults_nor_the_load(tmp_path: Path) -> None:
    faults = [kill_at("slow", "bookie-eu-1", 0, heal_at_s=1), kill_at("next", "bookie-us-1", 150)]
    phases = {"steady_s": 1, "impact_s": 200, "recovery_s": 10}
    run, nodes = make(tmp_path, faults, phases=phases)
    time = SimulatedClock()
    make_slow(nodes, time, "bookie-eu-1", healing_s=180)
    execute(run, nodes, clock=time)
    assert times_of(run)["next", "effective"] == pytest.approx(150, abs=0.1)
    assert read_record(run, EarlyEnd) is None
    # The end finds it healthy, and that is the proof.
    assert left_by(run).undone


def test_a_fault_that_takes_no_effect_before_it_is_healed_is_an_error(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [kill_at("slow", "bookie-eu-1", 0, heal_at_s=10)], **LONG)
    time = SimulatedClock()
    make_slow(nodes, time, "bookie-eu-1", dying_s=30)
    with pytest.raises(DeadlineError, match="waited 10 s for the effect of slow on bookie-eu-1, which is healed then"):
        execute(run, nodes, clock=time)


def test_an_exception_of_any_type_tells_the_load_and_then_heals_everything(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [kill_at("first", "bookie-eu-1", 0), kill_at("second", "bookie-eu-2", 0.1)])
    real, start = nodes.kill, nodes.start
    told: list[bool] = []

    def kill(name: str) -> None:
        if name == "bookie-eu-2":
            raise KeyError("session_id_to_ephemeral_paths")
        real(name)

    nodes.kill = kill  # type: ignore[method-assign]
    nodes.start = lambda spec: (told.append(read_record(run, EarlyEnd) is not None), start(spec))  # type: ignore[assign,method-assign,func-returns-value]
    with pytest.raises(KeyError, match="session_id"):
        execute(run, nodes)
    assert told == [True]
    assert "bookie-eu-1" in nodes.up
    assert left_by(run).undone
    assert "session_id_to_ephemeral_paths" in left_by(run).problems[0]


def test_an_exception_while_one_fault_is_healed_leaves_no_other_one_unhealed(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [kill_at("first", "bookie-eu-1", 0), kill_at("second", "bookie-eu-2", 0.1)])
    real = nodes.start

    def start(spec: Any) -> None:
        if spec.name == "bookie-eu-2":
            raise ZeroDivisionError("in the runtime")
        real(spec)

    nodes.start = start  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        execute(run, nodes)
    assert "bookie-eu-1" in nodes.up
    assert not left_by(run).undone
    assert left_by(run).problems == ("second was not undone: ZeroDivisionError: in the runtime",)


def test_an_exception_after_the_faults_is_an_error_too(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [])
    nodes.count_under_replicated = lambda: {}["missing"]  # type: ignore[method-assign]
    with pytest.raises(KeyError):
        execute(run, nodes)
    assert left_by(run).problems == ("KeyError: 'missing'",)


def test_nobody_to_ask_where_the_copies_are_is_noted_and_stops_nothing(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [GONE])

    def find(without: Collection[str] = ()) -> list[SegmentCopies]:
        raise AdminError("no node answers")

    nodes.find_copies = find  # type: ignore[method-assign]
    execute(run, nodes)
    assert ("gone", "recovered") in states(run)
    assert left_by(run).problems == (
        "where the copies were before gone is unknown: no node answers",
        "where the copies are in the end is unknown: no node answers",
    )


def test_copies_that_are_known_too_late_are_not_recorded_and_delay_nothing(tmp_path: Path) -> None:
    class Busy(InlineExecutor):
        """Has no answer to the first question."""

        asked = 0

        def submit(self, act: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.asked += 1
            return Future() if self.asked == 1 else super().submit(act, *args, **kwargs)

    run, nodes = make(tmp_path, [GONE])
    execute(run, nodes, pool=Busy())
    assert times_of(run)["gone", "injecting"] == pytest.approx(0, abs=0.05)
    assert recorded(run) == ["end"]
    assert left_by(run).problems == ("where the copies were before gone was not known in time and is not recorded",)


def test_the_copies_are_asked_for_before_the_fault_is_due(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [kill_at("late", "bookie-eu-1", 50)], **LONG)
    execute(run, nodes)
    rows = pq.read_table(run.table("copies")).to_pylist()
    phases = read_record(run, PhaseTimes)
    assert phases is not None
    before = next(row for row in rows if row["moment"] == "before late")
    assert (clock.to_microseconds(before["at"]) - phases.impact_at) / 1e6 == pytest.approx(35, abs=0.1)


def test_copies_before_a_fault_are_those_after_every_earlier_event(tmp_path: Path) -> None:
    faults = [kill_at("first", "bookie-eu-1", 40, heal_at_s=45), kill_at("late", "bookie-us-1", 50)]
    run, nodes = make(tmp_path, faults, **LONG)
    execute(run, nodes)
    kinds = [line.split()[0] for line in nodes.log]
    assert kinds[:5] == ["copies", "kill", "start", "copies", "kill"]


def test_the_time_of_copies_is_that_of_the_question_and_not_of_the_answer(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "gone", "kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}}])
    time, answer, asked_at = SimulatedClock(), nodes.find_copies, []

    def find_slowly(without: Collection[str] = ()) -> list[SegmentCopies]:
        asked_at.append(time.now_us())
        time.sleep(5)
        return answer(without)

    nodes.find_copies = find_slowly  # type: ignore[method-assign]
    execute(run, nodes, clock=time)
    rows = pq.read_table(run.table("copies")).to_pylist()
    end = next(row for row in rows if row["moment"] == "end")
    assert clock.to_microseconds(end["at"]) <= asked_at[-1]


@pytest.mark.parametrize("record", [StepProblem(step="load", problem="killed"), None])
def test_a_load_that_ends_before_its_time_ends_the_timeline(tmp_path: Path, record: StepProblem | None) -> None:
    run, nodes = make(tmp_path, [kill_at("first", "bookie-eu-1", 0), kill_at("late", "bookie-us-1", 50)], **LONG)
    real = nodes.kill
    end = LoadEnd(finished=False, why="killed", scheduled=0, producers=(), at=0)
    nodes.kill = lambda name: (real(name), write_record(run, record or end))  # type: ignore[assign,method-assign,func-returns-value]
    with pytest.raises(RunError, match=r"the load (failed|ended) before its time: killed"):
        execute(run, nodes)
    assert "kill bookie-us-1" not in nodes.log
    assert left_by(run).undone


@pytest.mark.parametrize("early_s", [0, 1])
def test_a_load_that_finished_in_time_is_no_early_end_for_a_timeline_that_looks_late(
    tmp_path: Path, early_s: int
) -> None:
    """Seen on a busy machine: the timeline stood still at the end of the phases, until the load had ended."""
    run, nodes = make(tmp_path, [kill_at("gone", "bookie-eu-1", 0)], **LONG)
    time, real = SimulatedClock(), nodes.kill

    def kill_slowly(name: str) -> None:
        real(name)
        phases = read_record(run, PhaseTimes)
        assert phases is not None
        time.sleep((phases.ends_at - time.now_us()) / 1e6 + 5)
        end = phases.ends_at - int(early_s * 1e6)
        write_record(run, LoadEnd(finished=True, why="", scheduled=0, producers=(), at=end))

    nodes.kill = kill_slowly  # type: ignore[method-assign]
    if early_s == 0:
        execute(run, nodes, clock=time)
    else:
        with pytest.raises(RunError, match="the load ended before its time"):
            execute(run, nodes, clock=time)


def test_a_node_that_two_faults_keep_down_returns_with_the_later_one(tmp_path: Path) -> None:
    faults = [kill_at("first", "bookie-eu-1", 0, heal_at_s=20), kill_at("second", "bookie-eu-1", 10, heal_at_s=40)]
    run, nodes = make(tmp_path, faults, **LONG)
    execute(run, nodes)
    assert nodes.log.count("start bookie-eu-1") == 1
    rows = pq.read_table(run.table("faults")).to_pylist()
    evidence = {row["fault"]: json.loads(row["evidence"]) for row in rows if row["state"] == "recovered"}
    assert evidence["first"] == {"healthy": [], "kept_down": ["bookie-eu-1"]}
    assert evidence["second"] == {"healthy": ["http://bookie-eu-1/health"]}


def test_two_faults_that_heal_one_node_at_about_the_same_time_do_not_leave_it_to_each_other(tmp_path: Path) -> None:
    """Seen with a generated scenario (seed 146): the node stayed away until the end of the load."""
    both = {"name": "both", "kind": "kill", "at_s": 0, "heal_at_s": 20}
    faults = [
        {**both, "targets": {"nodes": ["bookie-eu-1", "bookie-eu-2"]}},
        kill_at("one", "bookie-eu-1", 10, heal_at_s=20.4),
    ]
    run, nodes = make(tmp_path, faults, **LONG)
    healthy, asked_for = nodes.is_healthy, count()
    # The other node of the first fault comes back two seconds after its start.
    nodes.is_healthy = lambda spec: healthy(spec) and (spec.name != "bookie-eu-2" or next(asked_for) > 20)  # type: ignore[method-assign]
    execute(run, nodes)
    phases = read_record(run, PhaseTimes)
    assert phases is not None
    rows = pq.read_table(run.table("faults")).to_pylist()
    (recovered,) = [
        clock.to_microseconds(row["at"]) for row in rows if (row["fault"], row["state"]) == ("both", "recovered")
    ]
    assert nodes.log.count("start bookie-eu-1") == 1
    assert recovered < phases.impact_at + 30_000_000


def test_disks_that_were_wiped_are_made_usable_though_another_fault_keeps_their_node_down(tmp_path: Path) -> None:
    faults = [
        {**kill_at("wiped", "bookie-eu-1", 0, heal_at_s=20), "kind": "destroy"},
        kill_at("second", "bookie-eu-1", 10, heal_at_s=40),
    ]
    run, nodes = make(tmp_path, faults, **LONG)
    execute(run, nodes)
    there = [line.split()[0] for line in nodes.log if "bookie-eu-1" in line]
    assert there == ["kill", "wipe", "kill", "reset", "start"]


def test_a_topic_without_an_owner_is_waited_for(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "gone", "kind": "kill", "targets": {"now": "topic_owner"}}], **LONG)
    answers = iter([None] * 10)
    nodes.find_owner = lambda cluster=None: next(answers, "broker-eu-1")  # type: ignore[arg-type,method-assign,return-value]
    execute(run, nodes)
    assert times_of(run)["gone", "injecting"] == pytest.approx(2, abs=0.3)
    assert left_by(run).problems == ()


def test_a_fault_is_done_to_the_targets_known_last_where_nobody_can_tell_them(tmp_path: Path) -> None:
    holders = {"now": "topic_holders", "region": "eu"}
    run, nodes = make(tmp_path, [{"name": "gone", "kind": "kill", "targets": holders, "at_s": 30}], **LONG)
    answers = iter([["bookie-eu-1"], ["bookie-eu-2"]])

    def find(cluster: str | None = None) -> list[str]:
        if (answer := next(answers, None)) is None:
            raise AdminError("no node answers")
        return answer

    nodes.find_holders = find  # type: ignore[method-assign]
    execute(run, nodes)
    assert times_of(run)["gone", "injecting"] == pytest.approx(35, abs=0.5)
    assert "kill bookie-eu-2" in nodes.log
    assert left_by(run).problems == (
        "the targets of gone were not known when it was due (no node answers); "
        "it was done to those that were known 20 s before",
    )
    known = read_record(run, FaultTargets, "gone")
    assert known is not None
    assert (known.targets, known.why, round(known.age_s)) == (("bookie-eu-2",), "no node answers", 20)
    assert read_doubts_about_targets(run) == {"gone": "its targets were known only from 20 s before"}


def test_two_faults_that_are_due_at_once_take_different_nodes_where_both_fit(tmp_path: Path) -> None:
    targets = {"now": "topic_holders", "count": 1}
    faults = [
        {"name": "gone", "kind": "kill", "targets": targets, "at_s": 2, "heal_after_s": 10},
        {"name": "froze", "kind": "pause", "targets": targets, "at_s": 2, "heal_after_s": 10},
    ]
    run, nodes = make(tmp_path, faults, **LONG)
    nodes.find_holders = lambda cluster=None: ["bookie-eu-1", "bookie-us-1"]  # type: ignore[method-assign]
    execute(run, nodes)
    rows = pq.read_table(run.table("faults")).to_pylist()
    assert {row["fault"]: row["targets"] for row in rows} == {"gone": ["bookie-eu-1"], "froze": ["bookie-us-1"]}
    assert left_by(run).problems == ()


def test_a_fault_waits_for_an_owner_that_no_other_fault_keeps_down(tmp_path: Path) -> None:
    faults = [
        {"name": "gone", "kind": "kill", "targets": {"now": "topic_owner"}, "at_s": 2, "heal_after_s": 40},
        {"name": "froze", "kind": "pause", "targets": {"now": "topic_owner"}, "at_s": 3, "heal_after_s": 1},
    ]
    run, nodes = make(tmp_path, faults, **LONG)
    # The cluster notices the owner's death after 10 s.
    asked = iter(["broker-eu-1"] * 40)
    nodes.find_owner = lambda cluster=None: next(asked, "broker-us-1")  # type: ignore[method-assign]
    execute(run, nodes)
    rows = pq.read_table(run.table("faults")).to_pylist()
    assert {row["fault"]: row["targets"] for row in rows} == {"gone": ["broker-eu-1"], "froze": ["broker-us-1"]}
    assert times_of(run)["froze", "injecting"] > times_of(run)["gone", "effective"] + 5
    assert left_by(run).problems == ()


def test_a_fault_whose_only_target_stays_down_is_an_error(tmp_path: Path) -> None:
    faults = [
        {"name": "gone", "kind": "kill", "targets": {"now": "topic_owner"}, "at_s": 2},
        {"name": "froze", "kind": "pause", "targets": {"now": "topic_owner"}, "at_s": 3},
    ]
    run, nodes = make(tmp_path, faults, **LONG)
    nodes.find_owner = lambda cluster=None: "broker-eu-1"  # type: ignore[method-assign]
    with pytest.raises(DeadlineError, match="the targets of froze: another fault keeps broker-eu-1 down"):
        execute(run, nodes)


def test_a_fault_that_finds_no_owner_says_so_though_another_one_keeps_the_last_owner_down(tmp_path: Path) -> None:
    """Seen with a generated scenario (seed 4): without a majority no node led, and the error named the dead one."""
    faults = [
        {"name": "gone", "kind": "kill", "targets": {"now": "topic_owner"}, "at_s": 2},
        {"name": "froze", "kind": "pause", "targets": {"now": "topic_owner"}, "at_s": 3},
    ]
    run, nodes = make(tmp_path, faults, **LONG)
    asked = iter(["broker-eu-1"] * 4)
    nodes.find_owner = lambda cluster=None: next(asked, None)  # type: ignore[method-assign]
    with pytest.raises(DeadlineError, match="the targets of froze: no node is"):
        execute(run, nodes)


def test_targets_that_were_told_when_the_fault_was_due_are_in_no_doubt(tmp_path: Path) -> None:
    holders = {"now": "topic_holders", "region": "eu"}
    run, nodes = make(tmp_path, [{"name": "gone", "kind": "kill", "targets": holders, "at_s": 30}], **LONG)
    execute(run, nodes)
    assert read_record(run, FaultTargets, "gone") is None
    assert read_doubts_about_targets(run) == {}


def test_a_record_of_targets_that_cannot_be_read_is_a_doubt(tmp_path: Path) -> None:
    run, _ = make(tmp_path, [{"name": "gone", "kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}}])
    run.write_text("state/fault_targets-gone.json", "{}")
    assert "cannot be read" in read_doubts_about_targets(run)["gone"]


def test_an_owner_that_nobody_names_is_no_proof_that_the_topic_moved(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "back", "kind": "unload", "targets": {"now": "topic_owner"}}])
    silences = iter([True, True])

    def find_owner(cluster: str | None = None) -> str:
        if "reassign" in nodes.log and next(silences, False):
            raise AdminError("no broker answers")
        return nodes.owners[0]

    nodes.find_owner = find_owner  # type: ignore[method-assign]
    execute(run, nodes)
    rows = pq.read_table(run.table("faults")).to_pylist()
    assert next(row["evidence"] for row in rows if row["state"] == "effective") == '{"owner": "broker-us-1"}'


def test_a_topic_that_gets_no_owner_is_an_error(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "gone", "kind": "kill", "targets": {"now": "topic_owner"}}], **LONG)
    nodes.find_owner = lambda cluster=None: None  # type: ignore[assign,method-assign,return-value]
    with pytest.raises(DeadlineError, match="waited 60 s for the targets of gone: no node is"):
        execute(run, nodes)


def need_each_other(nodes: Nodes, *names: str) -> None:
    """None of these nodes is healthy unless all of them run, like the nodes of a cluster without a majority."""
    is_healthy = nodes.is_healthy
    nodes.is_healthy = lambda spec: (  # type: ignore[method-assign]
        is_healthy(spec) and (spec.name not in names or nodes.up.issuperset(names))
    )


def test_the_end_starts_the_nodes_of_every_fault_before_it_waits_for_any_of_them(tmp_path: Path) -> None:
    """Seen: two faults had ended two of three servers, and the first one that was healed waited for the other's."""
    run, nodes = make(tmp_path, [kill_at("first", "bookie-eu-1", 0), kill_at("second", "bookie-eu-2", 0.1)])
    need_each_other(nodes, "bookie-eu-1", "bookie-eu-2")
    execute(run, nodes, clock=SimulatedClock())
    assert (left_by(run).undone, left_by(run).problems) == (True, ())
    assert [line for line in nodes.log if line.startswith("start")] == ["start bookie-eu-2", "start bookie-eu-1"]


@pytest.mark.parametrize("heals", [{"heal_at_s": 30}, {}], ids=["in between", "in the end"])
def test_a_node_whose_topic_was_unloaded_is_started_when_the_fault_that_killed_it_heals(
    tmp_path: Path, heals: dict[str, float]
) -> None:
    """Seen: the owner was unloaded, then stopped with all others, and nobody started it again."""
    faults = [
        {"name": "moved", "kind": "unload", "targets": {"now": "topic_owner"}, "at_s": 1},
        kill_at("dead", "broker-eu-1", 10, **heals),
    ]
    run, nodes = make(tmp_path, faults, **LONG)
    execute(run, nodes, clock=SimulatedClock())
    assert nodes.log.count("start broker-eu-1") == 1
    assert (left_by(run).undone, left_by(run).problems) == (True, ())
    if heals:
        assert times_of(run)["dead", "recovered"] == pytest.approx(30, abs=1)


class Link:
    """A link between regions that carries what it is told."""

    def __init__(self) -> None:
        self.conditions: dict[str, Condition] = {}

    def routes(self) -> list[SimpleNamespace]:
        ways = {"viewer": "broker-us-1", "viewer_region": "us", "target": "broker-eu-1", "target_region": "eu"}
        return [SimpleNamespace(**ways)]

    def add(self, condition: Condition) -> None:
        self.conditions[condition.id] = condition

    def remove(self, name: str) -> None:
        del self.conditions[name]

    def state(self) -> State:
        effects = dict.fromkeys(self.conditions, Effect(at=0, connections=1, listeners=1))
        rest = {"listeners": 1, "cut_listeners": 0, "connections": 1}
        return State(at=0, conditions=list(self.conditions.values()), effects=effects, **rest)

    def ping(self) -> int:
        return 1


def test_a_node_behind_a_slow_link_is_started_when_the_fault_that_killed_it_heals(tmp_path: Path) -> None:
    faults = [
        {"name": "slow", "kind": "delay", "targets": {"region": "eu"}, "link": {"delay_ms": 20}, "at_s": 1},
        kill_at("dead", "broker-eu-1", 10, heal_at_s=30),
    ]
    run, nodes = make(tmp_path, faults, topology="sync_active_passive_wan", **LONG)
    execute(run, nodes, link=Link(), clock=SimulatedClock())
    assert (left_by(run).undone, left_by(run).problems) == (True, ())
    rows = pq.read_table(run.table("faults")).to_pylist()
    recovered = next(row for row in rows if (row["fault"], row["state"]) == ("dead", "recovered"))
    assert "kept_down" not in json.loads(recovered["evidence"])


def test_the_end_waits_for_the_nodes_of_all_faults_in_turns(tmp_path: Path) -> None:
    """Seen: a frozen server was destroyed with the others, and only the end of the pause started it again."""
    frozen, other = "bookie-eu-1", "bookie-eu-2"
    faults = [
        {"name": "froze", "kind": "pause", "targets": {"nodes": [frozen]}, "at_s": 0},
        {"name": "wiped", "kind": "destroy", "targets": {"nodes": [frozen, other]}, "at_s": 0.1},
        {"name": "froze_too", "kind": "pause", "targets": {"nodes": [other]}, "at_s": 0.05},
    ]
    run, nodes = make(tmp_path, faults)
    need_each_other(nodes, frozen, other)
    time = SimulatedClock()
    execute(run, nodes, clock=time)
    assert (left_by(run).undone, left_by(run).problems) == (True, ())
    phases = read_record(run, PhaseTimes)
    assert phases is not None
    assert (time.now_us() - phases.ends_at) / 1e6 < 60


def test_nodes_that_never_come_back_are_waited_for_once_and_not_once_for_each_fault(tmp_path: Path) -> None:
    names = ("bookie-eu-1", "bookie-eu-2", "bookie-us-1")
    run, nodes = make(tmp_path, [kill_at(f"fault_{number}", name, 0) for number, name in enumerate(names)])
    nodes.is_healthy = lambda spec: spec.name not in names  # type: ignore[method-assign]
    time = SimulatedClock()
    execute(run, nodes, clock=time)
    assert not left_by(run).undone
    assert len(left_by(run).problems) == 3
    phases = read_record(run, PhaseTimes)
    assert phases is not None
    assert (time.now_us() - phases.ends_at) / 1e6 < 150


def test_a_node_that_two_faults_keep_down_until_the_end_is_started_once(tmp_path: Path) -> None:
    faults = [{**kill_at("wiped", "bookie-eu-1", 0), "kind": "destroy"}, kill_at("second", "bookie-eu-1", 0.1)]
    run, nodes = make(tmp_path, faults)
    execute(run, nodes, clock=SimulatedClock())
    there = [line.split()[0] for line in nodes.log if "bookie-eu-1" in line]
    assert there == ["kill", "wipe", "kill", "reset", "start"]
    assert left_by(run).undone
