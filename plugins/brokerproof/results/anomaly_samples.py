"""Samples of a run's anomalies: a few of every kind, without reading the whole table."""

from __future__ import annotations

from typing import Any

import fsspec
import pyarrow.dataset as ds

from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.counts import Counts
from brokerproof.run.directory import Run
from brokerproof.run.tables import ANOMALIES

# The table has no order, so without this limit the search for a rare kind would read all of it.
_ROWS_SEARCHED = 2_000_000


def read_anomaly_samples(
    run: Run, counts: Counts, limit: int, *, search_rows: int = _ROWS_SEARCHED
) -> list[dict[str, Any]]:
    """Return at most `limit` rows of the run's table `anomalies`, illegal kinds first.

    The kinds share the limit evenly. The search for one kind ends after `search_rows` rows.

    Raises OSError or ArrowException if the table is damaged.
    """
    kinds = [
        (anomaly, legal) for legal in (False, True) for anomaly in Anomaly if _count_anomalies(counts, anomaly, legal)
    ]
    filesystem, root = fsspec.url_to_fs(run.table("anomalies"))
    if not kinds or not filesystem.exists(root):
        return []
    table = ds.dataset(root, schema=ANOMALIES, filesystem=filesystem, format="parquet", partitioning="hive")
    samples: list[dict[str, Any]] = []
    for index, (anomaly, legal) in enumerate(kinds):
        # If a kind has fewer rows than its share, the later kinds get the rest.
        share = -(-(limit - len(samples)) // (len(kinds) - index))
        kind = (ds.field("anomaly") == str(anomaly)) & (ds.field("legal") == legal)
        samples += _read_first(table, kind, share, search_rows)
    return samples


def _read_first(table: ds.Dataset, kind: ds.Expression, count: int, search_rows: int) -> list[dict[str, Any]]:
    """Return the first `count` rows of a kind. Row groups whose statistics exclude the kind are not opened."""
    rows: list[dict[str, Any]] = []
    searched = 0
    for file in table.get_fragments(filter=kind):
        for group in file.split_by_row_group(filter=kind, schema=table.schema):
            if len(rows) >= count or searched >= search_rows:
                return rows
            scanner = group.scanner(schema=table.schema, filter=kind, batch_size=10_000, batch_readahead=1)
            rows += scanner.head(count - len(rows)).to_pylist()
            searched += sum(part.num_rows for part in group.row_groups)
    return rows


def _count_anomalies(counts: Counts, anomaly: Anomaly, legal: bool) -> int:
    return (counts.legal if legal else counts.illegal).get(anomaly, 0)
