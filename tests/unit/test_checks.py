"""What a scenario asks of a system or a runtime that cannot do it is refused before the run, with field and remedy."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from brokerproof.checks import check_topology, load_cases, load_scenario, load_topology
from brokerproof.errors import InputError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.scenario import list_cases
from brokerproof.experiment.topology import Topology
from brokerproof.faults.targets import list_clients
from brokerproof.runtimes.registry import RUNTIMES
from brokerproof.systems.protocols import RoleTraits
from brokerproof.systems.pulsar.system import Pulsar
from brokerproof.systems.registry import list_systems, load_system
from builders import SCENARIOS, TOPOLOGIES


class Bare:
    """A part without any method that only some systems have."""


class Plain(Pulsar):
    """A system with Pulsar's topologies and none of the abilities that a system may have."""

    name = "plain"
    declared_abilities: frozenset[Ability] = frozenset()
    provisioning = administration = observation = Bare  # type: ignore[assignment]
    list_images = list_reached = None  # type: ignore[assignment]


class OneRole(Pulsar):
    """A system in which every node does everything."""

    name = "one_role"
    roles = {"node": RoleTraits(serves=True, stores=True, coordinates=True)}  # noqa: RUF012
    declared_abilities: frozenset[Ability] = frozenset()

    def validate(self, topology: Topology) -> Topology:
        return topology


@pytest.fixture(autouse=True)
def systems(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(PLAIN=Plain(), ONE_ROLE=OneRole())
    monkeypatch.setitem(sys.modules, "planted_systems", module)
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "plain=planted_systems:PLAIN,one_role=planted_systems:ONE_ROLE")


class Cannot:
    """A runtime without any ability."""


def load(tmp_path: Path, settings: dict[str, Any], **content: Any) -> Any:
    file = tmp_path / "experiment.yaml"
    good = {
        "title": "t",
        "description": "d",
        "topology": "geo_replication",
        "overrides": {"system": "plain"},
        "workload": {"namespace": "world/global", "subscriptions": [{"name": "audit"}]},
        "faults": [{"name": "gone", "kind": "kill", "targets": {"region": "eu"}}],
    }
    file.write_text(yaml.safe_dump({**good, **content}, sort_keys=False))
    return load_scenario(file, TOPOLOGIES, settings)


def test_what_every_system_can_do_is_accepted(tmp_path: Path) -> None:
    _, topology = load(tmp_path, {})
    assert topology.system == "plain"


