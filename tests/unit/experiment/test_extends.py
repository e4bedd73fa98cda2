"""A topology extends another one, and settings extend a file of settings: what the result is, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from brokerproof.checks import load_scenario, load_topology
from brokerproof.directories import make_directories
from brokerproof.errors import InputError
from brokerproof.experiment.layered_file import merge_mappings, read_layered_file
from brokerproof.experiment.topology import Topology
from builders import ROOT, TOPOLOGIES


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A user's own topologies, with `base` and the settings `patient` among them."""
    nodes = {
        "metadata-1": {"role": "metadata", "region": "witness"},
        **{f"bookie-eu-{n}": {"role": "bookie", "region": "eu"} for n in (1, 2, 3)},
        "broker-eu-1": {"role": "broker", "region": "eu"},
        "broker-eu-2": {"role": "broker", "region": "eu"},
    }
    namespaces = {"mytenant/eu": {"persistence": {"ensemble": 3}}}
    write(
        tmp_path / "base.yaml",
        title="base",
        description="d",
        settings={"broker": {"a": 1, "b": 2}},
        clusters={"one": {"nodes": nodes, "placement": {"local_reads": False}, "namespaces": namespaces}},
    )
    write(tmp_path / "settings" / "patient.yaml", broker={"patience": 5, "zeal": 0})
    return tmp_path


def write(path: Path, **content: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def load_extending(directory: Path, content: dict[str, Any], overrides: dict[str, Any] | None = None) -> Topology:
    """The topology `mine`, which extends `base` and says `content`."""
    write(directory / "mine.yaml", **{"title": "mine", "description": "d", "extends": "base", **content})
    return load_topology("mine", directory, overrides)


def load_refused(directory: Path, content: dict[str, Any], overrides: dict[str, Any] | None = None) -> InputError:
    with pytest.raises(InputError) as caught:
        load_extending(directory, content, overrides)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    return caught.value


def nodes_of(content: dict[str, Any]) -> dict[str, Any]:
    return {"clusters": {"one": {"nodes": content}}}


def test_only_the_difference_is_different(directory: Path) -> None:
    base = load_topology("base", directory)
    mine = load_extending(directory, nodes_of({"broker-eu-2": {"standby": True}}))
    assert mine.nodes["broker-eu-2"].standby
    as_in_base = mine.model_dump(mode="json")
    as_in_base["clusters"]["one"]["nodes"]["broker-eu-2"]["standby"] = False
    assert as_in_base == {**base.model_dump(mode="json"), "title": "mine"}


def test_nodes_keep_their_order_and_with_it_their_addresses(directory: Path) -> None:
    mine = load_extending(
        directory, nodes_of({"broker-eu-3": {"role": "broker", "region": "eu"}, "bookie-eu-1": {"rack": "rack-7"}})
    )
    assert list(mine.nodes) == [*load_topology("base", directory).nodes, "broker-eu-3"]


@pytest.mark.parametrize(
    ("below", "above", "merged"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3, "d": 4}}, {"a": {"b": 1, "c": 3, "d": 4}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": 5}, {"a": 5}),
        ({"a": 5}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}),
        # There is nothing to take away: the field itself is null.
        ({}, {"a": None, "b": {"c": None}}, {"a": None, "b": {"c": None}}),
    ],
    ids=str,
)
def test_mappings_are_merged_and_all_else_is_replaced(
    below: dict[str, Any], above: dict[str, Any], merged: dict[str, Any]
) -> None:
    assert merge_mappings(below, above) == merged


def test_null_takes_a_node_away(directory: Path) -> None:
    mine = load_extending(directory, nodes_of({"broker-eu-2": None}))
    assert "broker-eu-2" not in mine.nodes


def test_a_chain_of_files_is_read_to_its_end(directory: Path) -> None:
    write(directory / "middle.yaml", title="m", description="d", extends="base", **nodes_of({"broker-eu-2": None}))
    mine = load_extending(directory, {"extends": "middle", "clusters": {"one": {"placement": {"local_reads": True}}}})
    assert "broker-eu-2" not in mine.nodes
    assert mine.clusters["one"].policies["placement"]["local_reads"]
    assert mine.settings["broker"] == {"a": 1, "b": 2}


def test_overrides_of_a_scenario_come_after(directory: Path) -> None:
    mine = load_extending(directory, {"settings": {"broker": {"b": 3}}}, {"settings.broker.b": 4})
    assert mine.settings["broker"] == {"a": 1, "b": 4}  # type: ignore[index]


@pytest.mark.parametrize("field", ["title", "description"])
def test_what_describes_a_file_is_its_own(directory: Path, field: str) -> None:
    write(directory / "mine.yaml", **{"title": "mine", "description": "d", "extends": "base", field: None})
    content = yaml.safe_load((directory / "mine.yaml").read_text())
    del content[field]
    write(directory / "mine.yaml", **content)
    with pytest.raises(InputError) as caught:
        load_topology("mine", directory)
    assert (Path(caught.value.file).name, caught.value.field) == ("mine.yaml", field)
    assert caught.value.problem == "is missing"


