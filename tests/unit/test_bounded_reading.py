"""A file that is a bomb is refused in one sentence before its content is built, and a large useful file is read."""

from __future__ import annotations

import ast
import itertools
import os
import time
from pathlib import Path
from typing import Any

import pytest
from brokerproof.bounded_reading import (
    DEEPEST,
    MOST_ALIASES,
    MOST_JSON_BYTES,
    MOST_JSON_VALUES,
    MOST_YAML_BYTES,
    MOST_YAML_VALUES,
    ContentError,
    load_json,
    load_yaml,
    read_bytes,
)
from brokerproof.checks import load_scenario, load_topology
from brokerproof.cli import main
from brokerproof.errors import InputError
from builders import TOPOLOGIES

ROOT = Path(__file__).resolve().parents[2]
GOOD = """
title: t
description: d
topology: sync_active_passive
workload: {namespace: mytenant/eu}
"""


def make_alias_bomb(levels: int = 9, repeats: int = 9) -> str:
    """Each level repeats the level before it, so 400 bytes become 9 ** 9 values."""
    names = "abcdefghijklmnopqrstuvwxyz"[:levels]
    lines = [f"{names[0]}: &{names[0]} [{', '.join(['lol'] * repeats)}]"]
    lines += [f"{name}: &{name} [{','.join([f'*{before}'] * repeats)}]" for before, name in itertools.pairwise(names)]
    return "\n".join(lines)


YAML_BOMBS = {
    "aliases that repeat aliases": (make_alias_bomb(), "50,000 values, with those that its aliases repeat"),
    "merge keys that repeat merge keys": (
        "a: &a {x: 1, y: 2}\n"
        + "\n".join(
            f"{name}: &{name} {{<<: [{','.join([f'*{before}'] * 30)}]}}"
            for before, name in zip("abcdef", "bcdefg", strict=True)
        ),
        "50,000 values, with those that its aliases repeat",
    ),
    "aliases of one value": (f"a: &a x\nb: [{'*a,' * (MOST_ALIASES + 1)}]", "more than 2,000 aliases"),
    "an alias inside its value": ("a: &a [1, *a]", "`*a` repeats a value that contains it"),
    "aliases inside each other": (
        "a0: &a0 [x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 1500)),
        "nested too deep",
    ),
    "lists in a line": ("a: " + "[" * 500_000, "nested too deep"),
    "lists in a column": ("- " * 400_000, "nested too deep"),
    "mappings in a column": ("? " * 400_000, "nested too deep"),
    "many values": (f"a: [{'x,' * (MOST_YAML_VALUES + 1)}]", "more than 50,000 values"),
    "many bytes": ("#" * (MOST_YAML_BYTES + 1), "more than 1,048,576 bytes"),
    "a number of base 60": ("a: 1" + ":1" * 400_000, "a number has 800,001 characters"),
    "a number of base 60 with a tag": ('a: !!int "1' + ":1" * 400_000 + '"', "a number has 800,001 characters"),
    "a number of base 60 that no float holds": ("a: 1" + ":1" * 2_000 + ".5", "cannot be read"),
    "a mistake at the end": ("a: [" + "[1,2,3,4,5,6,7,8,9,0],\n" * 4_000 + "}", "not valid YAML"),
    "a tag before another value": ("a: !!timestamp tomorrow", "cannot be read"),
    "a tag before nothing": ('a: !!int ""', "cannot be read"),
    "half of a character": ('a: "\\ud800"', "not valid YAML"),
}


@pytest.mark.parametrize(("text", "problem"), YAML_BOMBS.values(), ids=YAML_BOMBS)
def test_a_yaml_bomb_is_refused_in_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(text, encoding="utf-8")
    started = time.process_time()
    with pytest.raises(InputError) as caught:
        load_scenario(file, TOPOLOGIES)
    assert time.process_time() - started < 2
    assert problem in str(caught.value)
    assert str(file) in str(caught.value)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_the_refusal_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(ContentError) as caught:
        load_yaml(make_alias_bomb())
    assert caught.value.field == "line 5"


def test_a_setting_of_the_command_line_may_be_no_bomb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path))
    assert main(["run", "sync_nominal", "--set", f"workload={make_alias_bomb()}"]) == 3
    assert "its aliases repeat" in capsys.readouterr().err


def test_a_file_with_a_few_aliases_and_merge_keys_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    region = "&eu {region: eu}"
    faults = f"faults:\n- {{name: a, kind: kill, targets: {region}}}\n- {{name: b, kind: pause, targets: *eu}}\n"
    merged = "- {<<: {name: c, kind: kill}, name: d, targets: *eu}\n"
    file.write_text(GOOD + faults + merged)
    scenario, _ = load_scenario(file, TOPOLOGIES)
    assert [fault.targets.region for fault in scenario.faults] == ["eu"] * 3


