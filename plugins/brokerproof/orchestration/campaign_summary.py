"""The outcomes of a campaign's runs as one sentence and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def summarize_outcomes(outcomes: Sequence[dict[str, Any]]) -> str:
    """Return one sentence: how many outcomes are expected, and the reason for each other verdict."""
    unmet = [outcome for outcome in outcomes if not outcome["met"]]
    parts = [f"{len(outcomes) - len(unmet)} of {len(outcomes)} scenarios have the expected outcome"]
    parts += [f"{outcome['scenario']} is {outcome['verdict']}: {outcome['why']}" for outcome in unmet]
    return "; ".join(parts)


def tabulate_outcomes(outcomes: Sequence[dict[str, Any]]) -> str:
    table = Table(box=None)
    for name in ("scenario", "verdict", "expected", "as expected", "seconds", "why"):
        table.add_column(name, no_wrap=True)
    for outcome in outcomes:
        expected = outcome.get("expected") or {}
        total = (outcome.get("seconds") or {}).get("total")
        table.add_row(
            outcome["scenario"],
            outcome["verdict"],
            str(expected.get("verdict", "–")),
            "yes" if outcome["met"] else "NO",
            "–" if total is None else f"{total:.0f}",
            outcome["why"],
        )
    console = Console(width=500, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
