"""What the link process measured, as samples of a run; taking them begins a new interval, so one process does it."""

from __future__ import annotations

from brokerproof.network.process import Link
from brokerproof.systems.protocols import Sample


def sample(link: Link) -> list[Sample]:
    """The traffic from each region to each other one, what the link added to it, and the process's own load.

    `added_…_ms` is beyond the delay that was ordered; where nothing was timed since the last samples, it is left out.
    """
    metrics = link.metrics()
    values: dict[tuple[str, str], float] = {
        ("link", "cpu_s"): metrics.cpu_s,
        ("link", "longest_turn_ms"): metrics.longest_turn_ms,
    }
    for pair in metrics.pairs:
        source = f"link:{pair.sender}>{pair.receiver}"
        values |= {(source, name): getattr(pair, name) for name in ("bytes", "held_bytes", "open", "opened", "refused")}
        values[source, "timed"] = pair.added.count
        if pair.added.count:
            values |= {(source, f"added_{name}"): getattr(pair.added, name) for name in ("p50_ms", "p99_ms", "max_ms")}
    return [
        Sample(at=metrics.at, source=source, metric=metric, value=str(round(value, 3)))
        for (source, metric), value in values.items()
    ]
