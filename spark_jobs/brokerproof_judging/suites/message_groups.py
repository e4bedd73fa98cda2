"""Groups the rows of `messages` by their anomalies, because the expectations ask for nothing else.

A run has few groups, even if it has many messages. So Great Expectations evaluates them in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pandas as pd
from brokerproof.run.directory import Run

from brokerproof_judging.database import define_values, select_rows
from brokerproof_judging.run_database import open_run_database, read_script
from brokerproof_judging.suites.tally import MOST_SAMPLES

_COLUMNS = ("anomalies", "illegal", "rows", "samples")


def read_message_groups(run: Run) -> pd.DataFrame:
    """Return a row for each different pair of `anomalies` and `illegal` in `messages`.

    `rows` is the number of messages and places with this pair. `samples` has the first `MOST_SAMPLES` of them, by
    cluster, subscription, producer and seq; none if both lists are empty.
    """
    with open_run_database(run, ("messages",)) as connection:
        define_values(connection, {"most_samples": MOST_SAMPLES})
        groups = select_rows(connection, read_script("suites", "message_groups"))
    rows = [{**group, "samples": [_sort_sample(each) for each in group["samples"] or ()]} for group in groups]
    return pd.DataFrame(rows, columns=_COLUMNS, dtype=object)


def _sort_sample(sample: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return a sample as the key of its order, and its row. Times in the row are in UTC and do not say so."""
    *key, row = sample.values()
    return key, {
        name: value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) else value
        for name, value in row.items()
    }
