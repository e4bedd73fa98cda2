"""Every warning about a scenario, and beside it the nearest scenario that deserves none."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from brokerproof.checks import load_scenario
from brokerproof.experiment.metrics import METRICS
from brokerproof.run_warnings import list_measured_subjects, list_warnings
from builders import ROOT, SCENARIOS, TOPOLOGIES

SHIPPED = sorted(SCENARIOS.glob("*.yaml"), key=lambda file: file.stem)
GOOD: dict[str, Any] = {
    "title": "t",
    "description": "d",
    "topology": "sync_active_passive_wan",
    "workload": {
        "namespace": "mytenant/eu",
        "rate": 1000,
        "subscriptions": [{"name": "audit", "type": "key_shared", "consumers": 3}],
        "client": {"batch_by_key": True},
    },
    "phases": {"steady_s": 10, "impact_s": 80, "recovery_s": 20},
    "faults": [{"name": "gone", "kind": "kill", "targets": {"region": "eu"}, "permanent": True}],
    "owner": {"steady": "eu"},
    "bounds": {"rto_s": {"max": 80}},
}


# Everything is measured: two clusters replicate to each other across a link.
REPLICATING = {
    "topology": "geo_replication_wan",
    "workload.namespace": "world/global",
    "workload.hot_key_share": 0.5,
    "owner": {},
    "faults": [{"name": "gone", "kind": "kill", "targets": {"cluster": "cluster-eu", "role": "broker"}}],
}


def warn(tmp_path: Path, overrides: dict[str, Any]) -> list[tuple[str, str]]:
    """(field, sentence) of each warning about the good scenario with some values replaced."""
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(GOOD))
    scenario, topology = load_scenario(file, TOPOLOGIES, deepcopy(overrides))
    found = list_warnings(scenario, topology)
    assert [str(each) for each in found if not each.remedy or "\n" in str(each)] == []
    return [(each.field, str(each)) for each in found]


def faults(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    """The good scenario's fault, changed, once for each."""
    return [{**GOOD["faults"][0], "name": f"gone{number}", **change} for number, change in enumerate(changes)]


def test_a_good_scenario_gets_no_warning(tmp_path: Path) -> None:
    assert warn(tmp_path, {}) == []


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_no_shipped_scenario_gets_a_warning(file: Path) -> None:
    assert list_warnings(*load_scenario(file, TOPOLOGIES)) == []


@pytest.mark.parametrize(
    "near",
    [
        {"workload.client.batch_by_key": True},
        {"workload.client.batching_delay_ms": 0},
        {"workload.client.batching_messages": 1},
        {"workload.subscriptions.0.consumers": 1},
        {"workload.subscriptions.0.type": "failover"},
        {"workload.keys": 2},
        {"loosen": ["delivered_out_of_order"]},
    ],
    ids=lambda near: ",".join(near),
)
def test_batches_that_mix_keys_break_the_order_of_key_shared(tmp_path: Path, near: dict[str, Any]) -> None:
    mixing = {"workload.client.batch_by_key": False}
    ((field, said),) = warn(tmp_path, mixing)
    assert field == "workload.subscriptions.0.type"
    assert "messages of a key arrive out of order" in said
    assert "batch_by_key" in said
    assert warn(tmp_path, {**mixing, **near}) == []


# The times that can be 0: without an interruption, a loss, a backlog, or a message that was delivered after its ack.
CAN_BE_ZERO = {
    *("rto_s", "unavailable_s", "rpo_s", "backlog_drain_s", "link_added_p50_ms", "link_added_p99_ms"),
    *("replication_lag_p50_ms", "replication_lag_p99_ms", "replication_lag_max_ms", "longest_overtaking_s"),
}
TIMES = {name for name, metric in METRICS.items() if metric.unit in ("s", "ms")}


@pytest.mark.parametrize("name", sorted(TIMES - CAN_BE_ZERO))
def test_a_time_that_is_never_0_cannot_be_bounded_by_0(tmp_path: Path, name: str) -> None:
    ((field, said),) = warn(tmp_path, {**REPLICATING, "bounds": {name: {"max": 0}}})
    assert field == f"bounds.{name}.max"
    assert "every value is above 0, so that no run meets it (set it to more than 0)" in said
    assert warn(tmp_path, {**REPLICATING, "bounds": {name: {"max": 0.5}}}) == []


@pytest.mark.parametrize("name", sorted(CAN_BE_ZERO))
def test_a_time_that_can_be_0_can_be_bounded_by_0(tmp_path: Path, name: str) -> None:
    assert warn(tmp_path, {**REPLICATING, "bounds": {name: {"max": 0}}}) == []