@pytest.mark.parametrize(
    ("settings", "field", "problem"),
    [
        ({"runtime": "docker"}, "runtime", "be started from an image"),
        ({"topology": "geo_replication_wan"}, "topology", "use links between regions"),
        (
            {"faults.0.kind": "unload", "faults.0.targets": {"now": "topic_owner"}},
            "faults.0.kind",
            "take a topic from its owner",
        ),
        (
            {
                "topology": "sync_active_passive",
                "workload.namespace": "mytenant/eu",
                "workload.partitions": 2,
                "workload.grows_to": 4,
                "faults.0.kind": "grow",
                "faults.0.targets": {"now": "topic_owner"},
            },
            "faults.0.kind",
            "give a topic more partitions",
        ),
        ({"faults.0.targets": {"now": "topic_holders"}}, "faults.0.targets.now", "which nodes hold the copies"),
        (
            {
                "topology": "sync_ensemble_witness",
                "workload.namespace": "mytenant/eu",
                "faults.0.targets": {"now": "coordination_leader"},
            },
            "faults.0.targets.now",
            "which of the nodes that coordinate it leads",
        ),
        (
            {
                "faults": [
                    {"name": "gone", "kind": "kill", "targets": {"region": "eu"}},
                    {"name": "next", "kind": "kill", "targets": {"region": "us"}, "when": {"rereplicated": "gone"}},
                ]
            },
            "faults.1.when.rereplicated",
            "make a lost copy anew",
        ),
        (
            {"workload.subscriptions.0.moves": {"to": "cluster-us", "after": "gone"}},
            "workload.subscriptions.0.moves",
            "let a subscription go on in another cluster",
        ),
        ({"workload.subscriptions.0.replicated": True}, "workload.subscriptions.0.replicated", "make what a subsc"),
        (
            {"workload.subscriptions.0.acks": "individual"},
            "workload.subscriptions.0.acks",
            "acknowledge a message without those before it",
        ),
        (
            {"workload.subscriptions.0.acks": "cumulative"},
            "workload.subscriptions.0.acks",
            "acknowledge a message together with all those before it",
        ),
        (
            {"workload.subscriptions": [{"name": "s", "type": "shared", "negative_ack_every": 2}]},
            "workload.subscriptions.0.negative_ack_every",
            "deliver a message again",
        ),
        ({"guarantee": "effectively_once"}, "guarantee", "store a message once that its producer sends again"),
        ({"bounds": {"rereplicate_s": {"max": 5}}}, "bounds.rereplicate_s", "how much of its data lacks a copy"),
        ({"bounds": {"segments_not_spanning/end": {"max": 0}}}, "bounds.segments_not_spanning/end", "hold the copies"),
        ({"tighten": ["stored_twice"]}, "tighten.0", "at which position"),
        ({"loosen": ["position_conflict"]}, "loosen.position_conflict", "at which position"),
        ({"expect.at_least": {"not_replicated": 1}}, "expect.at_least.not_replicated", "to another one"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_what_a_system_cannot_do_is_refused(tmp_path: Path, settings: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, settings)
    assert caught.value.field == field, str(caught.value)
    assert caught.value.problem.startswith("plain cannot ")
    assert problem in caught.value.problem
    assert caught.value.remedy
    # Pulsar can do all of it.
    load(tmp_path, {**settings, "overrides": {}})


UNSTORED = {
    "overrides": {},
    "topology": "sync_active_passive",
    "workload.namespace": "mytenant/eu",
    "workload.stored": False,
    "guarantee": "at_most_once",
    "bounds": {"missed_messages": {"max": 0}},
}


@pytest.mark.parametrize(
    ("settings", "field", "problem"),
    [
        ({"guarantee": "at_least_once"}, "guarantee", "does not keep them `at_least_once`"),
        ({"bounds": {}}, "bounds", "nothing bounds what subscriptions may miss"),
        (
            {"bounds": {"missed_messages": {"max": 0}, "rpo_messages": {"max": 0}}},
            "bounds.rpo_messages",
            "the topic stores no messages",
        ),
        ({"tighten": ["delivered_twice"]}, "tighten.0", "the topic stores no messages"),
        ({"faults.0.targets": {"now": "topic_holders"}}, "faults.0.targets.now", "the topic stores no messages"),
        (
            {"workload.subscriptions.0.commit": "before"},
            "workload.subscriptions.0.commit",
            "the topic stores no messages",
        ),
        ({"workload.subscriptions.0.streaming": "after"}, "workload.subscriptions.0.streaming", "reads a log"),
        ({"workload.client.on_restart": "continue"}, "workload.client.on_restart", "the topic stores no messages"),
        (
            {
                "workload.partitions": 2,
                "workload.grows_to": 4,
                "faults.0.kind": "grow",
                "faults.0.targets": {"now": "topic_owner"},
            },
            "faults.0.kind",
            "the topic stores no messages",
        ),
        (
            {"topology": "geo_replication", "workload.namespace": "world/global"},
            "workload.stored",
            "`world/global` is replicated",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_a_topic_that_stores_no_messages_promises_nothing_about_its_log(
    tmp_path: Path, settings: dict[str, Any], field: str, problem: str
) -> None:
    load(tmp_path, UNSTORED)
    with pytest.raises(InputError) as caught:
        load(tmp_path, UNSTORED | settings)
    found = {each.field: each.problem for each in caught.value.mistakes}
    assert problem in found[field], found


GONE = {"name": "gone", "kind": "kill", "targets": {"region": "eu"}}
GROWN = {"name": "grown", "kind": "grow", "targets": {"now": "topic_owner"}}


def load_growing(directory: Path, **settings: Any) -> Any:
    growing = {
        "overrides": {},
        "topology": "sync_active_passive",
        "workload.namespace": "mytenant/eu",
        "workload.partitions": 4,
        "workload.grows_to": 8,
        "faults": [GONE, GROWN],
    }
    return load(directory, growing | settings)


@pytest.mark.parametrize(
    ("settings", "field", "problem", "remedy"),
    [
        ({"workload.grows_to": None}, "faults.1.kind", "the topic keeps its partitions", "add `workload.grows_to`"),
        (
            {"faults": [GONE]},
            "workload.grows_to",
            "no fault gives the topic more partitions",
            "add a fault of the kind `grow`",
        ),
        (
            {"faults": [GONE, GROWN, GROWN | {"name": "again", "at_s": 5}]},
            "faults.2.kind",
            "`grown` gives the topic all its partitions",
            "leave one of the two out",
        ),
        (
            {"faults": [GONE, GROWN | {"targets": {"region": "eu"}}]},
            "faults.1.targets.now",
            "`grow` is done to the topic's owner",
            "give `targets: {now: topic_owner}`",
        ),
        (
            {"topology": "geo_replication", "workload.namespace": "world/global"},
            "workload.grows_to",
            "`world/global` is replicated, and only a topic of one cluster can get more partitions",
            "use a namespace without `replicated_to`",
        ),
    ],
    ids=["no number", "no fault", "two faults", "other nodes", "replicated"],
)
def test_a_topic_gets_more_partitions_by_one_fault(
    tmp_path: Path, settings: dict[str, Any], field: str, problem: str, remedy: str
) -> None:
    load_growing(tmp_path)
    with pytest.raises(InputError) as caught:
        load_growing(tmp_path, **settings)
    (mistake,) = caught.value.mistakes
    assert (mistake.field, mistake.problem) == (field, problem)
    assert mistake.remedy.startswith(remedy)


def test_a_topic_without_the_fault_keeps_its_partitions(tmp_path: Path) -> None:
    load_growing(tmp_path, **{"workload.grows_to": None, "faults": [GONE]})


@pytest.mark.parametrize("now", ["coordination_leader", "coordination_followers"])
def test_a_node_that_coordinates_alone_neither_leads_nor_follows(tmp_path: Path, now: str) -> None:
    settings = {"overrides": {}, "faults.0.targets": {"now": now, "cluster": "cluster-us"}}
    with pytest.raises(InputError) as caught:
        load(tmp_path, settings)
    assert caught.value.field == "faults.0.targets.now"
    assert caught.value.problem == "only metadata-1 coordinates `cluster-us`, so no node is elected as its leader"
    assert "such as `sync_ensemble_witness`" in caught.value.remedy


@pytest.mark.parametrize(
    ("settings", "field", "problem"),
    [
        ({"faults.0.kind": "pause"}, "faults.0.kind", "cannot freeze nodes"),
        ({"topology": "geo_replication_wan", "overrides": {}}, "runtime", "cannot put links between regions"),
        (
            {"overrides.restart": {"bookie": {"after_s": 10}}},
            "runtime",
            "cannot start nodes again that ended by themselves",
        ),
    ],
)
def test_what_a_runtime_cannot_do_is_refused_with_those_that_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], field: str, problem: str
) -> None:
    monkeypatch.setitem(RUNTIMES, "elsewhere", f"{__name__}:Cannot")
    with pytest.raises(InputError) as caught:
        load(tmp_path, {"runtime": "elsewhere", **settings})
    assert (caught.value.field, caught.value.problem) == (field, f"the runtime `elsewhere` {problem}")
    assert "`runtime: process`" in caught.value.remedy
    load(tmp_path, settings)


def test_an_unknown_runtime_is_blamed_on_whoever_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"\.yaml: runtime: no runtime is called `dokcer` \(did you mean `docker`\?\)"):
        load(tmp_path, {"runtime": "dokcer"})
    monkeypatch.setenv("BROKERPROOF_RUNTIME", "dokcer")
    load(tmp_path, {"runtime": "process"})
    with pytest.raises(InputError, match=r"^BROKERPROOF_RUNTIME: no runtime is called `dokcer`"):
        load(tmp_path, {})


def test_a_system_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "gone=no_such_module:SYSTEM")
    assert list_systems() == ["pulsar", "gone"]
    with pytest.raises(InputError, match="`gone` cannot be imported from no_such_module:SYSTEM") as caught:
        load_system("gone")
    assert caught.value.field == "BROKERPROOF_SYSTEMS"


def one_role(directory: Path, **changes: Any) -> Topology:
    nodes = {f"node-{number}": {"role": "node", "region": "here", **changes} for number in (1, 2)}
    content = {"title": "t", "description": "d", "system": "one_role", "clusters": {"main": {"nodes": nodes}}}
    (directory / "small.yaml").write_text(yaml.safe_dump(content))
    return load_topology("small", directory)


def test_a_role_may_do_everything(tmp_path: Path) -> None:
    topology = one_role(tmp_path)
    assert check_topology(topology) == topology
    assert topology.heap_mb == {}


@pytest.mark.parametrize(
    ("changes", "field", "remedy"),
    [
        ({"role": "broker"}, "clusters.main.nodes.node-1.role", "one of: node"),
        ({"standby": True}, "clusters.main.nodes.node-1.standby", "leave it out"),
    ],
)
def test_a_node_that_its_system_does_not_know_is_refused(
    tmp_path: Path, changes: dict[str, Any], field: str, remedy: str
) -> None:
    with pytest.raises(InputError) as caught:
        one_role(tmp_path, **changes)
    assert (caught.value.file, caught.value.field) == (str(tmp_path / "small.yaml"), field)
    assert caught.value.remedy == remedy


HEALTHY = {"healthy": "gone", "for_s": 5}


@pytest.mark.parametrize(
    ("earlier", "is_accepted"),
    [
        ({"kind": "kill", "heal_after_s": 0}, True),
        ({"kind": "kill", "heal_at_s": 5}, True),
        ({"kind": "start"}, True),
        ({"kind": "kill"}, False),
        ({"kind": "kill", "permanent": True}, False),
    ],
)
def test_a_fault_that_waits_for_healthy_nodes_needs_an_earlier_one_that_heals(
    tmp_path: Path, earlier: dict[str, Any], is_accepted: bool
) -> None:
    faults = [
        {"name": "gone", "targets": {"nodes": ["broker-eu-1"]}, **earlier},
        {"name": "next", "kind": "stop", "targets": {"nodes": ["broker-eu-2"]}, "when": HEALTHY},
    ]
    if is_accepted:
        load(tmp_path, {"faults": faults})
        return
    with pytest.raises(InputError) as caught:
        load(tmp_path, {"faults": faults})
    assert caught.value.field == "faults.1.when.healthy"
    assert "heal_after_s" in caught.value.remedy


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        ({"region": "us", "role": "metadata"}, "has region `us` and role `metadata`"),
        ({"region": "us", "role": "metadata", "count": 1}, "has region `us` and role `metadata`"),
        ({"cluster": "cluster-eu", "region": "us"}, "has cluster `cluster-eu` and region `us`"),
        ({"now": "topic_owner", "region": "witness"}, "has region `witness` and now `topic_owner`"),
    ],
)
def test_a_fault_that_no_node_fits_is_refused(tmp_path: Path, targets: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, {"overrides": {}, "faults.0.targets": targets})
    assert caught.value.field == "faults.0.targets"
    assert caught.value.problem == f"no node of `geo_replication` {problem}"
    # Without one of them there are such nodes.
    name = next(name for name in targets if name != "count")
    load(tmp_path, {"overrides": {}, "faults.0.targets": {name: targets[name]}})


