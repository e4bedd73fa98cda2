"""The counters of bytes written and read, from a bookie's metrics in Prometheus' format."""

from __future__ import annotations

import re

from brokerproof.errors import AdminError, shorten
from brokerproof.run.observations import SampledMetric

_COUNTERS = {"bookie_WRITE_BYTES": SampledMetric.BYTES_WRITTEN, "bookie_READ_BYTES": SampledMetric.BYTES_READ}
_LINE = re.compile(r"^(?P<name>bookie_(?:WRITE|READ)_BYTES)(?:\{[^}]*\})?\s+(?P<value>\S+)", re.MULTILINE)


def parse_bookie_counters(page: str) -> dict[SampledMetric, int]:
    """Return {metric: bytes written or read since the bookie started}, from the text of the bookie's page /metrics.

    Raises AdminError if a counter is missing or is no number of bytes.
    """
    counters: dict[SampledMetric, int] = {}
    for match in _LINE.finditer(page):
        name = _COUNTERS[match["name"]]
        counters[name] = counters.get(name, 0) + _parse_count(match["name"], match["value"])
    for counter, name in _COUNTERS.items():
        if name not in counters:
            raise AdminError(f"the bookie's metrics do not hold {counter}")
    return counters


def _parse_count(counter: str, value: str) -> int:
    try:
        count = int(float(value))
    except (ValueError, OverflowError):
        count = -1
    if count < 0:
        raise AdminError(f"{counter} in the bookie's metrics is `{shorten(value)}`, which is no count")
    return count
