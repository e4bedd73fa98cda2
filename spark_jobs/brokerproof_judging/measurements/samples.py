"""The samples of the table `observations` that are measured from: few, at the rate of the clock, not of messages."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_METRICS = (
    "metric IN ('owner', 'alive_brokers', 'alive_bookies', 'under_replicated_ledgers', 'bytes_read',"
    " 'timed', 'added_p50_ms', 'added_p99_ms')"
)

Series = list[tuple[int, str]]


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Values in order of time, by source and metric, and the times of all samples by kind of source."""

    series: dict[tuple[str, str], Series] = field(default_factory=dict)
    times: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, observations: DataFrame) -> Samples:
        """From the table `observations`."""
        value = F.when(F.expr(f"{_METRICS} OR metric RLIKE '^(replication_)?backlog:'"), F.col("value")).alias("value")
        series: dict[tuple[str, str], Series] = defaultdict(list)
        times: dict[str, set[int]] = defaultdict(set)
        for row in observations.select(F.unix_micros("at").alias("at"), "source", "metric", value).collect():
            times[row.source.partition(":")[0]].add(row.at)
            if row.value is not None:
                series[row.source, row.metric].append((row.at, row.value))
        return cls(
            series={name: sorted(values) for name, values in series.items()},
            times={name: sorted(values) for name, values in times.items()},
        )

    def of_metric(self, kind: str, metric: str) -> Iterator[tuple[str, Series]]:
        """(name, values) of every source of a kind that has the metric."""
        for (source, known), values in self.series.items():
            if known == metric and source.startswith(f"{kind}:"):
                yield source.removeprefix(f"{kind}:"), values


def names(value: str) -> list[str]:
    """The node names in a sample that lists them."""
    return [str(name) for name in json.loads(value)]
