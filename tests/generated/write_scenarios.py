"""Writes generated scenarios as files, for a campaign on a system that takes minutes a run.

Usage: python tests/generated/write_scenarios.py DIR --topology NAME [--topology NAME …] [--count 30] [--seed 0]
       [--pace brisk --settings early_detection]

With BROKERPROOF_SCENARIOS=DIR they are scenarios like all others: each is a DAG, and the DAG `campaign` runs many of
them in a row.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from brokerproof.settings import from_environment
from scenario_generator import PACES, generate_scenario


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, and print their names with how often an attempt at each was refused."""
    parser = argparse.ArgumentParser(description="Write scenarios that are generated from seeds.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--topology", action="append", required=True, help="one of them for each scenario")
    parser.add_argument("--count", type=int, default=30, help="so many seeds")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--pace", choices=PACES, default="slow", help="how long the phases are")
    parser.add_argument("--settings", help="a file of topologies/settings, without .yaml")
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    settings = from_environment()
    for seed in range(options.seed, options.seed + options.count):
        made = generate_scenario(
            seed,
            options.topology,
            settings.topologies,
            options.directory,
            pace=PACES[options.pace],
            written=settings.scenarios,
            settings=options.settings,
        )
        faults = ", ".join(fault["kind"] for fault in made.content.get("faults", [])) or "none"
        print(f"{made.name}: {made.content['topology']}, {faults}; {len(made.refusals)} attempts refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
