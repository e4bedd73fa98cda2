"""The result of one expectation: how many rows it evaluates, how many are unexpected, undecided or legal, and samples.

This module must not import Great Expectations. verify.py imports that library in a thread, so that judging need not
wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The highest number of counted rows that a result shows.
MOST_SAMPLES = 20
_FIRST_COLUMNS = ("producer", "seq")


def order_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a table with its message, `producer` and `seq`, before the other columns."""
    return {name: row[name] for name in _FIRST_COLUMNS if name in row} | dict(row)


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
