"""The outcomes of a campaign's runs as one sentence and as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from brokerproof.experiment.numbers import NOTHING, format_value
from brokerproof.run.outcome import BriefOutcome, Outcome


def summarize_outcomes(outcomes: Sequence[BriefOutcome]) -> str:
    """Return one sentence: how many outcomes are expected, and the reason for each other verdict."""
    unmet = [outcome for outcome in outcomes if not outcome.met]
    parts = [f"{len(outcomes) - len(unmet)} of {len(outcomes)} scenarios have the expected outcome"]
    parts += [f"{outcome.scenario} is {outcome.verdict}: {outcome.why}" for outcome in unmet]
    return "; ".join(parts)


def tabulate_outcomes(outcomes: Sequence[BriefOutcome]) -> str:
    table = Table(box=None)
    for name in ("scenario", "verdict", "expected", "as expected", "seconds", "why"):
        table.add_column(name, no_wrap=True)
    for outcome in outcomes:
        whole = outcome if isinstance(outcome, Outcome) else None
        table.add_row(
            outcome.scenario,
            outcome.verdict,
            whole.expected.verdict if whole else NOTHING,
            "yes" if outcome.met else "NO",
            format_value(whole.seconds.total if whole else None),
            outcome.why,
        )
    console = Console(width=500, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
