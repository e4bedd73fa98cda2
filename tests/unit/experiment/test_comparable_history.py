"""Runs recorded before a field or a layer of topologies came compare with the runs of today.

The digests were taken from the files and the code of before, and those of scenarios again when `late_after_s` came:
with it `rto_s` means something else. Change one only if runs of before and after must not be compared any more, and
with a migration of the history database.
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
    "active_active_region_loss": "4d15e55517cb92aa",
    "active_active_region_loss_cold": "2c7aa335bf01c1dd",
    "control_blind_autorecovery": "9af5170049301372",
    "control_geo_datacenter_destroyed_behind": "12cf96fd26b7ab05",
    "control_no_region_placement": "0fd985c9347c68ad",
    "control_partition_then_datacenter_loss": "7901f3d810557405",
    "geo_datacenter_destroyed": "3f14873671514a61",
    "geo_datacenter_loss_and_return": "e8c58b42a775a23e",
    "geo_link_cut": "dccc3ffb04e0e570",
    "geo_nominal": "0d58dd0055201ad8",
    "geo_replicated_subscription": "dabc727750356df7",
    "geo_unreplicated_subscription": "0af0e3703c2a29a0",
    "sync_bookie_loss": "105f595351c67149",
    "sync_bookie_paused": "fc66db9ba13b31f5",
    "sync_bookie_then_datacenter_loss": "ccd91af06c397ee4",
    "sync_bookie_then_passive_datacenter_loss": "b5079b4ee68fe1c8",
    "sync_datacenter_loss": "6456c85cbb379770",
    "sync_datacenter_loss_cold": "de125ff31d99438f",
    "sync_datacenter_loss_tuned": "fa60ad94f4272874",
    "sync_datacenter_return": "c37ff846f8b6360a",
    "sync_nominal": "0e5b73908a822b1e",
    "sync_owner_paused": "e5d605bd37468d77",
    "sync_region_partition_metadata_active": "24ddaee5ca1e1f1b",
    "sync_region_partition_metadata_passive": "83254ef2711bfada",
    "sync_write_latency": "02b6804235f144fc",
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
