"""Samples of the link process's measurements.

Each call of `sample_links` begins a new interval of measurement, so only one process may call it.
"""

from __future__ import annotations

from brokerproof.network.link_process import LinkClient
from brokerproof.run.observations import Sample, SampledMetric, Source

_TRAFFIC = (
    SampledMetric.BYTES,
    SampledMetric.HELD_BYTES,
    SampledMetric.OPEN,
    SampledMetric.OPENED,
    SampledMetric.REFUSED,
)


def sample_links(network: LinkClient) -> list[Sample]:
    """Return samples of the traffic between regions, of the delay added by the link process, and of its CPU time.

    `added_…_ms` is the delay beyond the configured one. These metrics are left out if no chunk was timed since the
    last call.
    """
    metrics = network.metrics()
    values: dict[tuple[str, str], float] = {
        (Source.LINK, SampledMetric.CPU_S): metrics.cpu_s,
        (Source.LINK, SampledMetric.LONGEST_TURN_MS): metrics.longest_turn_ms,
    }
    for pair in metrics.pairs:
        source = Source.LINK.join_name(f"{pair.sender}>{pair.receiver}")
        values |= {(source, metric): getattr(pair, metric) for metric in _TRAFFIC}
        values[source, SampledMetric.TIMED] = pair.added.count
        if pair.added.count:
            values |= {
                (source, SampledMetric.ADDED_P50_MS): pair.added.p50_ms,
                (source, SampledMetric.ADDED_P99_MS): pair.added.p99_ms,
                (source, SampledMetric.ADDED_MAX_MS): pair.added.max_ms,
            }
    return [
        Sample(at=metrics.at, source=str(source), metric=str(metric), value=str(round(value, 3)))
        for (source, metric), value in values.items()
    ]
