"""Runs that were recorded while the core still knew Pulsar's roles and policies are read as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from brokerproof.checks import check_scenario, check_topology
from brokerproof.run.directory import Run
from brokerproof.systems.destinations import list_clusters_reached
from brokerproof.systems.registry import name_topic

RECORDED = Path(__file__).parent / "recorded_runs"
# The rule for regressions was the same for every scenario, and what is loosened was a list of names.
LATER_SCENARIO_FIELDS = {
    "bug": None,
    "case": "",
    "draw": None,
    "late_after_s": 1.0,
    "matrix": {},
    "loosen": {},
    "regression": {"tolerance": 0.1, "window": 30, "tolerances": {}},
}
# A fault was healed at a time of the scenario, or at the end of the load.
LATER_FAULT_FIELDS = {"heal_after_s": None, "heal_when": None}
# All targets were nodes, and consumers wrote no outputs.
LATER_TARGETS_FIELDS = {"client": None, "names": [], "subscription": None}
LATER_SUBSCRIPTION_FIELDS = {
    "acks": None,
    "commit": None,
    "standby": None,
    "streaming": None,
    "negative_ack_every": None,
}
# A restarted producer went on behind its open messages.
LATER_CLIENT_FIELDS = {"on_restart": None}
# Every topic stored its messages and kept its partitions, and all keys had equally many.
LATER_WORKLOAD_FIELDS = {"stored": None, "grows_to": None, "hot_key_share": None}
# No node had a service manager.
LATER_NODE_FIELDS = {"restart": None}
LATER_TOPOLOGY_FIELDS = {"restart": {}}


@pytest.fixture(params=sorted(RECORDED.glob("*.json")), ids=lambda file: file.stem)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """A run with nothing but its run.json of that time."""
    (tmp_path / "run.json").write_text(request.param.read_text(encoding="utf-8"), encoding="utf-8")
    return Run(str(tmp_path))


def test_its_scenario_and_topology_are_what_they_were(run: Run) -> None:
    recorded = json.loads(run.read_text("run.json"))
    recorded["scenario"] |= LATER_SCENARIO_FIELDS
    recorded["topology"] |= LATER_TOPOLOGY_FIELDS
    for fault in recorded["scenario"]["faults"]:
        fault |= LATER_FAULT_FIELDS
        fault["targets"] |= LATER_TARGETS_FIELDS
    recorded["scenario"]["workload"] |= LATER_WORKLOAD_FIELDS
    recorded["scenario"]["workload"]["client"] |= LATER_CLIENT_FIELDS
    for subscription in recorded["scenario"]["workload"]["subscriptions"]:
        subscription |= LATER_SUBSCRIPTION_FIELDS
    clusters = recorded["topology"]["clusters"].values()
    for nodes in (recorded["topology"]["shared_metadata"], *(cluster["nodes"] for cluster in clusters)):
        for node in nodes.values():
            node |= LATER_NODE_FIELDS
    assert json.loads(run.scenario.model_dump_json()) == recorded["scenario"]
    assert json.loads(run.topology.model_dump_json()) == recorded["topology"]


def test_its_topology_lacks_no_default_but_later_ones(run: Run) -> None:
    checked = check_topology(run.topology)
    # The rate was not given, so Pulsar stored a position whenever it moved: such a run compares with none of today.
    for cluster in checked.clusters.values():
        for namespace in cluster.policies["namespaces"].values():
            assert namespace["persistence"].pop("mark_delete_rate") == 1.0
    assert checked == run.topology
    check_scenario(run.scenario, run.topology)


def test_its_topic_is_found_where_it_was(run: Run) -> None:
    workload = run.scenario.workload
    assert name_topic(run) == f"persistent://{workload.namespace}/orders"
    assert list_clusters_reached(run.topology, workload) == list(run.topology.clusters)
