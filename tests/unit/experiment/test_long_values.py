"""A message repeats only the beginning of a value that is too long to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from brokerproof.checks import load_scenario, load_topology
from brokerproof.cli import main
from brokerproof.errors import InputError
from brokerproof.experiment.model_mistakes import suggest_name
from brokerproof.settings import from_environment
from builders import TOPOLOGIES

LONG = "v" * 5000
WORDS = "so many words " * 357


@pytest.mark.parametrize(
    "settings",
    [
        {"workload.rate": LONG},
        {"workload.rate": WORDS},
        {"workload.rate": [LONG, LONG]},
        {"workload.subscriptions": {LONG: WORDS}},
        {f"workload.{LONG}": 1},
        {WORDS: 1},
        {"title" + ".x" * 2500: 1},
        {f"title.{LONG}": 1},
        {f"tags.{LONG}": 1},
        {f"faults.{'9' * 5000}.name": 1},
        {"name": LONG},
        {"topology": LONG},
        {"topology": WORDS},
        {"version": LONG},
        {"runtime": WORDS},
        {"workload.namespace": LONG},
        {"workload.producers": 10**4000},
        {"workload.produce_on": [LONG]},
        {"faults.0.kind": LONG},
        {"faults.0.name": WORDS},
        {"faults.0.targets.region": LONG},
        {"faults.0.when": {"rereplicated": WORDS}},
        {"bounds": {LONG: {"max": 1}}},
        {"owner.steady": WORDS},
        {"overrides": {LONG: 1}},
        {"overrides": {"system": LONG}},
        {"overrides": {f"clusters.mycluster.nodes.{LONG}": {"role": WORDS}}},
        # The nodes that there are, one of them with a long name, are the remedy.
        {
            "overrides": {f"clusters.mycluster.nodes.{LONG}": {"role": "broker", "region": "eu"}},
            "faults.0.targets": {"nodes": ["?"]},
        },
        {"overrides": {f"clusters.mycluster.namespaces.{LONG}": {}}},
    ],
    ids=lambda settings: ",".join(settings)[:40],
)
def test_a_value_of_5000_characters_is_not_repeated_whole(tmp_path: Path, settings: dict[str, Any]) -> None:
    file = tmp_path / "experiment.yaml"
    faults = [{"name": "gone", "kind": "kill", "targets": {"region": "eu"}}]
    content = {"title": "t", "description": "d", "topology": "sync_active_passive", "faults": faults}
    file.write_text(yaml.safe_dump({**content, "workload": {"namespace": "mytenant/eu"}}), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_scenario(file, TOPOLOGIES, settings)
    assert len(str(caught.value)) < 900, str(caught.value)[:1000]
    assert "…" in str(caught.value)


def test_a_remedy_lists_all_of_few_names_and_the_most_similar_of_many() -> None:
    assert suggest_name("zzz", ["a", "b"]) == "one of: a, b"
    assert suggest_name("zzz", []) == "one of: nothing is defined"
    many = [f"name_{number}" for number in range(40)]
    assert suggest_name("name_3x", many) == "did you mean `name_3`?"
    remedy = suggest_name("9", many)
    listed = remedy.removeprefix("one of: ").split(", ")
    assert listed[-1] == "and 10 more"
    assert len(listed) == 31
    assert {"name_9", "name_19", "name_29", "name_39"} <= set(listed)


@pytest.mark.parametrize("text", [f"a: *{LONG}", f"a: !{LONG} 1", f"rate: {'9' * 5000}", f'a: "{LONG}'])
def test_a_file_that_cannot_be_read_is_one_short_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_scenario(file, TOPOLOGIES)
    assert len(str(caught.value)) < 500
    assert str(file) in str(caught.value)


def test_a_file_that_is_nested_too_deep_is_refused_and_ends_no_process(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    # libyaml's own loader overflows the stack of the process with as many.
    file.write_text("- " * 100_000, encoding="utf-8")
    with pytest.raises(InputError, match="nested too deep"):
        load_scenario(file, TOPOLOGIES)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_bytes(b"title: \xff")
    with pytest.raises(InputError, match="cannot be read"):
        load_scenario(file, TOPOLOGIES)


def test_a_long_name_of_a_topology_is_refused() -> None:
    with pytest.raises(InputError, match="no topology is called"):
        load_topology(LONG, TOPOLOGIES)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", LONG],
        ["run", WORDS],
        ["run", "sync_nominal", "--set", LONG],
        ["run", "sync_nominal", "--set", f"workload.rate={LONG}"],
        ["run", "sync_nominal", "--set", f"workload.rate={WORDS}"],
        ["run", "sync_nominal", "--set", f"workload.rate={'9' * 5000}"],
        ["run", "sync_nominal", "--set", f"workload.rate=['{WORDS}"],
        ["run", "sync_nominal", "--runtime", LONG],
        ["history", LONG],
        ["badge", LONG],
        ["verify", LONG],
        ["verify", f"{'d' * 200}/" * 25],
    ],
    ids=lambda arguments: " ".join(arguments)[:50],
)
def test_the_command_line_refuses_it_in_a_short_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path))
    assert main(arguments) == 3
    printed = capsys.readouterr().err
    assert len(printed) < 3000
    assert "Traceback" not in printed


@pytest.mark.parametrize("variable", ["HOME", "VAR", "SCENARIOS", "CACHE", "LEASES", "MAX_CLUSTERS", "SYSTEMS"])
def test_an_environment_variable_is_refused_in_a_short_sentence(variable: str) -> None:
    with pytest.raises(InputError) as caught:
        from_environment({f"BROKERPROOF_{variable}": LONG})
    assert f"BROKERPROOF_{variable}" in str(caught.value)
    assert len(str(caught.value)) < 500
