"""Runs recorded before a field or a layer of topologies came compare with the runs of today.

A new field changes no digest of an experiment that does not set it. The digests were taken from the files and the code
of before. The scenario is written here, so that a shipped one may change: its runs do not compare then, and should not.
Change a digest only if runs of before and after must not be compared any more, and with a migration of the history
database, if the rows that it has must get another digest. `persistence.mark_delete_rate` changed all digests: a
subscription's position is stored once a second since then, as it is by default in Pulsar, and not whenever it moves.
"""

from __future__ import annotations

from pathlib import Path

from brokerproof.checks import load_scenario, load_topology
from brokerproof.results.comparability import compute_digest
from builders import TOPOLOGIES

# The first 16 digits of each.
TOPOLOGY_DIGESTS = {
    "active_active": "7180e10d9a2b545b",
    "active_active_cold": "b626e24228f08052",
    "geo_replication": "625a200561d5e619",
    "geo_replication_wan": "7a538bd0989a9edf",
    "side_by_side": "4ff6c0101b5703be",
    "sync_active_passive": "b4fb1d8a2ad7561d",
    "sync_active_passive_cold": "9a9685ffb0d03334",
    "sync_active_passive_wan": "81f2f0ba76d6da21",
}
# `geo_datacenter_destroyed` as it was when `late_after_s` came: with it `rto_s` means something else.
SCENARIO = """\
title: A datacenter is destroyed, and what it had not sent on is lost
description: What eu had acknowledged and us had not yet received is lost.
tags: [replication, datacenter]
topology: geo_replication
settings: {extends: skip_lost_entries}
workload:
  namespace: world/global
  topic: orders
  rate: 500
  size: 200
  keys: 100
  producers: 2
  produce_on: [cluster-eu, cluster-us]
  subscriptions:
    - {name: audit, cluster: cluster-eu}
    - {name: audit, cluster: cluster-us}
phases: {steady_s: 20, impact_s: 90, recovery_s: 15}
faults:
  - {name: eu_destroyed, kind: destroy, targets: {cluster: cluster-eu}, heal_at_s: 30}
destroyed: [cluster-eu]
bounds:
  rpo_messages: {max: 1000}
  rpo_s: {max: 2}
"""
SCENARIO_DIGEST = "421f4ae13c700193"


def test_every_topology_has_the_digest_of_before() -> None:
    found = {name: _digest_topology(name) for name in TOPOLOGY_DIGESTS}
    assert found == TOPOLOGY_DIGESTS


def test_a_scenario_has_the_digest_of_before(tmp_path: Path) -> None:
    assert _digest_scenario(tmp_path, SCENARIO) == SCENARIO_DIGEST


def test_a_scenario_that_asks_for_something_else_has_another_digest(tmp_path: Path) -> None:
    slower = SCENARIO.replace("rate: 500", "rate: 250")
    assert _digest_scenario(tmp_path, slower) != _digest_scenario(tmp_path, SCENARIO)


def _digest_topology(name: str) -> str:
    topology = load_topology(name, TOPOLOGIES)
    return compute_digest({"scenario": {}, "topology": topology.model_dump(mode="json")})[:16]


def _digest_scenario(directory: Path, text: str) -> str:
    path = directory / "geo_datacenter_destroyed.yaml"
    path.write_text(text)
    scenario, topology = load_scenario(path, TOPOLOGIES)
    return compute_digest({"scenario": scenario.model_dump(mode="json"), "topology": topology.model_dump(mode="json")})[
        :16
    ]
