"""Makes the samples of a judgement from the rows that a standard expectation found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from brokerproof_judging.suites.tally import MOST_SAMPLES


def collect_samples(result: Mapping[str, Any], column: str) -> list[dict[str, Any]]:
    """Return up to `MOST_SAMPLES` rows of a result of the library, or values of `column` if it has no rows."""
    rows = result.get("unexpected_rows") or (result.get("details") or {}).get("unexpected_rows")
    if not rows:
        values = [*(result.get("partial_unexpected_list") or ()), *(result.get("partial_missing_list") or ())]
        rows = [{column or "value": value} for value in values]
    return [{str(name): make_plain(value) for name, value in row.items()} for row in rows[:MOST_SAMPLES]]


def make_plain(value: Any) -> Any:
    """Return a value of Spark as JSON can hold it: NaN and infinity as their names, a time as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return make_plain(float(value))
    if isinstance(value, Mapping):
        return {str(name): make_plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [make_plain(item) for item in value]
    return str(value)