THREE_TYPES = {"workload.subscriptions": [{"name": each, "type": each} for each in ("exclusive", "failover", "shared")]}
KEEPS = {"workload.partitions": 4}
ONLY_SHARED = {"workload.subscriptions": [{"name": "audit", "type": "shared"}]}
SLOW = {"faults": [{"name": "slow", "kind": "delay", "targets": {"region": "eu"}, "link": {"delay_ms": 9}}]}


@pytest.mark.parametrize(
    ("overrides", "key", "bound", "said", "near"),
    [
        # Nothing is measured.
        ({}, "rto_s/goon", {"max": 80}, "did you mean `gone`?", "rto_s/gone"),
        ({"faults": []}, "rto_s", {"max": 80}, "there is one value per fault, and none", "rate_held"),
        ({}, "rate_held/stedy", {"min": 0.9}, "did you mean `steady`?", "rate_held/steady"),
        (SLOW, "publish_latency_p50_ms/fast", {"max": 80}, "is called `fast`", "publish_latency_p50_ms/slow"),
        (SLOW, "detect_s/slow", {"max": 80}, "leaves its nodes in service", "publish_latency_p50_ms/slow"),
        ({}, "repeated_by_move", {"max": 10}, "there is one value per subscription", "rpo_messages"),
        ({}, "replication_lag_max_ms", {"max": 10}, "there is one value per way and phase", "publish_latency_max_ms"),
        ({}, "link_added_p50_ms/eu>as/steady", {"max": 1}, "called `eu>as/steady`", "link_added_p50_ms/eu>us/steady"),
        ({}, "segments_not_spanning/later", {"max": 1}, "is called `later`", "segments_not_spanning/before gone"),
        (THREE_TYPES, "overtaken_messages/shared", {"max": 1}, "is called `shared`", "overtaken_messages/exclusive"),
        (ONLY_SHARED, "longest_overtaking_s", {"max": 1}, "there is one value per subscription that", "rate_held"),
        (KEEPS, "moved_keys", {"min": 1}, "there is one value per run with more partitions", "rate_held"),
        # No run meets it.
        ({}, "rate_held", {"min": 1.1}, "every value is from 0 to 1", {"min": 1}),
        ({}, "rto_s", {"max": -1}, "no value is below 0", {"max": 40}),
        ({}, "rpo_messages", {"min": 110_001}, "publish 110,000 messages", {"min": 1}),
        # No run breaks it.
        ({}, "rate_held", {"min": 0}, "every value is 0 or more", {"min": 0.1}),
        ({}, "first_ack_s", {"min": 0}, "every value is 0 or more, so that the bound cannot fail", {"min": 0.1}),
        ({}, "rate_held", {"max": 1}, "every value is from 0 to 1, so that the bound cannot fail", {"max": 0.9}),
        ({}, "rpo_messages", {"max": 110_000}, "publish 110,000 messages", {"max": 109_999}),
        ({}, "rto_s", {"max": 100}, "no value above 100 can be proven", {"max": 99}),
        ({}, "rto_s/gone", {"max": 300}, "the load ends 100 s after `gone`", {"max": 99}),
        ({}, "longest_ack_gap_s", {"max": 100}, "cannot fail", {"max": 99}),
        ({}, "longest_delivery_gap_s", {"max": 100}, "cannot fail", {"max": 99}),
        ({}, "first_ack_s", {"max": 100}, "cannot fail", {"max": 99}),
        # The next fault cuts nothing off.
        ({"faults": faults({"kind": "stop"}, {"kind": "stop", "at_s": 30})}, "rto_s/gone0", {"max": 100},
         "the load ends 100 s after `gone0`", {"max": 99}),
        # A fault that helps has no recovery of its own.
        ({"faults": [{"name": "help", "kind": "start", "targets": {"role": "bookie"}}, *faults({"at_s": 30})]},
         "rto_s", {"max": 70}, "the load ends 70 s after `gone0`", {"max": 69}),
    ],
)  # fmt: skip
def test_a_bound_that_says_nothing_is_foreseen(
    tmp_path: Path, overrides: dict[str, Any], key: str, bound: dict[str, float], said: str, near: Any
) -> None:
    ((field, sentence),) = warn(tmp_path, {**overrides, "bounds": {key: bound}})
    assert field.removesuffix(".max").removesuffix(".min") == f"bounds.{key}"
    assert said in sentence
    better = {near: {"min": 0.9} if near.startswith("rate") else {"max": 90}} if isinstance(near, str) else {key: near}
    assert warn(tmp_path, {**overrides, "bounds": better}) == []


