"""The numbers of rows that one expectation comes to."""

from __future__ import annotations

from dataclasses import dataclass

# Rows that a result shows of those that it counts.
MOST_SAMPLES = 20


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Numbers of rows that one expectation is about, and that are unexpected, undecided and legal.

    A row is *unexpected* where it breaks the rule, *undecided* where a null or NaN stands where a value is needed, and
    *legal* where it is an anomaly that the guarantee allows, or a value that only the scenario's own bound allows.
    """

    rows: int
    unexpected: int
    undecided: int
    legal: int
