"""Reads the two counters that matter out of a bookie's Prometheus page."""

from __future__ import annotations

import re

from brokerproof.run.observations import SampledMetric

_COUNTERS = {"bookie_WRITE_BYTES": SampledMetric.BYTES_WRITTEN, "bookie_READ_BYTES": SampledMetric.BYTES_READ}
_LINE = re.compile(r"^(?P<name>bookie_(?:WRITE|READ)_BYTES)(?:\{[^}]*\})?\s+(?P<value>\S+)", re.MULTILINE)


def parse_bookie_counters(page: str) -> dict[SampledMetric, int]:
    """`bytes_written` and `bytes_read` since the bookie started, from the text of its /metrics."""
    counters: dict[SampledMetric, int] = {}
    for match in _LINE.finditer(page):
        name = _COUNTERS[match["name"]]
        counters[name] = counters.get(name, 0) + int(float(match["value"]))
    return counters
