"""The nodes that ended by themselves and their restarts, from the table `observations`."""

from __future__ import annotations

from collections import defaultdict

import fsspec
import pyarrow as pa

from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, Source, split_name
from brokerproof.run.outcome import NodeRestarts
from brokerproof.run.tables import OBSERVATIONS


def collect_restarts(run: Run) -> tuple[NodeRestarts, ...]:
    """Return the nodes that ended by themselves, in the order of their first ends.

    If the table cannot be read, the result is empty, and judging reports the problem.
    """
    times: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for source, metric, at in _read_events(run) if run.topology.restarted_after_s else ():
        times[split_name(source)[1]][metric].append(at)
    found = [
        NodeRestarts(
            node=node,
            ended=len(by_metric[SampledMetric.ENDED]),
            restarted=len(by_metric[SampledMetric.RESTARTED]),
            first_ended_at=min(by_metric[SampledMetric.ENDED]),
            first_restarted_at=min(by_metric[SampledMetric.RESTARTED], default=None),
        )
        for node, by_metric in times.items()
        if by_metric[SampledMetric.ENDED]
    ]
    return tuple(sorted(found, key=lambda node: node.first_ended_at))


def _read_events(run: Run) -> list[tuple[str, str, int]]:
    """Return (source, metric, microseconds) for each end and each restart that a service manager saw."""
    # This imports pandas, which takes a second, and Airflow imports this module with every DAG file.
    import pyarrow.dataset as ds

    filesystem, root = fsspec.url_to_fs(run.table("observations"))
    wanted = ds.field("metric").isin([str(SampledMetric.ENDED), str(SampledMetric.RESTARTED)])
    try:
        if not filesystem.exists(root):
            return []
        table = ds.dataset(root, schema=OBSERVATIONS, filesystem=filesystem, format="parquet").to_table(
            columns=["source", "metric", "at"], filter=wanted
        )
    except (OSError, pa.ArrowException):
        return []
    rows = zip(
        table["source"].to_pylist(), table["metric"].to_pylist(), table["at"].cast(pa.int64()).to_pylist(), strict=True
    )
    return [row for row in rows if split_name(row[0])[0] == Source.SERVICE_MANAGER]