def test_a_file_that_is_not_there_is_refused_with_the_nearest_name(directory: Path) -> None:
    error = load_refused(directory, {"extends": "bse"})
    assert (Path(error.file).name, error.field) == ("mine.yaml", "extends")
    assert error.remedy == "did you mean `base`?"


@pytest.mark.parametrize("name", ["../base", "base.yaml", ["base"], {"a": 1}, 5, "b" * 5000], ids=lambda v: str(v)[:9])
def test_only_a_name_of_the_same_directory_can_be_extended(directory: Path, name: Any) -> None:
    error = load_refused(directory, {"extends": name})
    assert error.field == "extends"
    assert len(str(error)) < 500


def test_a_circle_is_refused_by_the_file_that_closes_it(directory: Path) -> None:
    write(directory / "middle.yaml", title="m", description="d", extends="mine")
    error = load_refused(directory, {"extends": "middle"})
    assert (Path(error.file).name, error.field) == ("middle.yaml", "extends")
    assert "mine → middle → mine" in error.problem


@pytest.mark.parametrize(
    ("content", "field", "file"),
    [
        (nodes_of({"broker-eu-2": {"region": "EU"}}), "clusters.one.nodes.broker-eu-2.region", "mine.yaml"),
        # The two say it together; it is named where the difference is.
        ({"clusters": {"one": {"placement": {"bookies": "pinned"}}}}, "clusters.one.placement.pinned_to", "mine.yaml"),
        (nodes_of({"bookie-eu-3": None}), "clusters.one.namespaces.mytenant/eu.persistence.ensemble", "base.yaml"),
    ],
    ids=["own", "both", "extended"],
)
def test_a_mistake_is_named_in_the_file_that_states_it(
    directory: Path, content: dict[str, Any], field: str, file: str
) -> None:
    error = load_refused(directory, content)
    assert (error.field, Path(error.file).name) == (field, file)


def test_a_field_is_sought_through_lists(directory: Path) -> None:
    write(directory / "a.yaml", links=[{"between": ["eu", "us"]}])
    write(directory / "b.yaml", extends="a", clusters={})
    assert (
        read_layered_file(directory / "b.yaml", make_directories(directory)).file_of("links.0.between").name == "a.yaml"
    )


def test_settings_of_a_topology_extend_a_file_of_settings(directory: Path) -> None:
    mine = load_extending(directory, {"settings": {"extends": "patient", "broker": {"patience": 7, "zeal": None}}})
    assert mine.settings["broker"] == {"a": 1, "b": 2, "patience": 7}  # type: ignore[index]


def scenario_with(directory: Path, settings: dict[str, Any]) -> Path:
    file = directory / "experiment.yaml"
    write(file, title="t", description="d", topology="base", settings=settings, workload={"namespace": "mytenant/eu"})
    file.rename(directory / "settings" / "experiment.yaml")
    return directory / "settings" / "experiment.yaml"


def test_settings_of_a_scenario_extend_a_file_of_settings(directory: Path) -> None:
    file = scenario_with(directory, {"extends": "patient", "broker": {"b": 9}})
    scenario, topology = load_scenario(file, directory, {"settings.broker.zeal": 1})
    assert scenario.settings == {"broker": {"patience": 5, "zeal": 1, "b": 9}}
    assert topology.settings["broker"] == {"a": 1, "b": 9, "patience": 5, "zeal": 1}  # type: ignore[index]


def test_settings_that_are_not_there_are_refused_with_the_nearest_name(directory: Path) -> None:
    file = scenario_with(directory, {"extends": "patent"})
    with pytest.raises(InputError) as caught:
        load_scenario(file, directory)
    assert (caught.value.file, caught.value.field) == (str(file), "settings.extends")
    assert caught.value.remedy == "did you mean `patient`?"


@pytest.mark.parametrize(
    ("extending", "extended"),
    [
        ("active_active_cold", "active_active"),
        ("geo_replication_wan", "geo_replication"),
        ("sync_active_passive_cold", "sync_active_passive"),
        ("sync_active_passive_managed", "sync_active_passive"),
        ("sync_active_passive_wan", "sync_active_passive"),
    ],
)
def test_a_topology_of_the_project_says_only_how_it_differs(extending: str, extended: str) -> None:
    directory = TOPOLOGIES
    layered = read_layered_file(directory / f"{extending}.yaml", make_directories(directory))
    assert [layer.path.stem for layer in layered.layers] == [extending, extended]
    assert list(load_topology(extending, directory).nodes) == list(load_topology(extended, directory).nodes)


def test_the_example_of_the_guide_can_be_loaded(tmp_path: Path) -> None:
    guide = (ROOT / "docs/write-a-scenario.md").read_text(encoding="utf-8")
    example = next(
        block for block in re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL) if "broker-us-2: null" in block
    )
    for name, text in {"example": example, "base": (ROOT / "topologies/sync_active_passive.yaml").read_text()}.items():
        (tmp_path / f"{name}.yaml").write_text(text.replace("extends: sync_active_passive", "extends: base"))
    assert "broker-us-2" not in load_topology("example", tmp_path).nodes