@pytest.mark.parametrize("with_aliases", [False, True], ids=["written out", "with an alias for each node"])
def test_a_topology_of_500_nodes_is_read(tmp_path: Path, with_aliases: bool) -> None:
    node = "{<<: *broker, rack: rack-%d}" if with_aliases else "{role: broker, region: eu, rack: rack-%d}"
    nodes = "".join(f"      broker-eu-{number}: {node % (number % 20)}\n" for number in range(10, 510))
    first = "      broker-eu-9: &broker {role: broker, region: eu}\n"
    (tmp_path / "base.yaml").write_text((TOPOLOGIES / "sync_active_passive.yaml").read_text())
    (tmp_path / "large.yaml").write_text(
        f"title: large\ndescription: d\nextends: base\nclusters:\n  mycluster:\n    nodes:\n{first}{nodes}"
    )
    topology = load_topology("large", tmp_path)
    assert len(topology.nodes) > 500
    assert topology.nodes["broker-eu-509"].rack == "rack-9"


def test_every_file_that_is_shipped_is_far_below_the_limits() -> None:
    files = [*ROOT.glob("dags/scenarios/*.yaml"), *ROOT.glob("topologies/**/*.yaml"), *ROOT.glob("expectations/*.json")]
    assert max(file.stat().st_size for file in files) * 100 < MOST_YAML_BYTES


def test_only_one_module_reads_yaml() -> None:
    loaders = {"load", "load_all", "safe_load", "safe_load_all", "full_load", "unsafe_load", "compose", "parse"}
    files = [file for name in ("plugins", "spark_jobs", "dags", "tools") for file in (ROOT / name).rglob("*.py")]
    found = {
        file.name
        for file in files
        if "yaml" in (text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and node.attr in loaders
        and isinstance(node.value, ast.Name)
        and node.value.id == "yaml"
    }
    assert found == {"bounded_reading.py"}


JSON_BOMBS = {
    "lists": ("[" * 500_000, "nested too deep"),
    "objects": ('{"a":' * 500_000, "nested too deep"),
    "a little too deep": ("[" * (DEEPEST + 2) + "]" * (DEEPEST + 2), "nested too deep"),
    "many values": (f"[{'{},' * MOST_JSON_VALUES}0]", "more than 500,000 values"),
    "a long number": ("9" * 1_000_000, "cannot be read"),
    "a name twice": ('{"read_to_end": false, "x": 1, "read_to_end": true}', "an object has `read_to_end` twice"),
    "half of a character": ('["\\uD800"]', "half of a character"),
    "nothing": ("", "not valid JSON"),
    "half of an object": ('{"a": [1, 2', "not valid JSON"),
}


@pytest.mark.parametrize(("text", "problem"), JSON_BOMBS.values(), ids=JSON_BOMBS)
def test_a_json_bomb_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ContentError, match=problem):
        load_json(text)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{"a": [1, -2.5e3, null, true, "ä😀"]}', {"a": [1, -2500.0, None, True, "ä😀"]}),
        ('["\\ud83d\\ude00"]', ["😀"]),
        ("[" * DEEPEST + "]" * DEEPEST, None),
        ("[" + "0," * (MOST_JSON_VALUES - 2) + "0]", None),
    ],
    ids=["plain", "a pair of halves", "deep", "large"],
)
def test_json_within_the_limits_is_read(text: str, content: Any) -> None:
    loaded = load_json(text)
    assert content is None or loaded == content


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


KINDS = {
    "a directory": (Path.mkdir, "is a directory and no regular file"),
    "a named pipe": (make_pipe, "is a named pipe and no regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "is a device and no regular file"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read"),
    "too many bytes": (lambda path: path.write_bytes(b" " * (MOST_JSON_BYTES + 1)), "more than 16,777,216 bytes"),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("make", "problem"), KINDS.values(), ids=KINDS)
def test_something_else_than_a_file_of_usual_size_is_refused(tmp_path: Path, make: Any, problem: str) -> None:
    path = tmp_path / "x.yaml"
    make(path)
    with pytest.raises(ContentError, match=problem):
        read_bytes(str(path), MOST_JSON_BYTES)
    with pytest.raises(InputError, match=r"x\.yaml"):
        load_scenario(path, TOPOLOGIES)


def test_a_file_that_is_missing_and_a_link_to_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_bytes(str(tmp_path / "x"), 10)
    (tmp_path / "x").write_bytes(b"1234567890")
    (tmp_path / "y").symlink_to(tmp_path / "x")
    assert read_bytes(tmp_path / "y", 10) == b"1234567890"


def test_of_thousands_of_mistakes_the_first_hundred_are_listed(tmp_path: Path) -> None:
    links = "\n".join(["- {between: [eu, us]}"] * 5_000)
    (tmp_path / "base.yaml").write_text((TOPOLOGIES / "sync_active_passive.yaml").read_text())
    (tmp_path / "many.yaml").write_text(f"title: t\ndescription: d\nextends: base\nlinks:\n{links}\n")
    started = time.process_time()
    with pytest.raises(InputError) as caught:
        load_topology("many", tmp_path)
    assert time.process_time() - started < 2
    lines = str(caught.value).splitlines()
    assert len(lines) == 101
    assert "has 4,899 more mistakes (mend the first ones)" in lines[-1]