OF_CLIENTS = {
    "workload.subscriptions": [
        {"name": "audit", "consumers": 2},
        {"name": "twin", "cluster": "cluster-eu"},
        {"name": "twin", "cluster": "cluster-us"},
    ],
    "workload.produce_on": ["cluster-eu", "cluster-us"],
    "workload.producers": 1,
}


@pytest.mark.parametrize(
    ("targets", "labels"),
    [
        ({"client": "producer"}, ["cluster-eu-p0", "cluster-us-p0"]),
        ({"client": "producer", "cluster": "cluster-us"}, ["cluster-us-p0"]),
        ({"client": "producer", "count": 1}, ["cluster-eu-p0"]),
        ({"client": "consumer"}, ["audit-c0", "audit-c1", "twin-c0@cluster-eu", "twin-c0@cluster-us"]),
        ({"client": "consumer", "subscription": "audit", "now": "in_batch"}, ["audit-c0", "audit-c1"]),
        ({"client": "consumer", "names": ["audit-c1"]}, ["audit-c1"]),
        # A name selects the consumers of both clusters, a label one of them.
        ({"client": "consumer", "names": ["twin-c0"]}, ["twin-c0@cluster-eu", "twin-c0@cluster-us"]),
        ({"client": "consumer", "names": ["twin-c0@cluster-us"]}, ["twin-c0@cluster-us"]),
    ],
)
def test_a_fault_selects_clients(tmp_path: Path, targets: dict[str, Any], labels: list[str]) -> None:
    scenario, topology = load(
        tmp_path, {"overrides": {}, **OF_CLIENTS, "faults.0": {"name": "f", "kind": "kill", "targets": targets}}
    )
    assert list(list_clients(scenario.faults[0].targets, scenario.workload, topology)) == labels


