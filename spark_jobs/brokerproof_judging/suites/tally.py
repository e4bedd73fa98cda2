"""The result of one expectation: how many rows it evaluates, and how many of them are unexpected, undecided or legal.

This module must not import Great Expectations. verify.py imports that library in a thread, so that judging need not
wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass

# The highest number of counted rows that a result shows.
MOST_SAMPLES = 20


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The number of rows that one expectation evaluates, and how many are unexpected, undecided and legal.

    A row is *unexpected* if it breaks the expectation. It is *undecided* if one of its values is null, NaN or in doubt,
    or if its message is `unproven`. It is *legal* if the guarantee allows its anomaly, or if the scenario's own bound
    allows its value and the default bound does not.
    """

    rows: int
    unexpected: int
    undecided: int
    legal: int
