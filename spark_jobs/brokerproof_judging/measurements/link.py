"""Measures the delay that the emulation of a link added to the delay that was set. Latencies include both delays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, Source

from brokerproof_judging.measurements.measured_values import MeasuredValue, make_measured_value
from brokerproof_judging.measurements.run_times import RunTimes
from brokerproof_judging.measurements.samples import Samples

_QUANTILES = {
    "link_added_p50_ms": (SampledMetric.ADDED_P50_MS, 0.5),
    "link_added_p99_ms": (SampledMetric.ADDED_P99_MS, 0.99),
}


def measure_link(run: Run, times: RunTimes, samples: Samples) -> Iterator[MeasuredValue]:
    """Yield the added delay in each direction (`REGION>OTHER`), for each phase and while a fault slowed clients down.

    Each sample has the median and the 99th percentile of the delays timed since the previous sample. The values are the
    median of the samples' medians and the 99th percentile of the samples' 99th percentiles, weighted by the samples'
    numbers of delays. So the first is near the true median, and the second usually not below the true 99th percentile.
    """
    ways = [f"{here}>{there}" for link in run.topology.links for here, there in (link.between, link.between[::-1])]
    for way in ways:
        source = Source.LINK.join_name(way)
        counts = dict(samples.series.get((source, SampledMetric.TIMED), ()))
        for metric, (of_sample, quantile) in _QUANTILES.items():
            values = samples.series.get((source, of_sample), ())
            for when, span in {**times.phases, **times.slowed}.items():
                timed = [(float(value), int(float(counts.get(at, 0)))) for at, value in values if span.holds(at)]
                passages = sum(weight for _, weight in timed)
                evidence = f"{passages} passages timed, in {len(timed)} samples" if passages else "nothing was timed"
                value = find_weighted_quantile(timed, quantile) if passages else None
                yield make_measured_value(metric, f"{way}/{when}", value, evidence)


def find_weighted_quantile(weighted: Iterable[tuple[float, int]], quantile: float) -> float:
    """Return the smallest value that, with all lower values, has at least the share `quantile` of the total weight.

    `weighted` has pairs of (value, weight). At least one weight is above 0.
    """
    values, weights = np.array([(value, weight) for value, weight in weighted if weight]).T
    return float(np.quantile(values, quantile, weights=weights, method="inverted_cdf"))