@pytest.mark.parametrize(
    ("fault", "field", "problem"),
    [
        ({"targets": {"names": ["p0"]}}, "targets.names", "is about clients"),
        ({"targets": {"subscription": "audit"}}, "targets.subscription", "is about clients"),
        ({"targets": {"now": "in_batch"}}, "targets.now", "is about clients"),
        ({"targets": {"client": "producer", "region": "eu"}}, "targets.region", "is about nodes"),
        ({"targets": {"client": "producer", "nodes": ["broker-eu-1"]}}, "targets.nodes", "is about nodes"),
        ({"targets": {"client": "producer", "now": "topic_owner"}}, "targets.now", "is about nodes"),
        ({"targets": {"client": "producer", "subscription": "audit"}}, "targets.subscription", "a producer has no"),
        ({"targets": {"client": "producer", "names": ["cluster-eu-p9"]}}, "targets.names", "no producer is called"),
        (
            {"targets": {"client": "consumer", "subscription": "au"}},
            "targets.subscription",
            "no subscription is called",
        ),
        (
            {"targets": {"client": "producer", "cluster": "cluster-eu", "names": ["cluster-us-p0"]}},
            "targets",
            "no producer",
        ),
        ({"targets": {"client": "producer"}, "kind": "destroy"}, "kind", "`destroy` is not done to clients"),
        ({"targets": {"client": "consumer"}, "kind": "fence"}, "targets.client", "`fence` is done to producers"),
        ({"targets": {"region": "eu"}, "kind": "fence"}, "targets.client", "`fence` is done to clients"),
        ({"targets": {"client": "producer"}, "kind": "task_retry"}, "targets", "`task_retry` is done to one client"),
        ({"targets": {"region": "eu"}, "kind": "task_retry"}, "targets.client", "`task_retry` is done to clients"),
    ],
)
def test_a_fault_that_clients_cannot_have_is_refused(
    tmp_path: Path, fault: dict[str, Any], field: str, problem: str
) -> None:
    earlier = {"name": "gone", "kind": "stop", "targets": {"nodes": ["broker-eu-1"]}, "heal_after_s": 1}
    with pytest.raises(InputError) as caught:
        load(tmp_path, {"overrides": {}, **OF_CLIENTS, "faults": [earlier, {"name": "f", "kind": "kill", **fault}]})
    assert caught.value.field == f"faults.1.{field}"
    assert caught.value.problem.startswith(problem)
    assert caught.value.remedy


