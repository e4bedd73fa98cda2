"""Whatever is wrong with a file is one sentence that names the file, the field and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from brokerproof.checks import load_scenario, load_topology
from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import FrozenModel, parse
from brokerproof.systems.pulsar.policies import parse_policies
from brokerproof.systems.pulsar.system import PULSAR
from builders import SCENARIOS, TOPOLOGIES, load_shipped

from ..measured_scenarios import list_measured_scenarios


def good() -> dict[str, Any]:
    return {
        "title": "t",
        "description": "d",
        "topology": "sync_active_passive",
        "workload": {"namespace": "mytenant/eu"},
        "faults": [{"name": "gone", "kind": "kill", "targets": {"region": "eu"}}],
    }


def load(tmp_path: Path, content: dict[str, Any], settings: dict[str, Any] | None = None) -> Any:
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(content))
    return load_scenario(file, TOPOLOGIES, settings)


def test_a_good_file_is_accepted(tmp_path: Path) -> None:
    scenario, topology = load(tmp_path, good())
    assert scenario.name == "experiment"
    assert PULSAR.topic(scenario.workload) == "persistent://mytenant/eu/orders"
    assert set(topology.regions) == {"eu", "us", "witness"}


@pytest.mark.parametrize(
    ("settings", "field", "remedy"),
    [
        ({"workload.ratee": 5}, "workload.ratee", "did you mean `rate`?"),
        ({"workload.rate": "fast"}, "workload.rate", "write a whole number, as in 1000"),
        ({"workload.rate": "maximum"}, "workload.rate", "did you mean `max`?"),
        ({"workload.rate": 0}, "workload.rate", "write at least 1"),
        ({"workload.keys": 1}, "workload.keys", "at least 2"),
        ({"topology": "sync_active_pasive"}, "topology", "did you mean `sync_active_passive`?"),
        ({"workload.namespace": "mytenant/asia"}, "workload.namespace", "did you mean `mytenant/"),
        ({"faults.0.kind": "kil"}, "faults.0.kind", "did you mean `kill`?"),
        ({"faults.0.targets": {"nodes": ["broker-eu-9"]}}, "faults.0.targets.nodes", "did you mean `broker-eu-"),
        ({"faults.0.targets": {"region": "asia"}}, "faults.0.targets.region", "one of: eu, us, witness"),
        ({"faults.0.targets": {}}, "faults.0.targets", "give nodes, client, cluster, region, role or now"),
        ({"faults.0.at_s": 60}, "faults.0.at_s", "lengthen phases.impact_s"),
        ({"faults.0.heal_at_s": 90}, "faults.0.heal_at_s", "up to 60"),
        ({"faults.0.permanent": True, "faults.0.heal_at_s": 5}, "faults.0.heal_at_s", "drop one"),
        ({"faults.0.when": {"rereplicated": "other"}}, "faults.0.when.rereplicated", "nothing is defined"),
        ({"faults.0.when": {"unhealthy": "x", "for_s": 5}}, "faults.0.when.unhealthy", "nothing is defined"),
        ({"faults.0.when": {"unhealthy": "x"}}, "faults.0.when.for_s", "add it, as in `for_s: 20`"),
        ({"faults.0.when": {"healthy": "x"}}, "faults.0.when.for_s", "add it, as in `for_s: 20`"),
        ({"faults.0.when": {"healthy": "x", "unhealthy": "y", "for_s": 5}}, "faults.0.when", "give one of"),
        ({"faults.0.heal_after_s": 61}, "faults.0.heal_after_s", "up to 60"),
        ({"faults.0.heal_after_s": -1}, "faults.0.heal_after_s", ""),
        ({"faults.0.heal_at_s": 5, "faults.0.heal_after_s": 5}, "faults.0.heal_after_s", "drop this or `heal_at_s`"),
        ({"faults.0.permanent": True, "faults.0.heal_after_s": 5}, "faults.0.heal_after_s", "drop one"),
        ({"faults.0.when": {}}, "faults.0.when", "one of `rereplicated`, `unhealthy` and `healthy`"),
        ({"faults.0.when": {"rereplicated": "x", "for_s": 5}}, "faults.0.when.for_s", "leave it out"),
        (
            {"overrides": {"clusters.mycluster.nodes.metadata-1.standby": True}},
            "clusters.mycluster.nodes.metadata-1.standby",
            "only bookies and brokers can stand by",
        ),
        (
            {
                "overrides": {
                    f"clusters.mycluster.nodes.bookie-{n}.standby": True for n in ("eu-1", "eu-2", "us-1", "us-2")
                }
            },
            "clusters.mycluster.nodes",
            "leave `standby` out of one of them",
        ),
        (
            {
                "overrides": {
                    **{f"clusters.mycluster.nodes.bookie-{n}.standby": True for n in ("eu-1", "eu-2", "us-1")},
                    **{
                        f"clusters.mycluster.namespaces.mytenant/us.persistence.{field}": 1
                        for field in ("ensemble", "write_quorum", "ack_quorum")
                    },
                }
            },
            "clusters.mycluster.namespaces.mytenant/eu.persistence.ensemble",
            "add bookies that are not on standby",
        ),
        (
            {
                "overrides": {
                    f"clusters.mycluster.nodes.broker-{n}.standby": True for n in ("eu-1", "eu-2", "us-1", "us-2")
                }
            },
            "clusters.mycluster.nodes",
            "leave `standby` out of one of them",
        ),
        ({"guarantee": "at_most_once"}, "bounds", "add `missing_messages: {max: …}`"),
        ({"guarantee": "at_most_once", "bounds": {"missing_messages/lost": {"max": 1}}}, "bounds", "missing_messages"),
        ({"guarantee": "at_most_once", "bounds": {"missing_messages": {"min": 0}}}, "bounds", "missing_messages"),
        ({"loosen": ["lost"]}, "bounds", "add `missing_messages/lost: {max: …}`"),
        ({"loosen": ["lost"], "bounds": {"missing_messages": {"min": 0}}}, "bounds", "missing_messages/lost"),
        ({"loosen": ["lost"], "bounds": {"missing_messages/undelivered": {"max": 1}}}, "bounds", "ages/lost: {max"),
        ({"loosen": ["lost", "undelivered"]}, "bounds", "add `missing_messages: {max: …}`"),
        ({"loosen": ["lost"], "tighten": ["lost"]}, "loosen.lost", "leave it out of one"),
        ({"loosen": ["delivered_twice"], "tighten": ["delivered_twice"]}, "loosen.delivered_twice", "leave it out of"),
        ({"loosen": {"lost": {"home": "mycluste"}}}, "loosen.lost.home", "did you mean `mycluster`?"),
        ({"loosen": {"undelivered": {"subscription": "audi"}}}, "loosen.undelivered.subscription", "mean `audit`?"),
        ({"loosen": {"lost": {"subscription": "audit"}}}, "loosen.lost.subscription", "leave it out"),
        ({"loosen": {"stored_twice": {"subscription": "audit"}}}, "loosen.stored_twice.subscription", "leave it out"),
        ({"loosen": {"lost": {"outcome": "failed"}}}, "loosen.lost.outcome", "one of: acked, unknown"),
        ({"loosen": {"unreadable": {"outcome": "unknown"}}}, "loosen.unreadable.outcome", "one of: acked"),
        ({"loosen": {"failed_but_stored": {"outcome": "acked"}}}, "loosen.failed_but_stored.outcome", "one of: failed"),
        ({"loosen": {"phantom": {"outcome": "acked"}}}, "loosen.phantom.outcome", "leave it out"),
        ({"loosen": {"phantom": {"home": "mycluster"}}}, "loosen.phantom.home", "leave it out"),
        ({"loosen": ["delivered_twice"]}, "loosen.delivered_twice", "leave it out"),
        (
            {"guarantee": "at_most_once", "bounds": {"missing_messages": {"max": 1}}, "loosen": ["lost"]},
            "loosen.lost",
            "leave it out",
        ),
        (
            {"workload.subscriptions": [{"name": "pool", "type": "shared"}], "loosen": ["delivered_out_of_order"]},
            "loosen.delivered_out_of_order",
            "leave it out",
        ),
        # Outputs are promised what their subscription's commit promises.
        (
            {"workload.subscriptions": [{"name": "late", "commit": "after"}], "loosen": ["output_repeated"]},
            "loosen.output_repeated",
            "leave it out",
        ),
        ({"loosen": {"lost": {"outcome": "asked"}}}, "loosen.lost.outcome", "did you mean `acked`?"),
        ({"loosen": [["lost"]]}, "loosen", ""),
        ({"loosen": ["unproven"]}, "loosen", "leave `unproven` out"),
        ({"tighten": ["unproven"]}, "tighten", "leave `unproven` out"),
        ({"version": "4.0.7"}, "version", "did you mean `4.0.8`?"),
        ({"runtime": "dokcer"}, "runtime", "did you mean `docker`?"),
        ({"overrides": {"system": "kafka"}}, "system", "one of: pulsar"),
        ({"phases.steady_s": -1}, "phases.steady_s", "write a number above 0"),
        ({"bounds": {"rto": {"max": 5}}}, "bounds.rto", "did you mean `rto_s`?"),
        ({"bounds": {"rto_s": {"max": 5, "min": 6}}}, "bounds.rto_s", "min <= max"),
        ({"bounds": {"rto_s": {}}}, "bounds.rto_s", "give `min`, `max` or both"),
        ({"regression": {"tolerance": -0.1}}, "regression.tolerance", "write at least 0"),
        ({"regression": {"window": 11}}, "regression.window", "write at least 12"),
        ({"regression": {"tolerances": {"rto": 0.3}}}, "regression.tolerances.rto", "did you mean `rto_s`?"),
        ({"regression": {"tolerances": {"rto_s": 11}}}, "regression.tolerances.rto_s", "write at most 10"),
        ({"regression": {"tolerances": {"sampling_gap_s": 1}}}, "regression.tolerances.sampling_gap_s", "leave it out"),
        ({"regression": {"spread": 1}}, "regression.spread", "one of: tolerance, tolerances, window"),
        ({"expect": {"verdict": "fine"}}, "expect.verdict", "did you mean `failed`?"),
        ({"expect": {"verdict": "not_applicable"}}, "expect.verdict", "one of: failed, no_data, passed, unknown"),
        ({"owner": {"steady": "asia"}}, "owner.steady", "one of: eu, us, witness"),
        (
            {"overrides": {"clusters.mycluster.namespaces.mytenant/eu.persistence.ack_quorum": 3}},
            "clusters.mycluster.namespaces.mytenant/eu.persistence",
            "ensemble >= write_quorum >= ack_quorum",
        ),
        (
            {"overrides": {"clusters.mycluster.namespaces.mytenant/eu.persistence.ensemble": 5}},
            "clusters.mycluster.namespaces.mytenant/eu.persistence.ensemble",
            "add bookies",
        ),
        (
            {"overrides": {"clusters.mycluster.namespaces.mytenant/eu.isolation.primary": "asia"}},
            "clusters.mycluster.namespaces.mytenant/eu.isolation.primary",
            "one of: eu, us",
        ),
        (
            {
                "overrides": {
                    "clusters.mycluster.nodes.bookie-store-1": {"role": "bookie", "region": "store"},
                    "clusters.mycluster.namespaces.mytenant/eu.isolation.primary": "store",
                }
            },
            "clusters.mycluster.namespaces.mytenant/eu.isolation.primary",
            "one of: eu, us",
        ),
        (
            {
                "overrides": {
                    "clusters.mycluster.nodes.bookie-store-1": {"role": "bookie", "region": "store"},
                    "clusters.mycluster.namespaces.mytenant/eu.isolation.secondary": "store",
                }
            },
            "clusters.mycluster.namespaces.mytenant/eu.isolation.secondary",
            "one of: eu, us",
        ),
        (
            {
                "overrides": {
                    "clusters.mycluster.nodes.broker-front-1": {"role": "broker", "region": "front"},
                    "clusters.mycluster.placement": {"bookies": "pinned", "pinned_to": "front"},
                }
            },
            "clusters.mycluster.placement.pinned_to",
            "one of: eu, us",
        ),
        (
            {"overrides": {"clusters.mycluster.placement.pinned_to": "eu"}},
            "clusters.mycluster.placement.pinned_to",
            "both or neither",
        ),
        ({"faults.0.kind": "partition"}, "faults.0.kind", "use a topology with `links`"),
        ({"faults.0.link": {"delay_ms": 5}}, "faults.0.link", "leave it out"),
        ({"faults.0.kind": "unload"}, "faults.0.targets.now", "now: topic_owner"),
        ({"workload.region": "eu"}, "workload.region", "use a topology with `links`"),
        (
            {"workload.subscriptions": [{"name": "audit", "region": "eu"}]},
            "workload.subscriptions.0.region",
            "use a topology with `links`",
        ),
        (
            {"topology": "sync_active_passive_wan", "workload.region": "asia"},
            "workload.region",
            "one of: eu, us, witness",
        ),
        ({"topology": "sync_active_passive_wan", "faults.0.kind": "delay"}, "faults.0.link.delay_ms", "add it"),
        (
            {
                "topology": "sync_active_passive_wan",
                "faults.0.kind": "delay",
                "faults.0.link": {"delay_ms": 5, "jitter_ms": 6},
            },
            "faults.0.link.jitter_ms",
            "no greater than the delay",
        ),
        ({"overrides": {"links": [{"between": ["eu", "asia"]}]}}, "links.0.between", "one of: eu, us, witness"),
        ({"overrides": {"links": [{"between": ["eu", "eu"]}]}}, "links.0.between", "two different regions"),
        (
            {"overrides": {"links": [{"between": ["eu", "us"]}, {"between": ["us", "eu"]}]}},
            "links.1.between",
            "keep one",
        ),
        ({"overrides": {"links": [{"between": ["eu"]}]}}, "links.0.between", "give at least 2"),
        (
            {"overrides": {"links": [{"between": ["eu", "us"], "delay_ms": 1, "jitter_ms": 2}]}},
            "links.0.jitter_ms",
            "no greater than the delay",
        ),
        (
            {
                "topology": "sync_active_passive_wan",
                "overrides": {
                    # Three nodes, because a store with two of them is another mistake.
                    f"clusters.mycluster.nodes.{name}": {"role": "metadata", "region": "eu"}
                    for name in ("zk", "metadata-3")
                },
            },
            "clusters.mycluster.nodes.zk",
            "rename it",
        ),
        (
            {
                "topology": "sync_active_passive_wan",
                "overrides": {"clusters.mycluster.nodes.Bookie_9": {"role": "bookie", "region": "eu"}},
            },
            "clusters.mycluster.nodes.Bookie_9",
            "lower-case",
        ),
        (
            {
                "topology": "sync_active_passive_wan",
                "overrides": {"clusters.mycluster.nodes.clients-eu": {"role": "bookie", "region": "eu"}},
            },
            "clusters.mycluster.nodes.clients-eu",
            "rename it",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_a_mistake_is_named(tmp_path: Path, settings: dict[str, Any], field: str, remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, good(), settings)
    assert caught.value.file
    assert caught.value.field == field
    assert remedy in caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"loosen": ["lost"], "bounds": {"missing_messages/lost": {"max": 1}}},
        {"loosen": ["lost", "undelivered"], "bounds": {"missing_messages": {"max": 1}}},
        # The other messages that are lost fail the scenario.
        {"loosen": {"lost": {"outcome": "unknown"}}},
        {"guarantee": "at_most_once", "bounds": {"missing_messages": {"max": 1}}, "tighten": ["lost"]},
        {"guarantee": "at_most_once", "tighten": ["lost", "not_replicated", "undelivered", "unreadable"]},
        {"tighten": ["delivered_twice"], "loosen": {"delivered_twice": {"subscription": "audit"}}},
        {"loosen": {"undelivered": {"outcome": "failed", "home": "mycluster", "subscription": "audit"}}},
        {"loosen": {"failed_but_stored": {"outcome": "failed", "home": "mycluster"}}},
        {"loosen": {"phantom": {"subscription": "audit"}}},
        {"loosen": ["delivered_out_of_order"]},
        {"guarantee": "effectively_once", "loosen": ["stored_twice"]},
        {"workload.subscriptions": [], "loosen": ["stored_out_of_order"]},
        {"workload.subscriptions": [{"name": "early", "commit": "before"}], "loosen": ["output_repeated"]},
    ],
    ids=str,
)
def test_what_is_legal_of_messages_that_there_can_be_is_accepted(tmp_path: Path, settings: dict[str, Any]) -> None:
    scenario, _ = load(tmp_path, good(), settings)
    assert set(scenario.loosen) == set(settings.get("loosen", ()))
    assert set(scenario.tighten) == set(settings.get("tighten", ()))


def test_a_region_with_brokers_and_without_bookies_can_own_topics(tmp_path: Path) -> None:
    isolation = "clusters.mycluster.namespaces.mytenant/eu.isolation.primary"
    broker = {"role": "broker", "region": "front"}
    settings = {"overrides": {"clusters.mycluster.nodes.broker-front-1": broker, isolation: "front"}}
    _, topology = load(tmp_path, good(), settings)
    assert topology.clusters["mycluster"].policies["namespaces"]["mytenant/eu"]["isolation"]["primary"] == "front"


def test_broken_yaml_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text("title: x\nworkload: {rate: 5\n")
    with pytest.raises(InputError) as caught:
        load_scenario(file, TOPOLOGIES)
    assert "line" in caught.value.field
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("title.x.y", "`x` would be inside a plain value"),
        ("faults.0.name.x", "`x` would be inside a plain value"),
        ("faults.1.name", "`1` names no item of the list"),
        ("faults.first.name", "`first` names no item of the list"),
        ("faults.1", "`1` names no item of the list"),
    ],
)
def test_an_override_that_leads_nowhere_is_refused(tmp_path: Path, path: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, good(), {path: 1})
    assert (caught.value.file, caught.value.field, caught.value.problem) == ("--set", path, problem)
    assert caught.value.remedy


def test_an_override_of_one_alias_spares_the_others(tmp_path: Path) -> None:
    """geo_replication describes its namespace once and refers to it from the other cluster."""
    namespaces = [f"clusters.{cluster}.namespaces.world/global.persistence" for cluster in ("cluster-eu", "cluster-us")]
    topology = load_topology("geo_replication", TOPOLOGIES, {f"{each}.ack_quorum": 1 for each in namespaces})
    global_namespaces = [parse_policies(cluster).namespaces["world/global"] for cluster in topology.clusters.values()]
    assert {namespace.persistence.ack_quorum for namespace in global_namespaces} == {1}
    with pytest.raises(InputError, match="describes it differently"):
        load_topology("geo_replication", TOPOLOGIES, {f"{namespaces[0]}.ack_quorum": 1})


@pytest.mark.parametrize("file", sorted(SCENARIOS.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_scenario_of_the_project_is_good(file: Path) -> None:
    scenario, _ = load_scenario(file, TOPOLOGIES)
    assert scenario.name == file.stem


@pytest.mark.parametrize("file", sorted(TOPOLOGIES.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_topology_of_the_project_is_good(file: Path) -> None:
    assert load_topology(file.stem, TOPOLOGIES).nodes


@pytest.mark.parametrize("name", [name for name in list_measured_scenarios() if name.startswith("control_")])
def test_a_control_whose_figures_are_shown_does_not_pass_and_says_what_has_to_be_wrong(name: str) -> None:
    scenario, _ = load_shipped(name)
    assert scenario.expect.verdict != "passed"
    assert scenario.expect.at_least or scenario.expect.failed_suites


def test_a_misspelt_field_is_named_and_not_the_right_one_that_is_missing() -> None:
    class Shelf(FrozenModel):
        books: int

    with pytest.raises(InputError) as caught:
        parse(Shelf, {"boks": 1}, file="shelf.yaml")
    assert str(caught.value) == "shelf.yaml: boks: unknown field `boks` (did you mean `books`?)"
