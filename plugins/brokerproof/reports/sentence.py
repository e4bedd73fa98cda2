"""Describes the outcome of a run in sentences, for every reader outside the user interface."""

from __future__ import annotations

from brokerproof.run.outcome import Outcome


def describe_run(outcome: Outcome) -> str:
    """Return whether the outcome is the expected one and the reasons for the verdict, and then the story of the run."""
    return f"{outcome.why} {outcome.story}".strip()