def test_a_fault_may_wait_for_the_health_of_clients_and_not_for_their_data(tmp_path: Path) -> None:
    earlier = {"name": "gone", "kind": "stop", "targets": {"client": "producer"}, "heal_after_s": 1}
    later = {"name": "next", "kind": "stop", "targets": {"client": "producer"}}
    load(tmp_path, {"overrides": {}, "faults": [earlier, {**later, "when": HEALTHY}]})
    with pytest.raises(InputError, match="`gone` is done to clients") as caught:
        load(tmp_path, {"overrides": {}, "faults": [earlier, {**later, "when": {"rereplicated": "gone"}}]})
    assert caught.value.field == "faults.1.when.rereplicated"


MATRIX = {
    "producer": {"slow": {"workload.rate": 10}, "fast": {"workload.rate": 900}},
    "fault": {"none": {"faults": []}, "gone": {}, "steady": {"workload.rate": 50}},
}


def test_each_combination_of_a_matrix_is_a_case_and_a_later_axis_wins(tmp_path: Path) -> None:
    load(tmp_path, {"overrides": {}}, matrix=MATRIX)
    file = tmp_path / "experiment.yaml"
    cases = load_cases(file, TOPOLOGIES, {"overrides": {}, "workload.size": 70})
    found = [(scenario.case, scenario.workload.rate, len(scenario.faults)) for scenario, _, _ in cases]
    assert found == [
        ("slow/none", 10, 0),
        ("slow/gone", 10, 1),
        ("slow/steady", 50, 1),
        ("fast/none", 900, 0),
        ("fast/gone", 900, 1),
        ("fast/steady", 50, 1),
    ]
    # The overrides make the same scenario of the file again, as Airflow's task does.
    assert [load_scenario(file, TOPOLOGIES, changes)[0] for _, _, changes in cases] == [each for each, _, _ in cases]
    assert {scenario.workload.size for scenario, _, _ in cases} == {70}


