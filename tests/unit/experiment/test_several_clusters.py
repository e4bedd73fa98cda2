"""Topologies and scenarios of several clusters: what is replicated where, and what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from brokerproof.checks import load_scenario, load_topology
from brokerproof.errors import InputError
from brokerproof.experiment.fault import Targets
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.faults.targets import resolve_targets
from brokerproof.runtimes.node_addresses import assign_addresses
from brokerproof.systems.destinations import list_clusters_reached
from brokerproof.systems.pulsar.roles import Role
from brokerproof.systems.pulsar.system import PULSAR
from builders import TOPOLOGIES

EU, US = "cluster-eu", "cluster-us"
DESTROY = {"name": "gone", "kind": "destroy", "targets": {"cluster": EU}}
KILL = {"name": "dead", "kind": "kill", "targets": {"cluster": US}}


def load(tmp_path: Path, settings: dict[str, Any] | None = None) -> tuple[Scenario, Topology]:
    content = {
        "title": "t",
        "description": "d",
        "topology": "geo_replication",
        "workload": {
            "namespace": "world/global",
            "produce_on": [EU, US],
            "subscriptions": [{"name": "audit", "cluster": EU}, {"name": "audit", "cluster": US}],
        },
    }
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(content))
    return load_scenario(file, TOPOLOGIES, settings)


def test_clusters_share_a_metadata_store_that_is_none_of_theirs() -> None:
    topology = load_topology("geo_replication", TOPOLOGIES)
    assert list(topology.shared_metadata) == ["metadata-1"]
    assert topology.regions == ["witness", "eu", "us"]
    assert [cluster.names(role=Role.METADATA) for cluster in topology.clusters.values()] == [[], []]
    assert topology.cluster_of("broker-us-1") == US
    with pytest.raises(KeyError):
        topology.cluster_of("metadata-1")
    assert set(assign_addresses(topology, 0)) == set(topology.nodes)


def test_what_is_published_to_one_cluster_reaches_the_other(tmp_path: Path) -> None:
    scenario, topology = load(tmp_path)
    assert PULSAR.list_reached(topology, US, "persistent://world/global/orders") == [US, EU]
    assert scenario.workload.list_homes(topology) == [EU, US]
    assert list_clusters_reached(topology, scenario.workload) == [EU, US]


def test_without_produce_on_the_first_cluster_is_home_and_the_other_is_reached(tmp_path: Path) -> None:
    scenario, topology = load(tmp_path, {"workload.produce_on": []})
    assert scenario.workload.list_homes(topology) == [EU]
    assert list_clusters_reached(topology, scenario.workload) == [EU, US]


def test_a_fault_can_be_done_to_a_whole_cluster_and_spares_the_shared_store() -> None:
    topology = load_topology("geo_replication", TOPOLOGIES)
    names = resolve_targets(Targets(cluster=EU), topology, None)  # type: ignore[arg-type]
    assert names == ["bookie-eu-1", "bookie-eu-2", "broker-eu-1", "broker-eu-2"]


_NAMESPACE = f"clusters.{EU}.namespaces.world/global"


@pytest.mark.parametrize(
    ("settings", "field", "remedy"),
    [
        ({"workload.keys": 3}, "workload.keys", "at least 4"),
        ({"workload.produce_on": [EU, EU]}, "workload.produce_on", "name each once"),
        ({"workload.produce_on": [EU, "cluster-uk"]}, "workload.produce_on.1", "did you mean `cluster-us`?"),
        ({"workload.subscriptions.1.cluster": EU}, "workload.subscriptions.1.name", "rename one"),
        (
            {
                "workload.produce_on": [EU],
                "overrides": {f"clusters.{name}.namespaces.world/global.replicated_to": [] for name in (EU, US)},
            },
            "workload.subscriptions.1.cluster",
            "did you mean `cluster-eu`?",
        ),
        ({"overrides": {f"{_NAMESPACE}.replicated_to": ["cluster-uk"]}}, f"{_NAMESPACE}.replicated_to", "did you mean"),
        (
            {"overrides": {f"clusters.{US}.namespaces": {}}, "workload.produce_on": [EU]},
            f"{_NAMESPACE}.replicated_to",
            f"add it to clusters.{US}.namespaces",
        ),
        ({"overrides": {f"{_NAMESPACE}.deduplication": True}}, f"{_NAMESPACE}.replicated_to", "give both the same"),
        (
            {"overrides": {f"clusters.{US}.namespaces.world/global.replicated_to": []}},
            f"{_NAMESPACE}.replicated_to",
            "give both the same",
        ),
        (
            {"overrides": {"shared_metadata.metadata-1.role": "broker"}},
            "shared_metadata.metadata-1.role",
            "its cluster's nodes",
        ),
        ({"overrides": {"shared_metadata": {}}}, f"clusters.{EU}.nodes", "`shared_metadata` for all clusters"),
        (
            {"overrides": {f"clusters.{EU}.nodes.metadata-eu": {"role": "metadata", "region": "eu"}}},
            f"clusters.{EU}.nodes.metadata-eu",
            "leave one of the two out",
        ),
        (
            {"overrides": {f"clusters.{EU}.nodes.metadata-1": {"role": "broker", "region": "eu"}}},
            f"clusters.{EU}.nodes.metadata-1",
            "rename one",
        ),
        (
            {"workload.produce_on": [EU], "loosen": {"not_replicated": {"home": US}}},
            "loosen.not_replicated.home",
            f"did you mean `{EU}`?",
        ),
        ({"destroyed": [EU]}, "destroyed", "add a `destroy`"),
        ({"destroyed": [EU], "faults": [DESTROY]}, "bounds", "give `rpo_messages` or `rpo_messages/gone` a `max`"),
        ({"destroyed": [EU], "faults": [DESTROY], "bounds": {"rpo_messages": {"min": 0}}}, "bounds", "rpo_messages"),
        # It names another fault, or none that there is.
        (
            {"destroyed": [EU], "faults": [DESTROY, KILL], "bounds": {"rpo_messages/dead": {"max": 0}}},
            "bounds",
            "rpo_messages",
        ),
        (
            {"destroyed": [EU], "faults": [DESTROY], "bounds": {"rpo_messages/gome": {"max": 0}}},
            "bounds",
            "rpo_messages",
        ),
        (
            {"destroyed": ["cluster-uk"], "faults": [DESTROY], "bounds": {"rpo_messages": {"max": 1}}},
            "destroyed.0",
            "did you mean `cluster-us`?",
        ),
    ],
    ids=str,
)
def test_a_mistake_is_named(tmp_path: Path, settings: dict[str, Any], field: str, remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, settings)
    assert caught.value.field == field, str(caught.value)
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    "bounds",
    [
        {"rpo_messages": {"max": 9}},
        # What is lost to a fault that destroys nothing need not be bounded.
        {"rpo_messages/gone": {"min": 1, "max": 9}},
    ],
    ids=str,
)
def test_what_a_destroyed_cluster_may_lose_has_a_maximum(tmp_path: Path, bounds: dict[str, Any]) -> None:
    scenario, _ = load(tmp_path, {"destroyed": [EU], "faults": [DESTROY, KILL], "bounds": bounds})
    assert scenario.destroyed == [EU]
