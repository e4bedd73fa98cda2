"""The timeline against a stand-in for a cluster: order, evidence, undo."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from brokerproof import clock
from brokerproof.checks import load_scenario
from brokerproof.errors import BrokerproofError, DeadlineError, NodeError, RunError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.fault import Fault, Targets
from brokerproof.faults.kind import Surroundings
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.faults.targets import resolve_targets
from brokerproof.faults.timeline import Timeline
from brokerproof.run.directory import Run
from brokerproof.run.records import FaultsUndone, PhaseTimes, StepProblem, read_record, write_record
from brokerproof.systems.protocols import SegmentCopies
from brokerproof.systems.pulsar.system import Pulsar

from ..simulated_clock import SimulatedClock

ROOT = Path(__file__).parents[3]


class Nodes:
    """A runtime and a system in one: nodes are names in a set."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.up = set(run.topology.nodes)
        self.count = 0
        self.log: list[str] = []
        self.owners = ["broker-eu-1", "broker-us-1"]
        self.frozen: set[str] = set()
        self.refuse_start = False
        self.rate = 100_000
        self.short = 0

    def specs(self) -> dict[str, Any]:
        return {name: _Spec(name) for name in self.run.topology.nodes}

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

    def count_under_replicated(self) -> int:
        return self.short

    def find_owner(self, cluster: str | None = None) -> str:
        return self.owners[0]

    def reassign(self) -> None:
        self.log.append("reassign")
        self.owners.append(self.owners.pop(0))

    def find_holders(self, cluster: str | None = None) -> list[str]:
        return ["bookie-eu-2", "bookie-us-1"]

    def is_healthy(self, spec: Any) -> bool:
        return spec.name in self.up - self.frozen

    def describe_health(self, spec: Any) -> str:
        return f"http://{spec.name}/health"

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

    def evidence_of_death(self, spec: Any) -> str | None:
        return None if spec.name in self.up else f"process gone, {spec.address}:1 refuses connections"


class _Spec:
    def __init__(self, name: str) -> None:
        self.name, self.address, self.ports = name, "127.0.0.1", (1,)


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
    return run, Nodes(run)


def execute(run: Run, nodes: Nodes, link: Any = None) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    Timeline(
        run,
        provisioning=nodes,  # type: ignore[arg-type]
        administration=nodes,  # type: ignore[arg-type]
        observation=nodes,  # type: ignore[arg-type]
        runtime=nodes,  # type: ignore[arg-type]
        show=lambda **content: said.append(content),
        link=link,
        clock=SimulatedClock(),
    ).execute()
    return said


def left_by(run: Run) -> FaultsUndone:
    """The record that the timeline left."""
    record = read_record(run, FaultsUndone)
    assert record is not None
    return record


def recorded(run: Run) -> list[str]:
    """The moments at which it was recorded where the copies are."""
    rows = pq.read_table(run.table("ledgers")).to_pylist()
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
    row = pq.read_table(run.table("ledgers")).to_pylist()[0]
    assert (row["ledger_id"], row["bookies"], row["regions"]) == (1, ["bookie-us-1"], ["us"])
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


def test_a_node_that_does_not_freeze_is_a_problem_and_is_undone(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "froze", "kind": "pause", "targets": {"nodes": ["broker-eu-1"]}}])
    nodes.is_paused = lambda name: False  # type: ignore[method-assign]
    with pytest.raises(BrokerproofError, match="froze"):
        execute(run, nodes)
    assert ("froze", "effective") not in states(run)
    assert "resume broker-eu-1" in nodes.log


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


def test_a_topic_that_stays_where_it_is_was_not_unloaded(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [{"name": "back", "kind": "unload", "targets": {"now": "topic_owner"}}])
    nodes.owners = ["broker-eu-1"]
    with pytest.raises(DeadlineError, match="the effect of back on broker-eu-1"):
        execute(run, nodes)


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
        {
            "name": "second",
            "kind": "kill",
            "targets": {
                "nodes": ["bookie-eu-2"],
            },
            "at_s": 0.1,
        },
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
    execute(run, nodes, link=Dead())
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


def plant_system(monkeypatch: pytest.MonkeyPatch, *abilities: Ability) -> None:
    """A system called `plain`, which is Pulsar with no other abilities than these."""
    system = Pulsar()
    system.name, system.abilities = "plain", frozenset(abilities)
    monkeypatch.setitem(sys.modules, "planted_system", SimpleNamespace(PLAIN=system))
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "plain=planted_system:PLAIN")


PLAIN = {"overrides": {"system": "plain"}}
GONE = {"name": "gone", "kind": "kill", "targets": {"nodes": ["bookie-eu-1"]}}


def test_a_system_that_says_nothing_of_copies_is_not_asked_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_system(monkeypatch)
    run, nodes = make(tmp_path, [GONE], **PLAIN)
    nodes.short = 3
    execute(run, nodes)
    assert asked(nodes) == []
    assert not run.exists("tables", "ledgers")
    assert (left_by(run).undone, left_by(run).problems) == (True, ())


def test_copies_that_nobody_makes_anew_are_waited_for_where_their_nodes_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_system(monkeypatch, Ability.UNDER_REPLICATION)
    run, nodes = make(tmp_path, [GONE], **PLAIN)
    nodes.short = 3
    execute(run, nodes)
    assert "under-replicated" in left_by(run).problems[0]


def test_copies_that_nobody_makes_anew_are_not_waited_for_where_their_nodes_stay_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_system(monkeypatch, Ability.UNDER_REPLICATION)
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
    run, nodes = make(tmp_path, faults)  # its ledgers name bookie-us-1 for ever
    with pytest.raises(BrokerproofError, match="replicated again, before second"):
        execute(run, nodes)
    assert ("second", "injecting") not in states(run)


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
        (Targets(now="ledger_bookie", region="eu"), ["bookie-eu-2"]),
        (Targets(region="us", role="broker", count=1), ["broker-us-1"]),  # type: ignore[arg-type]
        (Targets(nodes=["metadata-1"]), ["metadata-1"]),
    ],
)
def test_targets_are_found(tmp_path: Path, targets: Targets, names: list[str]) -> None:
    run, nodes = make(tmp_path, [])
    assert resolve_targets(targets, run.topology, nodes) == names  # type: ignore[arg-type]


def test_no_target_is_an_error(tmp_path: Path) -> None:
    run, nodes = make(tmp_path, [])
    with pytest.raises(RunError, match="no node is"):
        resolve_targets(Targets(now="topic_owner", region="us"), run.topology, nodes)  # type: ignore[arg-type]


def test_the_kinds_are_there() -> None:
    assert {"stop", "kill", "destroy", "start", "pause"} <= set(FAULT_KINDS)