@pytest.mark.parametrize(
    ("key", "bound"),
    [
        # It lifts the requirement that the value is known.
        ("rto_s", {"min": 0}),
        # The minimum can fail.
        ("rto_s", {"min": 1, "max": 300}),
        ("rpo_messages", {"min": 1, "max": 200_000}),
        # The load's end may cut off a longer time.
        ("longest_ack_gap_s", {"min": 101}),
    ],
)
def test_a_minimum_that_has_an_effect_gets_no_warning(tmp_path: Path, key: str, bound: dict[str, float]) -> None:
    assert warn(tmp_path, {"bounds": {key: bound}}) == []


def test_a_bound_for_every_fault_is_judged_by_the_fault_that_can_break_it(tmp_path: Path) -> None:
    two = {"faults": faults({"kind": "stop"}, {"kind": "stop", "at_s": 70})}
    assert warn(tmp_path, {**two, "bounds": {"longest_ack_gap_s": {"max": 99}}}) == []
    assert len(warn(tmp_path, {**two, "bounds": {"longest_ack_gap_s": {"max": 100}}})) == 1


def test_the_subjects_of_every_metric_are_known_but_those_of_the_owner(tmp_path: Path) -> None:
    """A new word for a subject needs a row in `list_measured_subjects`, or its bounds are not checked."""
    scenario, topology = load_scenario(SHIPPED[0], TOPOLOGIES)
    unknown = {name for name, metric in METRICS.items() if list_measured_subjects(metric, scenario, topology) is None}
    assert unknown == {"owner_in_region"}


@pytest.mark.parametrize(("kind", "targets", "foreseen"), [
    ("kill", {"role": "bookie", "count": 1}, False),
    ("unload", {"now": "topic_owner"}, True),
    ("start", {"role": "bookie", "count": 1}, True),
])  # fmt: skip
def test_a_condition_that_cannot_come_true_is_foreseen(
    tmp_path: Path, kind: str, targets: dict[str, Any], foreseen: bool
) -> None:
    first = {"name": "first", "kind": kind, "targets": targets}
    second = {"name": "second", "kind": "kill", "targets": {"role": "bookie", "count": 1}, "at_s": 9}
    found = warn(tmp_path, {"faults": [first, {**second, "when": {"unhealthy": "first", "for_s": 2}}], "bounds": {}})
    assert ("faults.1.when.unhealthy" in [field for field, _ in found]) is foreseen


@pytest.mark.parametrize(
    ("topology", "namespace", "region", "met"),
    [
        ("sync_active_passive_wan", "mytenant/eu", "eu", True),
        ("sync_active_passive_wan", "mytenant/eu", "us", True),
        ("sync_active_passive_wan", "mytenant/eu", "witness", False),
        # The other cluster's owner is in the other region.
        ("geo_replication", "world/global", "eu", False),
    ],
)
@pytest.mark.parametrize("phase", ["steady", "recovery"])
def test_an_owner_in_a_region_without_anybody_who_serves_is_foreseen(
    tmp_path: Path, topology: str, namespace: str, region: str, met: bool, phase: str
) -> None:
    found = warn(
        tmp_path,
        {
            "topology": topology, "workload.namespace": namespace, "workload.subscriptions": [], "faults": [],
            "bounds": {}, "owner": {phase: region},
        },
    )  # fmt: skip
    assert [field for field, _ in found] == ([] if met else [f"owner.{phase}"])


def read_guide() -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """The first scenario of the guide, and the (field, example, condition of it) of each row about warnings."""
    guide = (ROOT / "docs" / "write-a-scenario.md").read_text(encoding="utf-8")
    scenario = yaml.safe_load(guide.partition("```yaml")[2].partition("```")[0])
    rows = guide.partition("| field | example | what will happen |\n|---|---|---|\n")[2].partition("\n\n")[0]
    cells = (row.strip("|").split(" | ") for row in rows.splitlines())
    return scenario, [(field.strip(" `"), *example.lstrip("`").split("`", 1)) for field, example, _ in cells]  # type: ignore[misc]


def test_every_example_of_the_guide_gets_its_warning_and_its_scenario_gets_none(tmp_path: Path) -> None:
    scenario, rows = read_guide()
    file = tmp_path / "owner_killed.yaml"
    file.write_text(yaml.safe_dump(scenario))
    assert list_warnings(*load_scenario(file, TOPOLOGIES)) == []
    # What depends on more than the file is tested elsewhere.
    assert [field for field, _, condition in rows if condition] == ["bounds.detect_s", "workload.rate"]
    for field, example, condition in rows:
        if condition:
            continue
        path, _, value = example.partition("=")
        found = list_warnings(*load_scenario(file, TOPOLOGIES, {path: yaml.safe_load(value)}))
        assert field in [each.field for each in found], example
