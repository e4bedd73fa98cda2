"""`scenarios`: lists the scenarios with their warnings, and an error for each scenario or suite that is unusable."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from brokerproof.checks import list_suite_problems, load_scenario
from brokerproof.commands.output import ExitStatus, print_error, print_json, print_warning
from brokerproof.errors import InputError
from brokerproof.experiment.scenario import Scenario
from brokerproof.results.held_rates import list_rate_warnings, read_held_shares
from brokerproof.run_warnings import RunWarning, list_warnings
from brokerproof.settings import Settings
from brokerproof.suites.suite_names import list_suites


def execute(options: argparse.Namespace, settings: Settings) -> int:
    settings.check_directories()
    runs = read_held_shares(print_warning)
    rows: list[dict[str, Any]] = []
    errors = [
        *settings.scenarios.list_problems(),
        *settings.topologies.list_problems(),
        *list_suite_problems(settings.expectations),
    ]
    suites = list_suites(settings.expectations)
    for file in settings.scenario_files():
        try:
            scenario, topology = load_scenario(file, settings.topologies, suites=suites)
        except InputError as error:
            errors.append(error)
        else:
            warnings = [*list_warnings(scenario, topology), *list_rate_warnings(scenario, runs)]
            rows.append(_make_scenario_row(scenario, warnings))
    # Two topologies of the same name cause the same error for each scenario that uses them.
    sentences = list(dict.fromkeys(map(str, errors)))
    if options.json:
        print_json({"scenarios": rows, "errors": sentences})
    else:
        console = Console(highlight=False)
        for row in rows:
            # A name takes up to a third of a narrow terminal, so the title has a line of its own.
            console.print(f"[bold]{row['name']}[/bold]  {row['expected']}, {row['phases_s']:g} s under load")
            console.print(Padding(f"{row['title']} [dim]({row['topology']})[/dim]", (0, 0, 0, 4)))
            for warning in row["warnings"]:
                console.print(Padding(Text(f"⚠ {RunWarning(**warning)}", style="yellow"), (0, 0, 0, 4)))
    for sentence in sentences:
        print_error(sentence)
    return ExitStatus.UNUSABLE_INPUT if sentences else ExitStatus.OK


def _make_scenario_row(scenario: Scenario, warnings: Sequence[RunWarning]) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "title": scenario.title,
        "topology": scenario.topology,
        "guarantee": str(scenario.guarantee),
        "expected": str(scenario.expect.verdict),
        "phases_s": scenario.phases.total_s,
        "tags": scenario.tags,
        "warnings": [asdict(warning) for warning in warnings],
    }
