"""Runs recorded before topologies could extend each other compare with the runs of today.

The digests were taken from the files and the code of before. Change one only where runs of before and after must not be
compared any more, and with a migration of the history database.
"""

from __future__ import annotations

from pathlib import Path

from brokerproof.checks import load_scenario, load_topology
from brokerproof.results.comparability import compute_digest

ROOT = Path(__file__).parents[3]
# The first 16 digits of each.
TOPOLOGY_DIGESTS = {
    "active_active": "dcad92892ca6da00",
    "active_active_cold": "b307af45d789722d",
    "geo_replication": "8eb76d146b3f6423",
    "geo_replication_wan": "c8df572ab50e7cd1",
    "side_by_side": "04bf02ceee3358df",
    "sync_active_passive": "2e6100366fdc27f6",
    "sync_active_passive_cold": "1767002933bfcf4e",
    "sync_active_passive_wan": "b48e1db192789f97",
}
SCENARIO_DIGESTS = {
    "active_active_region_loss": "5e82c47f6ec12063",
    "active_active_region_loss_cold": "b1e04f26fd2ea607",
    "control_blind_autorecovery": "b8c08077c57e9957",
    "control_geo_datacenter_destroyed_behind": "4d96d9fe2c2555e8",
    "control_no_region_placement": "94a8c19784bc4ba0",
    "control_partition_then_datacenter_loss": "84ed6f0121d78f25",
    "geo_datacenter_destroyed": "cb65de83cf21acf9",
    "geo_datacenter_loss_and_return": "8b351e4fe9a9bbc5",
    "geo_link_cut": "1932b448d002efef",
    "geo_nominal": "df87604257e68a26",
    "geo_replicated_subscription": "285ba9a78a384628",
    "geo_unreplicated_subscription": "535f92e637379b68",
    "sync_bookie_loss": "d00f79e8e6b5c567",
    "sync_bookie_paused": "c08c869d4f22c127",
    "sync_bookie_then_datacenter_loss": "70fc494e0968c38e",
    "sync_bookie_then_passive_datacenter_loss": "88a52e4d4c5006f4",
    "sync_datacenter_loss": "1066a380a03c308b",
    "sync_datacenter_loss_cold": "017dd76d085d1e70",
    "sync_datacenter_loss_tuned": "792d89db5069a15f",
    "sync_datacenter_return": "2a61da2440595d8a",
    "sync_nominal": "13bc8a65a2d026de",
    "sync_owner_paused": "70e4424aadc988a0",
    "sync_region_partition_metadata_active": "faea55d6d5e2ed36",
    "sync_region_partition_metadata_passive": "1a36afaee86ccfa9",
    "sync_write_latency": "d6b2eef629522e58",
}


def test_every_topology_has_the_digest_of_before() -> None:
    found = {name: _digest_topology(name) for name in TOPOLOGY_DIGESTS}
    assert found == TOPOLOGY_DIGESTS


def test_every_scenario_has_the_digest_of_before() -> None:
    found = {name: _digest_scenario(name) for name in SCENARIO_DIGESTS}
    assert found == SCENARIO_DIGESTS


def _digest_topology(name: str) -> str:
    topology = load_topology(name, ROOT / "topologies")
    return compute_digest({"scenario": {}, "topology": topology.model_dump(mode="json")})[:16]


def _digest_scenario(name: str) -> str:
    scenario, topology = load_scenario(ROOT / f"dags/scenarios/{name}.yaml", ROOT / "topologies")
    return compute_digest({"scenario": scenario.model_dump(mode="json"), "topology": topology.model_dump(mode="json")})[
        :16
    ]
