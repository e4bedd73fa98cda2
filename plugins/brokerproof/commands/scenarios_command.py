"""`scenarios`: lists the scenarios and checks every file."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console
from rich.padding import Padding

from brokerproof.checks import load_scenario
from brokerproof.commands.exit_status import ExitStatus
from brokerproof.commands.output import print_error, print_json
from brokerproof.errors import InputError
from brokerproof.experiment.scenario import Scenario
from brokerproof.settings import Settings


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Print each scenario, and an error for each file that cannot be used."""
    usable: list[Scenario] = []
    errors: list[InputError] = []
    for file in settings.scenario_files():
        try:
            usable.append(load_scenario(file, settings.topologies)[0])
        except InputError as error:
            errors.append(error)
    rows = [_make_scenario_row(scenario) for scenario in usable]
    if options.json:
        print_json({"scenarios": rows, "errors": [str(error) for error in errors]})
    else:
        console = Console(highlight=False)
        for row in rows:
            # A name takes up to a third of a narrow terminal, so the title has a line of its own.
            console.print(f"[bold]{row['name']}[/bold]  {row['expected']}, {row['phases_s']:g} s under load")
            console.print(Padding(f"{row['title']} [dim]({row['topology']})[/dim]", (0, 0, 0, 4)))
    for unusable in errors:
        print_error(str(unusable))
    return ExitStatus.UNUSABLE_INPUT if errors else ExitStatus.OK


def _make_scenario_row(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "title": scenario.title,
        "topology": scenario.topology,
        "guarantee": str(scenario.guarantee),
        "expected": str(scenario.expect.verdict),
        "phases_s": scenario.phases.total_s,
        "tags": scenario.tags,
    }