def test_a_case_changes_no_value_of_another_case(tmp_path: Path) -> None:
    matrix = {
        "fault": {"gone": {"bounds": {"rto_s": {"max": 5}}}},
        "producer": {"plain": {}, "strict": {"bounds.rto_s": {"max": 1}}},
    }
    load(tmp_path, {"overrides": {}}, matrix=matrix)
    cases = load_cases(tmp_path / "experiment.yaml", TOPOLOGIES, {"overrides": {}})
    assert [scenario.bounds["rto_s"].max for scenario, _, _ in cases] == [5, 1]
    assert [changes["bounds"] for _, _, changes in cases] == [{"rto_s": {"max": 5}}] * 2


def test_one_case_of_a_matrix_is_chosen_by_its_name(tmp_path: Path) -> None:
    load(tmp_path, {"overrides": {}}, matrix=MATRIX)
    file = tmp_path / "experiment.yaml"
    ((scenario, _, changes),) = load_cases(file, TOPOLOGIES, {"overrides": {}, "case": "fast/none"})
    assert (scenario.case, scenario.workload.rate, changes["case"]) == ("fast/none", 900, "fast/none")
    with pytest.raises(InputError, match="no case is called `fast/non`") as caught:
        load_cases(file, TOPOLOGIES, {"overrides": {}, "case": "fast/non"})
    assert caught.value.remedy == "did you mean `fast/none`?"


