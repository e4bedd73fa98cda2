"""The nodes that ended by themselves and their restarts, from the table `observations`."""

from __future__ import annotations

from collections import defaultdict

from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, Source, split_name
from brokerproof.run.outcome import NodeRestarts
from brokerproof.run.table_rows import iterate_rows


def collect_restarts(run: Run) -> tuple[NodeRestarts, ...]:
    """Return the nodes that ended by themselves, in the order of their first ends.

    If the table cannot be read, the result is empty, and judging reports the problem.
    """
    times: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    rows = iterate_rows(
        run,
        "observations",
        ("source", "metric", "at"),
        where="metric IN ($ended, $restarted)",
        values={"ended": str(SampledMetric.ENDED), "restarted": str(SampledMetric.RESTARTED)},
    )
    try:
        for row in rows if run.topology.restarted_after_s else ():
            kind, node = split_name(row["source"])
            if kind == Source.SERVICE_MANAGER:
                times[node][row["metric"]].append(row["at"])
    except RunError:
        return ()
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
