"""Which nodes of a topology have a service manager, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from brokerproof.checks import load_topology
from brokerproof.errors import InputError
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.yaml_models import parse
from brokerproof.results.comparability import compute_digest
from builders import TOPOLOGIES

BOOKIES = ["bookie-eu-1", "bookie-eu-2", "bookie-us-1", "bookie-us-2"]
NODES = "clusters.mycluster.nodes"


def load(directory: Path, overrides: dict[str, Any] | None = None, **content: Any) -> Topology:
    """A topology that extends `managed`, whose bookies have a service manager, which extends a shipped one."""
    layers = {
        "base": yaml.safe_load((TOPOLOGIES / "sync_active_passive.yaml").read_text()),
        "managed": {"extends": "base", "restart": {"bookie": {"after_s": 10}}},
        "mine": {"extends": "managed", **content},
    }
    for name, layer in layers.items():
        (directory / f"{name}.yaml").write_text(yaml.safe_dump({**layer, "title": name, "description": "d"}))
    return load_topology("mine", directory, overrides)


def test_by_default_no_node_has_one(tmp_path: Path) -> None:
    assert load(tmp_path, restart=None).restarted_after_s == {}


def test_a_role_has_one_for_all_its_nodes(tmp_path: Path) -> None:
    assert load(tmp_path).restarted_after_s == dict.fromkeys(BOOKIES, 10.0)


def test_a_nodes_own_wins(tmp_path: Path) -> None:
    nodes = {"bookie-eu-1": {"restart": {"after_s": 3}}, "metadata-1": {"restart": {"after_s": 0}}}
    found = load(tmp_path, clusters={"mycluster": {"nodes": nodes}}).restarted_after_s
    assert found == {**dict.fromkeys(BOOKIES, 10.0), "bookie-eu-1": 3.0, "metadata-1": 0.0}


@pytest.mark.parametrize("off", [False, {"after_s": None}])
def test_a_node_can_be_without_one_although_its_role_has_one(tmp_path: Path, off: Any) -> None:
    found = load(tmp_path, clusters={"mycluster": {"nodes": {"bookie-eu-1": {"restart": off}}}}).restarted_after_s
    assert list(found) == BOOKIES[1:]


def test_it_can_be_overridden_as_any_other_field(tmp_path: Path) -> None:
    overrides = {"restart.broker": {"after_s": 5}, f"{NODES}.bookie-eu-1.restart": False, "restart.bookie.after_s": 1}
    found = load(tmp_path, overrides).restarted_after_s
    assert found == {name: 1.0 if name in BOOKIES else 5.0 for name in found}
    assert len(found) == 7


def test_a_node_of_a_shared_metadata_store_has_one_too() -> None:
    found = load_topology("active_active", TOPOLOGIES, {"restart.metadata": {"after_s": 4}}).restarted_after_s
    assert set(found.values()) == {4.0}


def test_the_example_of_the_guide_says_what_the_guide_says(tmp_path: Path) -> None:
    guide = (TOPOLOGIES.parent / "docs/write-a-scenario.md").read_text(encoding="utf-8")
    example = next(block for block in re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL) if "restart: false" in block)
    shipped = (TOPOLOGIES / "sync_active_passive.yaml").read_text(encoding="utf-8")
    for name, text in {"sync_active_passive": shipped, "example": example}.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    brokers = dict.fromkeys(["broker-eu-1", "broker-eu-2", "broker-us-1"], 10.0)
    found = load_topology("example", tmp_path).restarted_after_s
    assert found == {**dict.fromkeys(BOOKIES[:3], 10.0), **brokers, "broker-us-2": 60.0}


def test_a_run_reads_back_what_was_in_force(tmp_path: Path) -> None:
    topology = load(tmp_path, clusters={"mycluster": {"nodes": {"bookie-eu-1": {"restart": False}}}})
    read = parse(Topology, topology.model_dump(mode="json"), file="run.json")
    assert read.restarted_after_s == topology.restarted_after_s


def test_runs_compare_by_what_holds_for_each_node_and_not_by_how_it_is_said(tmp_path: Path) -> None:
    def digest(**content: Any) -> str:
        return compute_digest({"scenario": {}, "topology": load(tmp_path, **content).model_dump(mode="json")})

    each = {name: {"restart": {"after_s": 10}} for name in BOOKIES}
    assert digest() == digest(restart={"bookie": None}, clusters={"mycluster": {"nodes": each}})
    without = [
        digest(restart=None),
        digest(restart={"bookie": {"after_s": 11}}),
        digest(clusters={"mycluster": {"nodes": {"bookie-eu-1": {"restart": False}}}}),
    ]
    assert len({digest(), *without}) == 4
    plain = load_topology("sync_active_passive", TOPOLOGIES)
    assert without[0] == compute_digest({"scenario": {}, "topology": plain.model_dump(mode="json")})


@pytest.mark.parametrize(
    ("overrides", "field", "problem", "remedy"),
    [
        ({"restart.booky": {"after_s": 1}}, "restart.booky", "no role of pulsar is called", "did you mean `bookie`?"),
        ({"restart.bookie.after_s": -1}, "restart.bookie.after_s", "is `-1`, which is too small", "write at least 0"),
        (
            {"restart.bookie.after_s": "soon"},
            "restart.bookie.after_s",
            "`soon` is no number",
            "write a number, as in 10",
        ),
        (
            {"restart.bookie.after_s": float("inf")},
            "restart.bookie.after_s",
            "`.inf` is no finite number",
            "write a finite number, as in 10",
        ),
        ({"restart.bookie.after": 1}, "restart.bookie.after", "unknown field", "did you mean `after_s`?"),
        ({"restart.bookie": 10}, "restart.bookie", "does not say after how many seconds", "give `{after_s: 10}`"),
        ({f"{NODES}.bookie-eu-1.restart": True}, f"{NODES}.bookie-eu-1.restart", "is `true`", "or `false`"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, overrides: dict[str, Any], field: str, problem: str, remedy: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, overrides)
    assert caught.value.field == field
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
    assert "\n" not in str(caught.value)