def test_a_scenario_without_a_matrix_is_its_only_case(tmp_path: Path) -> None:
    load(tmp_path, {"overrides": {}})
    ((scenario, _, changes),) = load_cases(tmp_path / "experiment.yaml", TOPOLOGIES, {"overrides": {}})
    assert (scenario.case, changes) == ("", {"overrides": {}})


def test_a_mistake_of_a_case_names_it(tmp_path: Path) -> None:
    load(tmp_path, {"overrides": {}}, matrix={"producer": {"slow": {}, "odd": {"workload.rate": -1}}})
    with pytest.raises(InputError, match="in the case odd") as caught:
        load_cases(tmp_path / "experiment.yaml", TOPOLOGIES, {"overrides": {}})
    assert caught.value.field == "workload.rate"
    with pytest.raises(InputError) as caught:
        load(tmp_path, {"overrides": {}}, matrix={"producer": {}})
    assert caught.value.field == "matrix.producer"


def test_the_shipped_matrix_of_a_topic_that_stores_no_messages_has_usable_cases() -> None:
    cases = load_cases(SCENARIOS / "semantics_unstored.yaml", TOPOLOGIES)
    assert [scenario.case for scenario, _, _ in cases] == [
        *("none", "consumers_killed", "producers_killed", "owner_lost", "region_lost")
    ]


def test_the_overrides_of_axes_are_joined_and_a_later_axis_wins_for_a_path_that_both_name(tmp_path: Path) -> None:
    latency, loss = "links.0.delay_ms", "links.0.loss"
    first = {"both": {"overrides": {latency: 1, loss: 2}}, "odd": {"overrides": 3}}
    second = {"later": {"overrides": {latency: 4}}, "silent": {}}
    joined = {case.name: case.overrides for case in list_cases({"first": first, "second": second})}
    assert joined == {
        "both/later": {"overrides": {latency: 4, loss: 2}},
        "both/silent": {"overrides": {latency: 1, loss: 2}},
        "odd/later": {"overrides": {latency: 4}},
        "odd/silent": {"overrides": 3},
    }
    assert first["both"] == {"overrides": {latency: 1, loss: 2}}


def test_the_shipped_matrix_has_usable_cases() -> None:
    loaded = load_cases(SCENARIOS / "semantics.yaml", TOPOLOGIES)
    cases = {scenario.case: (scenario, topology) for scenario, topology, _ in loaded}
    assert len(cases) == 14
    # A case in which clients die has to show what its kinds of consumer lose and repeat.
    for case in ("consumers_killed/at_least_once", "consumers_killed/effectively_once"):
        bounded = {key.split("/")[0] for key in cases[case][0].bounds}
        assert bounded == {"missing_outputs", "repeated_outputs", "repeated_messages"}
    # A case of both axes has the changes to the topology of both.
    changed = cases["owner_lost_acks_stored_at_once/effectively_once"][1].clusters["mycluster"].policies["namespaces"]
    assert changed["mytenant/eu"]["persistence"]["mark_delete_rate"] == 0
    assert changed["mytenant/eu"]["deduplication"] is True


def test_the_shipped_matrix_of_a_topic_that_gets_more_partitions_has_a_control_in_which_it_gets_none() -> None:
    cases = load_cases(SCENARIOS / "partitions_added.yaml", TOPOLOGIES)
    grows = {
        scenario.case: (scenario.workload.grows_to, [each.kind for each in scenario.faults]) for scenario, _, _ in cases
    }
    assert grows == {
        "none": (None, []),
        "partitions_added": (8, ["grow"]),
        "partitions_added_behind_a_frozen_consumer": (8, ["pause", "grow"]),
    }
