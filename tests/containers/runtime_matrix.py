"""Runs the same scenarios on both runtimes and compares what they came to.

Usage: make matrix, or python tests/containers/runtime_matrix.py [SCENARIO ...]

Every run is typed as `brokerproof run`, one after the other, so that `brokerproof history SCENARIO --by runtime` shows
them side by side afterwards. The exit status is 1 where a scenario has two verdicts, or one that is not expected.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

SCENARIOS = ("sync_bookie_loss", "sync_datacenter_loss", "geo_link_cut")
RUNTIMES = ("process", "docker")
# What a scenario promises about the time that a fault costs, and the messages.
MEASURED = ("longest_ack_gap_s", "rto_s", "rereplicate_s", "rpo_messages")


def run(scenario: str, runtime: str) -> Mapping[str, Any]:
    """The outcome of one run, as the command line prints it for programs."""
    command = [sys.executable, "-m", "brokerproof", "run", scenario, "--runtime", runtime, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        outcome: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{scenario} on {runtime} ended with status {done.returncode} and no outcome") from None
    return outcome


def list_differences(outcomes: Sequence[Mapping[str, Any]]) -> list[str]:
    """What should not be: two verdicts, or an outcome that its scenario does not expect."""
    verdicts = {outcome["runtime"]: outcome["verdict"] for outcome in outcomes}
    problems = [f"{one['scenario']} on {one['runtime']}: {one['why']}" for one in outcomes if not one["met"]]
    if len(set(verdicts.values())) > 1:
        said = ", ".join(f"{verdict} on {runtime}" for runtime, verdict in verdicts.items())
        problems.insert(0, f"{outcomes[0]['scenario']} is {said}")
    return problems


def tabulate(outcomes: Sequence[Mapping[str, Any]]) -> Table:
    """One line a run and fault."""
    table = Table("scenario", "runtime", "verdict", "acked", "fault", *MEASURED)
    for one in outcomes:
        for fault, measured in one["recovery"].items():
            values = ("–" if measured.get(name) is None else f"{measured[name]:.2f}" for name in MEASURED)
            acked = f"{one['counts']['acked']:,}"
            table.add_row(one["scenario"], one["runtime"], one["verdict"], acked, fault, *values)
    return table


def main() -> int:
    """Run everything; the exit status."""
    parser = argparse.ArgumentParser(description="Run scenarios on both runtimes and compare them.")
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS)
    chosen = parser.parse_args().scenarios
    outcomes = {name: [run(name, runtime) for runtime in RUNTIMES] for name in chosen}
    # In a file nothing is cut off.
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(tabulate([one for both in outcomes.values() for one in both]))
    problems = [problem for both in outcomes.values() for problem in list_differences(both)]
    print("\n".join(problems) or "Every scenario has the same verdict on both, and the expected one.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
