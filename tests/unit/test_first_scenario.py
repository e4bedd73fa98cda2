"""The files of docs/first-scenario.md are accepted as they are written there; tests/flagship runs them."""

from __future__ import annotations

from pathlib import Path

from brokerproof.checks import load_scenario
from brokerproof.cli import build_parser
from brokerproof.run_warnings import list_warnings
from brokerproof.suites.suite_file import read_suite
from builders import ROOT
from tutorial import TypedCommand, WrittenFile, read_tutorial

STEPS = list(read_tutorial(ROOT / "docs" / "first-scenario.md"))


def test_its_files_are_accepted_without_a_warning(tmp_path: Path) -> None:
    files = {step.path: step.content for step in STEPS if isinstance(step, WrittenFile)}
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content, encoding="utf-8")
    mine = tmp_path / "resilience"
    scenario, topology = load_scenario(mine / "scenarios" / "broker_killed.yaml", mine / "topologies")
    assert list_warnings(scenario, topology) == []
    assert len(read_suite([str(mine / "expectations")], "house_rules").expectations) == 2


def test_its_commands_exist() -> None:
    prefix = ".venv/bin/brokerproof "
    commands = [step.command for step in STEPS if isinstance(step, TypedCommand) and step.command.startswith(prefix)]
    names = [build_parser().parse_args(command.removeprefix(prefix).split()).command for command in commands]
    assert names == ["scenarios", "run", "history", "explain"]
