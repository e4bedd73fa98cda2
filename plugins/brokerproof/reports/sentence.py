"""The sentence that says what a run came to, wherever a person reads it outside the user interface."""

from __future__ import annotations

from brokerproof.run.outcome import Outcome


def describe_run(outcome: Outcome) -> str:
    """One sentence: whether the outcome is the expected one, and the reasons for the verdict."""
    return outcome.why
