"""The files of docs/first-scenario.md are accepted as they are written there; tests/e2e runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from brokerproof.checks import load_scenario
from brokerproof.cli import build_parser
from brokerproof.errors import InputError
from brokerproof.run_warnings import list_warnings
from brokerproof.suites.suite_file import read_suite
from builders import ROOT
from tutorial import TypedCommand, WrittenFile, read_tutorial

STEPS = list(read_tutorial(ROOT / "docs" / "first-scenario.md"))


def write_files(place: Path, *, first: bool) -> Path:
    """Write the page's files, each as the page has it first or last, and return their directory."""
    files = [step for step in STEPS if isinstance(step, WrittenFile)]
    for step in reversed(files) if first else files:
        (place / step.path).parent.mkdir(parents=True, exist_ok=True)
        (place / step.path).write_text(step.content, encoding="utf-8")
    return place / "resilience"


def test_its_files_are_accepted_without_a_warning(tmp_path: Path) -> None:
    mine = write_files(tmp_path, first=False)
    scenario, topology = load_scenario(mine / "scenarios" / "brokers_restarted.yaml", mine / "topologies")
    assert list_warnings(scenario, topology) == []
    assert len(read_suite([str(mine / "expectations")], "house_rules").expectations) == 1


def test_its_mistakes_are_refused(tmp_path: Path) -> None:
    mine = write_files(tmp_path, first=True)
    with pytest.raises(InputError, match="unknown field `rat`"):
        load_scenario(mine / "scenarios" / "brokers_restarted.yaml", mine / "topologies")
    assert len(read_suite([str(mine / "expectations")], "house_rules").expectations) == 2


def test_its_commands_exist() -> None:
    commands = [re.sub(r"\$\(.*?\)", "RUN", step.command) for step in STEPS if isinstance(step, TypedCommand)]
    typed = [re.search(r"bin/brokerproof ([^;|]*)", command) for command in commands]
    names = [build_parser().parse_args(found[1].partition(" 2>")[0].split()).command for found in typed if found]
    assert names == ["scenarios", "scenarios", "run", "history", "explain", "verify", "history"]
