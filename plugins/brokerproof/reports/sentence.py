"""The sentences that say what a run came to, wherever a person reads them outside the user interface."""

from __future__ import annotations

from brokerproof.run.outcome import Outcome


def describe_run(outcome: Outcome) -> str:
    """Whether the outcome is the expected one with the reasons for the verdict, and then what happened."""
    return f"{outcome.why} {outcome.story}".strip()
